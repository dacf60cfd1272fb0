from io import StringIO
from pathlib import Path

from rich.console import Console
from tests.unit.analysis.builders import RunBuilder, finished_run, step_values

from practicum.analysis.alerts import find_alerts
from practicum.analysis.run_json import brief_to_json, view_to_json
from practicum.analysis.run_view import RunView, read_run
from practicum.cli.views.charts import Canvas
from practicum.cli.views.run_screen import render_alerts
from practicum.cli.views.run_tables import (
    render_runs,
    render_whole_run,
)
from practicum.store.events import EventLog
from practicum.store.run_dir import RunDir


def collapsed(tmp_path: Path) -> RunDir:
    build = RunBuilder(tmp_path).begin().steps(1, 5)
    return build.steps(6, 13, flat_share=1.0, success=0.0, reward=1.0, entropy=None).done()


def written(shown: object, width: int = 400) -> str:
    file = StringIO()
    Console(width=width, file=file).print(shown)
    return file.getvalue()


def written_lines(view: RunView) -> str:
    return "".join(written(line) for line in render_alerts(view, Canvas(width=400)))


def test_a_sign_that_is_there_is_severe_and_said_instead_of_the_milder_one(tmp_path: Path) -> None:
    alerts = [alert for alert in find_alerts(read_run(collapsed(tmp_path))) if alert.is_severe]
    assert [alert.text.partition(" groups")[0] for alert in alerts] == ["step 8: 12 of the last 12"]
    texts = [alert.text for alert in find_alerts(read_run(collapsed(tmp_path / "more")))]
    assert not any("recent groups" in text for text in texts)


def test_the_list_of_runs_marks_those_with_alarms(tmp_path: Path) -> None:
    views = [read_run(collapsed(tmp_path / "a")), read_run(finished_run(tmp_path / "b"))]
    assert [brief_to_json(view)["alarms"] for view in views] == [1, 0]
    assert "▲1" in written(render_runs(views[:1], [], Canvas(width=120)), 120)
    assert "!1" in written(render_runs(views[:1], [], Canvas(width=120, ascii_only=True)), 120)
    assert "▲" not in written(render_runs(views[1:], [], Canvas(width=120)), 120)


def test_a_run_in_full_lists_each_alarm_once_with_its_step(tmp_path: Path) -> None:
    view = read_run(collapsed(tmp_path))
    shown = written(render_whole_run(view, Canvas(width=400)))
    assert shown.count("step 8: 12 of the last 12 groups") == 1
    [alarm] = view_to_json(view)["alarms"]  # type: ignore[misc]
    assert (alarm["step"], alarm["since"], alarm["kind"]) == (8, 6, "flat")  # type: ignore[index,call-overload]


def test_a_run_that_went_back_says_so_and_is_no_longer_alarmed(tmp_path: Path) -> None:
    run = collapsed(tmp_path)
    with EventLog(run.metrics_path, attempt=2, from_step=13) as log:
        values = {"since": 6, "to": 5, "text": "back to the weights of step 5"}
        log.append("recovery", step=13, values=values)
        for step in range(14, 17):
            log.append("step", step=step, values=step_values(step, recoveries=1))
    view = read_run(run)
    assert [found.step for found in view.recoveries] == [13]
    shown = written(render_whole_run(view, Canvas(width=400)))
    assert "step 13: back to the weights of step 5" in shown
    assert "step 8: 12 of the last 12 groups" in shown
    assert "groups had equal" not in written_lines(view)
