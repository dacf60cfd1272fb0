import os
import shutil
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.analysis.builders import LOST, RunBuilder, finished_run, make_episode

from practicum.analysis.run_view import RunStatus, StepRow, read_run
from practicum.core.errors import UserError
from practicum.core.trace import StopReason
from practicum.store.trace_store import SqliteTraceStore


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_a_run_that_was_only_made_is_not_started(tmp_path: Path) -> None:
    view = read_run(RunBuilder(tmp_path).run)
    assert (view.status, view.pid, view.steps_done) == (RunStatus.NOT_STARTED, None, 0)
    assert view.steps == view.evaluations == view.episodes == view.problems == ()


def test_a_run_whose_folder_is_held_is_running_with_the_pid_that_holds_it(tmp_path: Path) -> None:
    with RunBuilder(tmp_path).begin().steps(1, 3).training() as run:
        view = read_run(run)
    assert (view.status, view.pid) == (RunStatus.RUNNING, os.getpid())
    assert (view.steps_done, view.steps_total) == (3, 30)


def test_a_run_that_nobody_holds_and_that_has_steps_to_go_is_stopped(tmp_path: Path) -> None:
    view = read_run(RunBuilder(tmp_path).begin().steps(1, 3).done())
    assert (view.status, view.pid, view.time_left_s) == (RunStatus.STOPPED, None, None)


def test_a_run_is_finished_once_its_last_evaluation_is_there(tmp_path: Path) -> None:
    build = RunBuilder(tmp_path, config={"steps": 3}).begin().steps(1, 3)
    assert read_run(build.run).status is RunStatus.STOPPED
    build.evaluate(3, 90)
    assert read_run(build.done()).status is RunStatus.FINISHED


def test_a_finished_run_shows_what_was_written(tmp_path: Path) -> None:
    view = read_run(finished_run(tmp_path, "demo"))
    assert view.name == "demo"
    assert [row.step for row in view.steps] == list(range(1, 31))
    assert [point.step for point in view.evaluations] == [0, 10, 20, 30]
    assert view.before is not None
    assert view.after is not None
    assert (view.before.success.value, view.after.success.value) == (0.14, 0.9)
    assert view.config.env.options == {"level": 2}
    assert (view.checkpoints.steps, view.checkpoints.latest) == ((10, 20, 30), 30)
    assert view.checkpoints.best == 30
    assert view.problems == ()


def test_steps_done_again_after_a_resume_count_once(tmp_path: Path) -> None:
    build = RunBuilder(tmp_path).begin().steps(1, 8, reward=1.0)
    build.done()
    build.begin(from_step=5)
    view = read_run(build.run)
    assert (view.steps_done, len(view.steps)) == (5, 5)
    view = read_run(build.steps(6, 7, reward=2.0).done())
    assert [(row.step, row.number("reward")) for row in view.steps[4:]] == [
        (5, 1.0),
        (6, 2.0),
        (7, 2.0),
    ]
    assert [attempt.from_step for attempt in view.attempts] == [0, 5]


def test_a_number_that_was_not_recorded_or_not_finite_is_none() -> None:
    row = StepRow(step=1, time=0.0, values={"loss": None, "applied": True, "reward": 2})
    assert row.number("loss") is None
    assert row.number("entropy") is None
    assert row.number("applied") is None
    assert row.number("reward") == 2.0
    assert row.duration_s is None


def test_a_refused_update_is_told_from_one_that_was_never_tried() -> None:
    assert StepRow(step=1, time=0.0, values={"applied": False}).is_refused
    assert not StepRow(step=1, time=0.0, values={}).is_refused


def test_time_left_is_the_median_step_and_the_evaluations_ahead(tmp_path: Path) -> None:
    build = RunBuilder(tmp_path, config={"steps": 20, "eval": {"every": 8}}).begin()
    # Evaluations of 30 s each; those after steps 16 and 20 are still to come.
    build.evaluate(0, 14).evaluate(8, 40)
    build.steps(1, 9, rollout_s=8.0, update_s=2.0).step(10, rollout_s=500.0)
    with build.training() as run:
        view = read_run(run)
    just_after = replace(view, read_at=view.steps[-1].time)
    assert just_after.time_left_s == pytest.approx(10 * 10.0 + 2 * 30.0)
    assert replace(view, read_at=view.steps[-1].time + 4.0).time_left_s == pytest.approx(156.0)
    assert replace(view, read_at=view.steps[-1].time + 400.0).time_left_s == pytest.approx(150.0)


