"""Runs by the names of URLs, and reading them again only when they have changed."""

from pathlib import Path

import pytest
from tests.unit.analysis.builders import RunBuilder, finished_run

from practicum.core.errors import UserError
from practicum.monitor.chart_data import MOST_POINTS, draw_run, draw_together, sections_of
from practicum.monitor.run_folders import RunFolders, folder_stamp
from practicum.monitor.run_notes import RunNotes, read_notes, write_notes
from practicum.monitor.run_pages import config_differences


def test_a_run_is_read_again_only_when_it_has_changed(tmp_path: Path) -> None:
    build = RunBuilder(tmp_path, "one").begin().steps(1, 2)
    runs = RunFolders(tmp_path)
    first, stamp = runs.view("one"), folder_stamp(tmp_path)
    assert runs.view("one") is first
    assert folder_stamp(tmp_path) == stamp
    build.step(3).done()
    assert runs.view("one").steps_done == 3
    assert folder_stamp(tmp_path) != stamp


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../one", "/one", "one/../one", "one\x00", "a/b/c"]
)
def test_only_names_of_runs_are_opened(tmp_path: Path, name: str) -> None:
    finished_run(tmp_path / "runs", "one")
    with pytest.raises(UserError, match="there is no run"):
        RunFolders(tmp_path / "runs").run(name)


def test_a_damaged_run_does_not_hide_the_others(tmp_path: Path) -> None:
    finished_run(tmp_path, "one")
    RunBuilder(tmp_path, "two").begin().done().config_path.write_text("[")
    views, unreadable = RunFolders(tmp_path).views()
    assert list(views) == ["one"]
    assert [one.name for one in unreadable] == ["two"]


def test_a_long_run_is_thinned_and_keeps_its_end(tmp_path: Path) -> None:
    build = RunBuilder(tmp_path, "long", {"steps": 4000}).begin()
    for step in range(1, 4001):
        build._log.append("step", step=step, values={"reward": float(step)})
    build.done()
    charts = {one["id"]: one for one in draw_run(RunFolders(tmp_path).view("long"))["charts"]}  # type: ignore[union-attr,index,call-overload]
    (series,) = charts["reward"]["series"]
    assert len(series["x"]) <= MOST_POINTS
    assert series["x"][-1] == 4000
    assert series["y"][0] == pytest.approx(2.0)  # the mean of the first three
    assert set(charts) == {"reward"}


def test_only_charts_with_anything_to_draw_are_there(tmp_path: Path) -> None:
    finished_run(tmp_path, "one")
    sections = sections_of(RunFolders(tmp_path).view("one"))
    drawn = {spec.id for specs in sections.values() for spec in specs}
    assert {"reward", "heldout", "levels", "loss", "kl", "gap", "speed"} <= drawn
    assert "heldout_loss" not in drawn


def test_seeds_are_one_curve_where_all_of_them_are(tmp_path: Path) -> None:
    RunBuilder(tmp_path, "a").begin().step(1, reward=1.0).step(2, reward=5.0).done()
    RunBuilder(tmp_path, "b").begin().step(1, reward=3.0).done()
    runs = RunFolders(tmp_path)
    drawn = draw_together({"s": [runs.view("a"), runs.view("b")]}, runs)
    (chart,) = [one for one in drawn["charts"] if one["id"] == "reward"]  # type: ignore[union-attr,index,call-overload]
    (series,) = chart["series"]
    assert (series["x"], series["y"]) == ([1], [2.0])
    assert series["low"][0] < 1.0 < 3.0 < series["high"][0]


def test_configs_differ_in_what_differs(tmp_path: Path) -> None:
    RunBuilder(tmp_path, "a").begin().done()
    RunBuilder(tmp_path, "b", {"seed": 7}).begin().done()
    runs = RunFolders(tmp_path)
    assert config_differences(runs.view("a"), runs.view("b")) == {"seed": (0, 7)}


def test_notes_are_kept_and_wrong_ones_refused(tmp_path: Path) -> None:
    assert read_notes(tmp_path) == RunNotes()
    write_notes(tmp_path, " <b> ", "lr, baseline lr")
    assert read_notes(tmp_path) == RunNotes("<b>", ("lr", "baseline"))
    for text, tags in (("x" * 10_001, ""), ("", "<b>"), ("", " ".join(map(str, range(21))))):
        with pytest.raises(UserError):
            write_notes(tmp_path, text, tags)
    (tmp_path / "notes.json").write_text("{")
    assert "cannot be read" in read_notes(tmp_path).text
