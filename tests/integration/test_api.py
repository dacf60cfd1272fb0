"""`import practicum as pr`: check, train, evaluate, play from Python, in scripts and notebooks."""

import asyncio
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import nbclient
import nbformat
import pytest

import practicum as pr
from practicum.core.errors import PracticumError
from practicum.core.task import Split
from practicum.environments.registry import build_environment

REPOSITORY = Path(__file__).parents[2]
QUICK: dict[str, Any] = {
    "model": "tiny",
    "steps": 1,
    "rollouts": {"tasks_per_step": 2, "group_size": 4},
    "eval": {"n": 4},
    "hardware": {"threads": 1},
    "quiet": True,
}

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> pr.Run:
    return pr.train("math", runs_dir=str(tmp_path_factory.mktemp("runs")), name="api", **QUICK)


def test_a_run_has_its_metrics_report_and_checkpoint(run: pr.Run) -> None:
    [step] = run.metrics
    assert step["step"] == 1
    assert isinstance(step["reward"], float)
    assert run.report is not None
    assert run.report.success.n == 4
    assert run.report.success.low <= run.report.success.value <= run.report.success.high
    assert run.checkpoint is not None
    assert run.checkpoint.step == 1
    assert run.config.model.name == "tiny"
    assert repr(run).startswith(f"Run({str(run.path)!r}, 1 steps, success ")


def test_a_run_is_found_again_by_its_folder(run: pr.Run) -> None:
    assert pr.load(run.path).metrics == run.metrics
    assert pr.load("api", runs_dir=run.path.parent).path == run.path
    with pytest.raises(pr.UserError, match="nowhere"):
        pr.load("nowhere", runs_dir=run.path.parent)


def test_evaluations_are_compared_task_by_task(run: pr.Run) -> None:
    found = pr.evaluate(run, n=6, against="base", quiet=True)
    assert found.report.success.n == 6
    assert found.comparison is not None
    assert found.comparison.n_tasks == 6
    assert "on the 6" in str(found)


def test_one_episode_can_be_read(run: pr.Run) -> None:
    played = pr.play("reference", "3x + 7 = 16", env="math")
    assert played.success
    assert played.reward == 8.5
    assert "3x + 7 = 16" in str(played)
    assert pr.play(run, "3x + 7 = 16").reward is not None


def test_it_works_where_an_event_loop_runs_already(tmp_path: Path) -> None:
    async def notebook() -> pr.Run:
        return pr.train("math", runs_dir=str(tmp_path), **QUICK)

    async def program() -> pr.Run:
        return await pr.train_async("math", runs_dir=str(tmp_path), name="awaited", **QUICK)

    assert len(asyncio.run(notebook()).metrics) == 1
    assert len(asyncio.run(program()).metrics) == 1


def test_a_run_goes_on_from_python(tmp_path: Path) -> None:
    first = pr.train("math", runs_dir=str(tmp_path), name="more", **QUICK)
    longer = pr.train(resume=first.path, steps=2, quiet=True)
    assert [row["step"] for row in longer.metrics] == [1, 2]


