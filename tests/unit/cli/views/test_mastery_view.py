"""Mastery by level, where a run has a curriculum."""

import io
from pathlib import Path

import pytest
from rich.console import Console, RenderableType
from tests.unit.analysis.builders import RunBuilder

from practicum.analysis.run_view import RunView, read_run
from practicum.cli.views.charts import Canvas
from practicum.cli.views.run_screen import render_run
from practicum.cli.views.run_tables import render_whole_run


def text(part: RenderableType, width: int = 80) -> str:
    console = Console(file=io.StringIO(), width=width, record=True)
    console.print(part)
    return console.export_text()


def measured(runs_dir: Path, **more: object) -> RunView:
    build = RunBuilder(runs_dir).begin()
    for step in range(1, 7):
        build.step(
            step,
            mastery_level_1=step / 6,
            draws_level_1=0.3,
            mastery_level_2=None,
            draws_level_2=0.7,
            **more,  # type: ignore[arg-type]
        )
    return read_run(build.done())


def test_watch_has_a_line_with_the_newest_success_of_each_level(tmp_path: Path) -> None:
    view = measured(tmp_path, phase=2, phase_name="intermediate")
    shown = text(render_run(view, Canvas(width=80, height=24)))
    assert "mastery · phase 2 (intermediate) · L1 1.00 · L2 ?" in shown


def test_a_run_in_full_shows_success_over_time_and_shares_of_the_draws(tmp_path: Path) -> None:
    lines = text(render_whole_run(measured(tmp_path), Canvas(width=80))).splitlines()
    (first,) = [line for line in lines if line.startswith("level 1")]
    assert first.split()[2] == "1.00"
    assert "▁" in first or "▂" in first
    assert "█" in first
    assert first.rstrip().endswith("30% of draws")
    (second,) = [line for line in lines if line.startswith("level 2")]
    assert second.split()[2] == "?"


def test_ascii_terminals_get_ascii(tmp_path: Path) -> None:
    view = measured(tmp_path)
    for part in (
        render_run(view, Canvas(width=60, height=24, ascii_only=True)),
        render_whole_run(view, Canvas(width=60, ascii_only=True)),
    ):
        mastery = [
            line for line in text(part).splitlines() if "mastery" in line or "level " in line
        ]
        assert mastery
        assert all(line.isascii() for line in mastery)


@pytest.mark.parametrize("height", [None, 24])
def test_a_run_without_a_curriculum_says_nothing_of_it(tmp_path: Path, height: int | None) -> None:
    view = read_run(RunBuilder(tmp_path).begin().steps(1, 3).done())
    assert "mastery" not in text(render_run(view, Canvas(width=80, height=height)))
    assert "mastery" not in text(render_whole_run(view, Canvas(width=80)))
