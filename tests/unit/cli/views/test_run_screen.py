import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from tests.unit.analysis.builders import LOST, RunBuilder, finished_run, make_episode

from practicum.analysis.run_view import RunView, read_run
from practicum.cli.progress import TrainingProgress
from practicum.cli.views.charts import Canvas
from practicum.cli.views.run_screen import render_run
from practicum.cli.views.run_tables import render_whole_run
from practicum.core.trace import StopReason


def frame(view: RunView, canvas: Canvas) -> list[str]:
    console = Console(file=io.StringIO(), width=canvas.width, record=True)
    console.print(render_run(view, canvas))
    return console.export_text().splitlines()


def troubled_run(runs_dir: Path) -> RunView:
    """A run in training with everything there is to show."""
    build = RunBuilder(runs_dir).begin().evaluate(0, 14).steps(1, 12)
    build.step(13, applied=False, loss=None, grad_norm=None)
    build.steps(14, 18, flat_share=0.6, masked_episodes=2, logprob_gap=6.2e-5)
    build.checkpoint(10, best=True).evaluate(10, 45)
    long = make_episode(LOST * 4, success=False, stop=StopReason.MAX_TURNS)
    with build.episode(long, 18).training() as run:
        return read_run(run)


def test_the_frame_has_the_run_its_progress_and_its_evidence(tmp_path: Path) -> None:
    lines = frame(read_run(finished_run(tmp_path)), Canvas())
    assert lines[0] == "math-demo · math level=2 · smollm2-135m · cpu, 2 threads"
    assert lines[1] == "finished"
    assert lines[2].startswith("step 30/30 ━")
    assert lines[2].endswith(" 100%")
    before = next(line for line in lines if line.startswith("before"))
    after = next(line for line in lines if line.startswith("step 30 best"))
    assert "0.14 [0.09, 0.22]" in before
    assert "0.90 [0.83, 0.94]" in after


def test_the_latest_episode_is_told_turn_by_turn(tmp_path: Path) -> None:
    lines = frame(read_run(finished_run(tmp_path)), Canvas())
    told = lines[next(i for i, line in enumerate(lines) if "latest episode" in line) :]
    assert "train step 30 · score 8.5 · solved" in told[0]
    assert told[1] == "3x + 7 = 16"
    assert told[3].split() == ["2", "subtract_terms", "→", "3x", "=", "9", "+2.00"]
    assert told[5].split() == ["4", "state_answer", "→", "(solved)", "+3.00"]


@pytest.fixture(scope="module")
def full_views(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunView, RunView]:
    finished = finished_run(tmp_path_factory.mktemp("finished"))
    return troubled_run(tmp_path_factory.mktemp("troubled")), read_run(finished)


@pytest.mark.parametrize("ascii_only", [False, True])
@pytest.mark.parametrize("height", [24, 30, 40, 50, None])
@pytest.mark.parametrize("width", [80, 100, 120, 200])
def test_a_frame_fits_the_terminal(
    full_views: tuple[RunView, RunView], width: int, height: int | None, ascii_only: bool
) -> None:
    canvas = Canvas(width=width, height=height, ascii_only=ascii_only)
    for view in full_views:
        lines = frame(view, canvas)
        assert max(len(line) for line in lines) <= width
        assert height is None or len(lines) <= height
        assert any("held-out" in line for line in lines)
        assert any("latest episode" in line for line in lines)


def test_a_low_terminal_has_sparklines_and_a_high_one_charts(tmp_path: Path) -> None:
    view = read_run(finished_run(tmp_path))
    low, high = frame(view, Canvas(height=24)), frame(view, Canvas(height=50))
    assert sum("│" in line for line in low) == 0
    assert sum("│" in line for line in high) >= 9


def test_a_low_terminal_shows_the_end_of_a_long_episode(tmp_path: Path) -> None:
    lines = frame(troubled_run(tmp_path), Canvas(height=24))
    assert lines[-1].split()[:2] == ["12", "state_answer"]
    assert "(cut off at the turn limit)" in lines[-1]


def test_a_terminal_without_unicode_gets_none_of_it(tmp_path: Path) -> None:
    odd = make_episode(
        (("multiply_terms", "½·x ≤ 3 ✓", 1.0), ("state_answer", "", 3.0)), question="½x − 1 → ?"
    )
    build = RunBuilder(tmp_path).begin().evaluate(0, 14).steps(1, 12, flat_share=0.9)
    view = read_run(build.episode(odd, 12).done())
    raw = io.BytesIO()
    console = Console(file=io.TextIOWrapper(raw, encoding="ascii"), width=80)
    console.print(render_run(view, Canvas.of(console)))
    console.file.flush()
    text = raw.getvalue().decode("ascii")
    assert "?x - 1 -> ?" in text
    assert "multiply_terms -> ?-x <= 3 ?" in text


def test_what_an_episode_says_is_never_markup_nor_a_command_to_the_terminal(
    tmp_path: Path,
) -> None:
    nasty = make_episode((("[bold]rm[/bold]", "\x1b[2Jgone\nnext", 0.0), ("stop", "", 0.0)))
    view = read_run(RunBuilder(tmp_path).begin().step(1).episode(nasty, 1).done())
    lines = frame(view, Canvas())
    assert any("[bold]rm[/bold]" in line and "?[2Jgone next" in line for line in lines)


def test_a_run_in_training_says_who_trains_and_how_long_it_will_take(tmp_path: Path) -> None:
    view = troubled_run(tmp_path)
    lines = frame(replace(view, read_at=view.steps[-1].time), Canvas())
    assert lines[1] == f"running (pid {view.pid})"
    assert lines[2].startswith("step 18/30 ")
    assert lines[2].endswith(" left")


