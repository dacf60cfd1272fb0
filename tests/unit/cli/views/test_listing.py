import io
from pathlib import Path

import pytest
from rich.console import Console, RenderableType
from tests.unit.analysis.builders import RunBuilder, finished_run, make_episode

from practicum.analysis.run_view import read_run, read_runs
from practicum.cli.views.charts import Canvas
from practicum.cli.views.run_tables import render_runs, render_whole_run
from practicum.store.run_dir import list_runs


def text_of(renderable: RenderableType, width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width, record=True)
    console.print(renderable)
    return console.export_text().splitlines()


def three_runs(runs_dir: Path) -> None:
    finished_run(runs_dir, "math-20261115-142233")
    stopped = RunBuilder(runs_dir, "longer", config={"model": "Qwen/Qwen2.5-0.5B-Instruct"}).begin()
    stopped.evaluate(0, 14).steps(1, 9).done()
    RunBuilder(runs_dir, "fresh")


@pytest.mark.parametrize("width", [80, 120])
def test_a_run_is_one_line_with_its_name_whole(tmp_path: Path, width: int) -> None:
    three_runs(tmp_path)
    views, _ = read_runs(list_runs(tmp_path))
    lines = text_of(render_runs(views, [], Canvas(width=width)), width)
    assert len(lines) == 4
    assert max(len(line.rstrip()) for line in lines) <= width
    done = next(line for line in lines if line.startswith("math-20261115-142233"))
    assert done.split()[:8] == [
        *("math-20261115-142233", "math", "smollm2-135m", "finished", "30/30", "7.97"),
        *("0.14", "→"),
    ]
    assert any(line.startswith("fresh") and "not started" in line for line in lines)


def test_a_run_not_yet_evaluated_after_training_has_only_a_before(tmp_path: Path) -> None:
    three_runs(tmp_path)
    views, _ = read_runs(list_runs(tmp_path))
    lines = text_of(render_runs(views, [], Canvas(width=80)), 80)
    (line,) = [line for line in lines if line.startswith("longer")]
    assert line.split()[2:] == ["Qwen2.5-0.5…", "stopped", "9/30", "2.73", "0.14", "now"]


def test_a_damaged_run_is_named_and_does_not_hide_the_others(tmp_path: Path) -> None:
    three_runs(tmp_path)
    (tmp_path / "longer" / "config.yaml").write_text("env: [")
    views, unreadable = read_runs(list_runs(tmp_path))
    assert len(views) == 2
    assert [run.name for run in unreadable] == ["longer"]
    text = " ".join(text_of(render_runs(views, unreadable, Canvas()), 80))
    assert "not valid YAML" in text
    assert "fresh" in text


def test_one_run_in_full_has_config_attempts_evaluations_checkpoints_and_steps(
    tmp_path: Path,
) -> None:
    view = read_run(finished_run(tmp_path))
    lines = text_of(render_whole_run(view, Canvas(), "It got better."), 80)
    text = "\n".join(lines)
    assert max(len(line) for line in lines) <= 80
    assert "algorithm    name=grpo lr=0.0002" in text
    assert "1        0 " in text
    assert sum("[" in line for line in lines) == 4
    assert "level 1 0.90 (n = 50), level 2 0.90 (n = 50)" in text
    assert "It got better." in text
    assert "step_10, step_20, step_30 (latest, best)" in text
    assert lines[next(i for i, x in enumerate(lines) if "last steps" in x) + 2].split()[0] == "21"
    assert "train step 29: 3x+7=16#0 · 3 turns · score -1.5 · not solved" in text


def test_the_tables_of_a_terminal_without_unicode_are_plain(tmp_path: Path) -> None:
    build = RunBuilder(tmp_path, config={"model": "modèle/ÿ"}).begin().evaluate(0, 14)
    view = read_run(build.step(1).episode(make_episode(), 1).done())
    raw = io.BytesIO()
    console = Console(file=io.TextIOWrapper(raw, encoding="ascii"), width=80)
    canvas = Canvas.of(console)
    console.print(render_runs([view], [], canvas))
    console.print(render_whole_run(view, canvas, "0.14 → 0.90"))
    console.file.flush()
    assert "mod?le/?" in raw.getvalue().decode("ascii")