@pytest.mark.rare
def test_a_class_of_a_script_can_be_resumed_by_another_process(tmp_path: Path) -> None:
    source = (REPOSITORY / "examples" / "01_own_environment.py").read_text(encoding="utf-8")
    script = tmp_path / "lamps.py"
    kept = source.replace("with TemporaryDirectory() as folder:", f"for folder in ['{tmp_path}']:")
    assert kept != source
    for steps in ('"steps": 60', '"steps": 20'):
        assert steps in kept
        kept = kept.replace(steps, '"steps": 1')
    script.write_text(kept, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert done.returncode == 0, done.stderr
    [made] = tmp_path.rglob("LampEnvironment-*")
    assert len(pr.train(resume=made, quiet=True).metrics) == 2


def test_options_are_checked_before_anything_is_loaded(tmp_path: Path) -> None:
    with pytest.raises(pr.ConfigError, match="stepz"):
        pr.train("math", model="tiny", stepz=3, runs_dir=str(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_a_chart_is_a_picture(run: pr.Run, tmp_path: Path) -> None:
    chart = run.plot("reward")
    chart.save(tmp_path / "reward.svg")
    assert "<svg" in (tmp_path / "reward.svg").read_text(encoding="utf-8")
    with pytest.raises(pr.UserError, match="no metric 'rewad'"):
        run.plot("rewad")


@pytest.mark.rare
def test_an_interrupted_cell_keeps_what_was_learned(tmp_path: Path) -> None:
    options = {**QUICK, "steps": 500, "quiet": False, "checkpoints": {"every": 1000}}

    async def notebook() -> None:
        pr.train("math", runs_dir=str(tmp_path), name="cell", **options)

    def interrupt() -> None:
        while (
            not (tmp_path / "cell" / "metrics.jsonl").is_file()
            or not pr.load(tmp_path / "cell").metrics
        ):
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    # A shell that starts a program in the background has it ignore Ctrl-C; a notebook does not.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Thread(target=interrupt).start()
    kernel = asyncio.new_event_loop()  # `asyncio.run` has a way of its own with Ctrl-C
    try:
        with pytest.raises(KeyboardInterrupt):
            kernel.run_until_complete(notebook())
    finally:
        kernel.close()
        signal.signal(signal.SIGINT, before)
    run = pr.load(tmp_path / "cell")
    assert run.checkpoint is not None
    assert 1 <= run.checkpoint.step <= len(run.metrics) < 500


@pytest.mark.rare
def test_the_loop_on_one_page_learns(tmp_path: Path) -> None:
    example = REPOSITORY / "examples" / "00_loop.py"
    assert len(example.read_text(encoding="utf-8").splitlines()) <= 120
    command = [sys.executable, str(example)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    rewards = [float(found) for found in re.findall(r"reward ([\d.]+)", done.stdout)]
    assert len(rewards) == 40
    assert rewards[-1] > rewards[0] + 0.3
    before, after = re.findall(r"success ([\d.]+) \[([\d.]+), ([\d.]+)\]", done.stdout)
    assert float(after[1]) > float(before[2])  # the intervals do not touch


def readme_cells() -> list[str]:
    """The README's Python, a cell for each paragraph."""
    text = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    return [cell.strip() for block in blocks for cell in block.split("\n\n")]


@pytest.mark.rare
def test_a_notebook_that_follows_the_readme_works(tmp_path: Path) -> None:
    cells = [nbformat.v4.new_code_cell(cell) for cell in readme_cells()]
    notebook = nbformat.v4.new_notebook(cells=cells)
    place = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(notebook, timeout=240, resources=place).execute()
    outputs = [output for cell in notebook.cells for output in cell.outputs]
    shown = {kind: data for output in outputs for kind, data in output.get("data", {}).items()}
    said = "".join(output.get("text", "") for output in outputs)
    assert "True" in [output.get("data", {}).get("text/plain") for output in outputs]  # sound
    assert "<table>" in shown["text/html"]  # metrics
    assert shown["image/png"]  # the chart
    assert "step 2 of 2: grpo" in said  # progress
    assert re.search(r"success\D+[\d.]+ \[[\d.]+, [\d.]+\]", said)
    assert "3x + 7 = 16" in said


class ShortOfTasks:
    """Leaves the program in place of its third task."""

    name = "short of tasks"
    all_levels = (1,)
    session_kind = "discrete"

    class Options(pr.ConfigModel):
        pass

    def __init__(self, options: Options) -> None:
        self.inner = build_environment("math", {"level": 1})

    def tasks(self, split: Split, seed: int) -> Iterator[pr.Task]:
        yield from islice(self.inner.tasks(split, seed), 2)
        sys.exit(0)

    def open(self, task: pr.Task) -> Any:
        return self.inner.open(task)

    def reference(self, task: pr.Task) -> Sequence[str]:
        return self.inner.reference(task)


def test_an_environment_whose_tasks_leave_the_program_does_not_end_the_run_in_silence(
    tmp_path: Path,
) -> None:
    with pytest.raises(PracticumError, match="exit code 0"):
        pr.train(ShortOfTasks, runs_dir=str(tmp_path), name="short", **QUICK)


def test_an_environment_whose_tasks_leave_the_program_does_not_end_an_evaluation_in_silence() -> (
    None
):
    with pytest.raises(PracticumError, match="exit code 0"):
        pr.evaluate("reference", env=ShortOfTasks, n=4)
