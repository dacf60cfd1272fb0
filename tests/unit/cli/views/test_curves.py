import io
from pathlib import Path

import pytest
from rich.console import Console, Group
from tests.unit.analysis.builders import RunBuilder, finished_run, step_values

from practicum.analysis.curves import CURVES
from practicum.analysis.run_view import RunView, read_run
from practicum.cli.views.charts import (
    Canvas,
    charts_height,
    render_charts,
    render_sparklines,
)


def text_of(renderable: object, width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width, record=True)
    console.print(renderable)
    return console.export_text().splitlines()


@pytest.fixture(scope="module")
def view(tmp_path_factory: pytest.TempPathFactory) -> RunView:
    return read_run(finished_run(tmp_path_factory.mktemp("runs")))


def test_every_curve_is_a_number_that_a_step_records() -> None:
    assert {curve.field for curve in CURVES} <= step_values(1).keys()


@pytest.mark.parametrize(("width", "in_a_row"), [(40, 1), (80, 2), (120, 3), (200, 3)])
def test_wider_terminals_have_more_charts_in_a_row(
    view: RunView, width: int, in_a_row: int
) -> None:
    lines = text_of(render_charts(view, Canvas(width=width), 4), width)
    assert sum(curve.title in lines[0] for curve in CURVES) == in_a_row
    assert max(len(line) for line in lines) <= width


@pytest.mark.parametrize("width", [40, 80, 120])
@pytest.mark.parametrize("plot_height", [3, 8])
def test_charts_take_the_lines_they_say_they_take(
    view: RunView, width: int, plot_height: int
) -> None:
    canvas = Canvas(width=width)
    lines = text_of(render_charts(view, canvas, plot_height), width)
    assert len(lines) == charts_height(view, canvas, plot_height)


def test_a_chart_names_its_newest_value_and_its_ends(tmp_path: Path) -> None:
    build = RunBuilder(tmp_path).begin()
    for step, reward in enumerate((1.5, 4.25, 3.0), start=1):
        build.step(step, reward=reward)
    lines = text_of(render_charts(read_run(build.done()), Canvas(), 4), 80)
    assert lines[0].startswith("reward 3 ")
    assert "4.25 │" in lines[1]
    assert "1.5 │" in lines[4]


def test_the_gap_is_shown_with_the_limit_it_must_keep(view: RunView) -> None:
    lines = text_of(render_charts(view, Canvas(), 4), 80)
    assert any("log-prob gap" in line and "limit 1e-04" in line for line in lines)


@pytest.mark.parametrize("width", [40, 59, 80, 120])
def test_a_sparkline_is_one_line_as_wide_as_the_canvas(view: RunView, width: int) -> None:
    drawn = render_sparklines(view, Canvas(width=width))
    lines = text_of(Group(*drawn), width)
    assert [len(line) for line in lines] == [width] * len(CURVES)


def test_a_number_that_no_step_recorded_is_a_dash(tmp_path: Path) -> None:
    view = read_run(RunBuilder(tmp_path).begin().steps(1, 3, entropy=None).done())
    lines = text_of(Group(*render_sparklines(view, Canvas())), 80)
    entropy = next(line for line in lines if line.startswith("entropy"))
    assert entropy.split() == ["entropy", "-", "0", "0"]
