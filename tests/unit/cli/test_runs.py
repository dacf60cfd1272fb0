import json
from pathlib import Path
from typing import Any

import pytest
import typer
from tests.unit.analysis.builders import RunBuilder, finished_run
from typer.testing import CliRunner

from practicum.cli.runs import runs
from practicum.core.errors import UserError

app = typer.Typer(pretty_exceptions_enable=False)
app.command()(runs)


def run_runs(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0
    return result.stdout


def as_json(*arguments: str) -> dict[str, Any]:
    values = json.loads(run_runs(*arguments, "--json"))
    assert isinstance(values, dict)
    return values


def test_runs_are_listed_with_the_one_started_last_first(runs_dir: Path) -> None:
    finished_run(runs_dir, "older")
    RunBuilder(runs_dir, "newer").begin().steps(1, 3).done()
    lines = run_runs("--runs-dir", str(runs_dir)).splitlines()
    assert [line.split()[0] for line in lines] == ["run", "newer", "older"]
    assert "0.14 → 0.90" in lines[2]


def test_the_list_as_json_is_one_object(runs_dir: Path) -> None:
    finished_run(runs_dir, "demo")
    values = as_json("--runs-dir", str(runs_dir))
    (run,) = values["runs"]
    assert (run["name"], run["status"], run["steps_done"]) == ("demo", "finished", 30)
    assert (run["before"]["success"]["value"], run["after"]["success"]["n"]) == (0.14, 100)
    assert values["unreadable"] == []


def test_a_folder_without_runs_says_how_to_start_one(runs_dir: Path) -> None:
    assert "practicum train math" in run_runs("--runs-dir", str(runs_dir))
    assert as_json("--runs-dir", str(runs_dir / "nowhere"))["runs"] == []


def test_a_damaged_run_is_listed_with_its_reason(runs_dir: Path) -> None:
    run = finished_run(runs_dir, "demo")
    run.config_path.write_text("env: math\nstep: 3\n")
    (found,) = as_json("--runs-dir", str(runs_dir))["unreadable"]
    assert found["name"] == "demo"
    assert "unknown key 'step'" in found["reason"]
    assert "unknown key 'step'" in " ".join(run_runs("--runs-dir", str(runs_dir)).split())


def test_one_run_in_full_says_what_training_gained_on_the_same_tasks(runs_dir: Path) -> None:
    finished_run(runs_dir, "demo")
    text = " ".join(run_runs("demo", "--runs-dir", str(runs_dir)).split())
    assert "step_30 solves more of the 100 tasks than smollm2-135m (+0.760 [" in text


def test_one_run_as_json_has_the_paired_difference(runs_dir: Path) -> None:
    finished_run(runs_dir, "demo")
    values = as_json("latest", "--runs-dir", str(runs_dir))
    gained = values["comparison"]
    assert gained["success_difference"]["value"] == pytest.approx(0.76)
    assert gained["n_tasks"] == 100
    assert [point["step"] for point in values["evaluations"]] == [0, 10, 20, 30]


def test_a_run_evaluated_once_has_nothing_to_compare(runs_dir: Path) -> None:
    RunBuilder(runs_dir, "demo").begin().evaluate(0, 14).steps(1, 2).done()
    assert as_json("demo", "--runs-dir", str(runs_dir))["comparison"] is None
    assert "solves" not in run_runs("demo", "--runs-dir", str(runs_dir))


def test_evaluations_that_cannot_be_compared_say_why_and_hide_nothing(runs_dir: Path) -> None:
    build = RunBuilder(runs_dir, "demo").begin().evaluate(0, 14).step(1)
    build.evaluate(1, 30, n=50).done()
    text = " ".join(run_runs("demo", "--runs-dir", str(runs_dir)).split())
    assert "were evaluated on different tasks" in text
    assert "last steps" in text
    assert as_json("demo", "--runs-dir", str(runs_dir))["comparison"] is None


def test_a_run_that_does_not_exist_is_the_users_mistake(runs_dir: Path) -> None:
    finished_run(runs_dir, "demo")
    with pytest.raises(UserError, match=r"there is no run 'other'; the newest in .*: demo"):
        run_runs("other", "--runs-dir", str(runs_dir))