def test_a_stopped_run_says_how_to_go_on(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path).begin().steps(1, 4).done()
    text = " ".join(frame(read_run(run), Canvas(width=200)))
    assert f"go on with: practicum train --resume {run.path}" in text


def test_a_resumed_run_says_so(tmp_path: Path) -> None:
    build = RunBuilder(tmp_path).begin().steps(1, 4)
    build.done()
    with build.begin(from_step=3).training() as run:
        assert "attempt 2, resumed at step 3" in frame(read_run(run), Canvas())[1]


def test_the_evaluations_at_both_ends_of_the_run_are_named_while_they_run(tmp_path: Path) -> None:
    first = RunBuilder(tmp_path / "c").begin()
    with first.training() as run:
        assert "evaluation before the first step" in frame(read_run(run), Canvas())[1]
    last = RunBuilder(tmp_path / "d", config={"steps": 2}).begin().evaluate(0, 1).steps(1, 2)
    with last.training() as run:
        assert "last evaluation" in frame(read_run(run), Canvas())[1]


def test_a_trainer_that_still_loads_its_model_is_starting(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path).run
    with run.hold():
        assert frame(read_run(run), Canvas())[1].endswith("starting")


def test_only_the_ends_of_many_evaluations_are_shown(tmp_path: Path) -> None:
    build = RunBuilder(tmp_path).begin()
    for step in range(0, 31):
        build.step(step) if step else None
        build.evaluate(step, 10 + 2 * step)
    view = read_run(build.done())
    low = [line for line in frame(view, Canvas(height=24)) if "[" in line]
    free = [line for line in frame(view, Canvas()) if "[" in line]
    assert [line.split("0.")[0].strip() for line in low] == ["before", "step 30"]
    assert len(free) == 4


def test_a_run_that_was_only_made_has_a_frame_of_three_lines(tmp_path: Path) -> None:
    lines = frame(read_run(RunBuilder(tmp_path).run), Canvas())
    assert lines[1] == "not started"
    assert len(lines) == 3


def test_many_alerts_leave_room_for_the_rest(tmp_path: Path) -> None:
    build = RunBuilder(tmp_path).begin().step(1)
    with open(build.run.metrics_path, "ab") as file:
        file.write(b"broken\n" * 20)
    view = read_run(build.step(2).done())
    assert len(view.problems) == 20
    lines = frame(view, Canvas(height=24))
    assert len(lines) <= 24
    assert any("more with: practicum runs" in line for line in lines)
    assert any(line.startswith("reward") for line in lines)


def test_a_run_that_never_got_better_than_it_began_has_its_best_there(tmp_path: Path) -> None:
    build = RunBuilder(tmp_path).begin().evaluate(0, 60).steps(1, 10)
    run = build.checkpoint(10, best=True).evaluate(10, 20).done()
    lines = frame(read_run(run), Canvas())
    assert any(line.startswith("before best") for line in lines)
    assert not any(line.startswith("step 10 best") for line in lines)


OFFLINE = {
    "stage": "dpo",
    "loss": 0.61,
    "heldout_loss": 0.66,
    "heldout_in_order": 0.75,
    "margin": 0.31,
    "pairs_in_order": 0.8,
    "examples": 16,
    "epoch": 1.5,
}


def test_what_offline_methods_report_is_drawn(tmp_path: Path) -> None:
    build = RunBuilder(tmp_path, config={"env": None}).begin()
    for step in range(1, 4):
        build._log.append("step", step=step, values={**OFFLINE, "update_s": 1.0})
    text = "\n".join(frame(read_run(build.done()), Canvas()))
    for told in ("loss 0.61", "held-out loss 0.66", "held-out accuracy 0.75", "margin 0.31"):
        assert told in text
    assert "16 examples · epoch 1.50" in text


def test_a_run_on_recorded_rows_tells_its_ranking_before_and_after(tmp_path: Path) -> None:
    build = RunBuilder(tmp_path, config={"env": None}).begin()
    before = {"heldout_loss_before": 0.69, "heldout_in_order_before": 0.5}
    rows = [{**OFFLINE, **before}, {**OFFLINE, "heldout_loss": 7.1e-4, "grad_norm": 0.00736}]
    for step, values in enumerate(rows, 1):
        build._log.append("step", step=step, values={**values, "update_s": 1.0})
    console = Console(file=io.StringIO(), width=80, record=True)
    console.print(render_whole_run(read_run(build.done()), Canvas()))
    text = console.export_text()
    assert "held-out rows: loss 0.69 → 0.00" in text
    assert "good before bad, more than the base model does: 0.50 → 0.75 of their pairs" in text
    heading = next(line for line in text.splitlines() if line.startswith("step "))
    headings = "step loss held-out accuracy margin KL gradient epoch examples seconds"
    assert headings in " ".join(text.split()), heading


def test_the_ranking_before_training_is_printed_as_it_is_measured() -> None:
    console = Console(file=io.StringIO(), width=80, record=True)
    progress = TrainingProgress(console, 2)
    first = {"heldout_loss_before": 0.5, "heldout_in_order_before": 0.5, "heldout_pairs_before": 9}
    progress.step_done(1, {"examples": 4, "stage": "kto", **first})
    assert (
        "held-out rows before step 1: loss 0.500, good before bad, more than the base model does, "
        "in 0.50 of 9 pairs"
    ) in console.export_text()
