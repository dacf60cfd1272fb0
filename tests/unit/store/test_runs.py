from pathlib import Path

import pytest

from practicum.core.config.run_config import RunConfig
from practicum.core.errors import UserError
from practicum.store.run_dir import RunDir, find_run, latest_run, list_runs


@pytest.fixture
def runs_dir(tmp_path: Path, config: RunConfig) -> Path:
    """Three runs, made in the order old, middle, new."""
    runs_dir = tmp_path / "runs"
    for name in ("old", "middle", "new"):
        RunDir.create(runs_dir, config, name=name)
    return runs_dir


def test_runs_are_listed_newest_first(runs_dir: Path) -> None:
    assert [run.name for run in list_runs(runs_dir)] == ["new", "middle", "old"]


def test_a_run_started_again_is_the_newest(runs_dir: Path) -> None:
    RunDir(runs_dir / "old").begin_attempt(from_step=0, threads=1, device="cpu")
    assert latest_run(runs_dir).name == "old"


def test_what_is_not_a_run_is_not_listed(runs_dir: Path) -> None:
    (runs_dir / "notes").mkdir()
    (runs_dir / "file").write_text("")
    (runs_dir / "new").rename(runs_dir / ".new.tmp-1")
    assert [run.name for run in list_runs(runs_dir)] == ["middle", "old"]


def test_a_run_with_damaged_facts_is_still_listed(runs_dir: Path) -> None:
    (runs_dir / "new" / "run.json").write_text("{")
    assert [run.name for run in list_runs(runs_dir)] == ["middle", "old", "new"]


def test_a_folder_that_is_not_there_has_no_runs(tmp_path: Path) -> None:
    assert list_runs(tmp_path / "none") == []
    with pytest.raises(UserError, match=r"there are no runs in .*none; start one with: practicum"):
        latest_run(tmp_path / "none")


def test_a_run_is_found_by_name_by_path_and_as_latest(runs_dir: Path) -> None:
    assert find_run("middle", runs_dir).name == "middle"
    assert find_run(runs_dir / "middle", Path("elsewhere")).name == "middle"
    assert find_run("latest", runs_dir).name == "new"
    assert find_run(runs_dir / "latest", Path("elsewhere")).name == "new"


def test_a_missing_run_names_the_nearest_and_the_newest(runs_dir: Path) -> None:
    with pytest.raises(UserError) as caught:
        find_run("midle", runs_dir)
    message = str(caught.value)
    assert "there is no run 'midle'; did you mean 'middle'?" in message
    assert "new, middle, old" in message


def test_a_missing_run_given_as_a_path_is_looked_up_where_it_should_be(runs_dir: Path) -> None:
    with pytest.raises(UserError, match=r"did you mean 'middle'\?"):
        find_run(runs_dir / "middel", Path("elsewhere"))


def test_a_missing_run_where_there_are_none_says_how_to_start_one(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no runs in .*; start one with: practicum train math"):
        find_run("x", tmp_path)
