import json
from pathlib import Path

from tests.unit.analysis.builders import RunBuilder, finished_run

from practicum.analysis.run_json import brief_to_json, view_to_json
from practicum.analysis.run_view import read_run


def test_a_run_in_full_is_json_with_every_part(tmp_path: Path) -> None:
    values = view_to_json(read_run(finished_run(tmp_path)))
    again = json.loads(json.dumps(values, allow_nan=False))
    assert again == values
    assert (again["status"], again["steps_done"], again["steps_total"]) == ("finished", 30, 30)
    assert [row["step"] for row in again["steps"]] == list(range(1, 31))
    assert again["steps"][0]["episodes"] == 32
    assert [point["step"] for point in again["evaluations"]] == [0, 10, 20, 30]
    assert again["checkpoints"] == {"steps": [10, 20, 30], "latest": 30, "best": 30}
    assert again["config"]["env"] == {"name": "math", "level": 2}
    assert [episode["id"] for episode in again["episodes"]] == ["a", "b"]


def test_a_bound_that_does_not_exist_is_null(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path).begin().evaluate(0, 1, n=1).done()
    before = brief_to_json(read_run(run))["before"]
    assert isinstance(before, dict)
    assert json.loads(json.dumps(before, allow_nan=False))["reward"]["low"] is None


def test_a_run_that_was_only_made_has_nulls_for_what_is_not_there(tmp_path: Path) -> None:
    values = brief_to_json(read_run(RunBuilder(tmp_path).run))
    assert (values["reward"], values["before"], values["after"]) == (None, None, None)
    assert values["status"] == "not started"
