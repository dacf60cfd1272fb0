import json
import math
from pathlib import Path

from tests.unit.analysis.builders import make_report

from practicum.analysis.evaluations import read_points
from practicum.core.task import JSON
from practicum.evaluation.report import report_to_json
from practicum.store.events import EventRow


def row(step: int, value: float = 0.5) -> EventRow:
    interval: JSON = {"value": value, "low": 0.4, "high": 0.6, "n": 50}
    values: dict[str, JSON] = {"success": interval, "reward": interval}
    return EventRow(kind="eval", attempt=1, step=step, time=0.0, values=values)


def write_report(folder: Path, step: int, successes: int, n: int = 100) -> None:
    folder.mkdir(exist_ok=True)
    report = report_to_json(make_report(step, successes, n))
    (folder / f"step_{step}.json").write_text(json.dumps(report))


def test_a_row_alone_is_an_evaluation(tmp_path: Path) -> None:
    points, problems = read_points(tmp_path / "evals", [row(0)], steps_done=0)
    assert problems == []
    assert (points[0].success.value, points[0].success.n) == (0.5, 50)
    assert not points[0].has_report


def test_a_report_adds_levels_and_duration_to_its_row(tmp_path: Path) -> None:
    write_report(tmp_path, 10, successes=60)
    (point,), _ = read_points(tmp_path, [row(10)], steps_done=10)
    assert point.has_report
    assert point.success.value == 0.6
    assert {level: found.n for level, found in point.success_by_level.items()} == {1: 50, 2: 50}
    assert point.duration_s == 30.0


def test_a_report_from_before_the_run_went_back_does_not_count(tmp_path: Path) -> None:
    for step in (10, 20):
        write_report(tmp_path, step, successes=50)
    points, _ = read_points(tmp_path, [row(10)], steps_done=15)
    assert [point.step for point in points] == [10]


def test_steps_are_in_the_order_of_numbers_not_of_names(tmp_path: Path) -> None:
    for step in (0, 5, 10, 100):
        write_report(tmp_path, step, successes=50)
    points, _ = read_points(tmp_path, [], steps_done=100)
    assert [point.step for point in points] == [0, 5, 10, 100]


def test_a_damaged_report_is_named_and_its_row_stands(tmp_path: Path) -> None:
    (tmp_path / "step_10.json").write_text('{"success": {"value"')
    points, problems = read_points(tmp_path, [row(10)], steps_done=10)
    assert [(point.step, point.success.value) for point in points] == [(10, 0.5)]
    assert len(problems) == 1
    assert "step_10.json cannot be read" in problems[0]


def test_a_row_without_its_numbers_is_named(tmp_path: Path) -> None:
    bad = EventRow(kind="eval", attempt=1, step=3, time=0.0, values={"success": 0.5})
    points, problems = read_points(tmp_path, [bad], steps_done=3)
    assert points == ()
    assert "step 3" in problems[0]


def test_a_bound_that_does_not_exist_is_infinite(tmp_path: Path) -> None:
    write_report(tmp_path, 0, successes=1, n=1)
    (point,), _ = read_points(tmp_path, [], steps_done=0)
    assert (point.reward.low, point.reward.high) == (-math.inf, math.inf)