def test_time_left_is_unknown_before_the_first_step(tmp_path: Path) -> None:
    with RunBuilder(tmp_path).begin().evaluate(0, 14).training() as run:
        assert read_run(run).time_left_s is None


def test_the_newest_episodes_come_last_and_with_their_task(tmp_path: Path) -> None:
    build = RunBuilder(tmp_path).begin()
    for step in range(1, 6):
        build.episode(make_episode(name=f"e{step}"), step)
    shown = read_run(build.done()).episodes
    assert [view.summary.id for view in shown] == ["e3", "e4", "e5"]
    assert shown[-1].episode == make_episode(name="e5")
    assert shown[-1].task is not None
    assert shown[-1].task.level == 1


def test_a_torn_last_line_is_not_read_and_not_a_problem(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path).begin().steps(1, 2).done()
    with open(run.metrics_path, "ab") as file:
        file.write(b'{"kind": "step", "step": 3')
    view = read_run(run)
    assert (view.steps_done, view.problems) == (2, ())


def test_damage_is_named_and_the_rest_is_read(tmp_path: Path) -> None:
    build = RunBuilder(tmp_path).begin().step(1)
    with open(build.run.metrics_path, "ab") as file:
        file.write(b"not json\n")
    run = build.step(2).episode(make_episode(LOST, success=False), 2).done()
    (run.checkpoints_path / "best").write_text("step_zero")
    run.traces_path.write_bytes(b"not a database" * 100)
    view = read_run(run)
    assert view.steps_done == 2
    assert view.episodes == ()
    metrics, best, traces = view.problems
    assert "metrics.jsonl line 3" in metrics
    assert "best does not name a checkpoint" in best
    assert "traces.sqlite is not a trace database" in traces


def test_a_trace_file_whose_tables_are_still_being_made_is_a_problem_not_a_crash(
    tmp_path: Path,
) -> None:
    run = RunBuilder(tmp_path).run
    with sqlite3.connect(run.traces_path) as connection:
        connection.execute("CREATE TABLE other (x)")
    connection.close()
    view = read_run(run)
    assert view.episodes == ()
    assert len(view.problems) == 1
    assert "traces.sqlite" in view.problems[0]


def test_reading_leaves_every_file_as_it_was(tmp_path: Path) -> None:
    run = finished_run(tmp_path)
    before = contents(run.path)
    read_run(run)
    assert contents(run.path) == before


def test_reading_waits_for_no_writer_and_holds_none_up(tmp_path: Path) -> None:
    build = RunBuilder(tmp_path).begin().step(1).episode(make_episode(name="stored"), 1)
    with build.training() as run, SqliteTraceStore(run.traces_path) as store:
        writer = sqlite3.connect(run.traces_path, isolation_level=None)
        writer.execute("BEGIN IMMEDIATE")
        view = read_run(run)
        writer.execute("ROLLBACK")
        writer.close()
        store.add(make_episode(name="next"), attempt=1, step=2, purpose="train")
    assert [shown.summary.id for shown in view.episodes] == ["stored"]


def test_a_masked_episode_is_read_like_any_other(tmp_path: Path) -> None:
    broken = make_episode((), stop=StopReason.ENVIRONMENT_FAILED, failure="no room on device")
    view = read_run(RunBuilder(tmp_path).begin().episode(broken, 1).done())
    assert view.episodes[0].summary.score is None
    assert view.episodes[0].episode.trace.is_masked


def test_a_folder_that_went_away_is_the_users_to_know(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path).run
    shutil.rmtree(run.path)
    with pytest.raises(UserError, match="no longer a run's folder"):
        read_run(run)
