import math

import pytest

from practicum.cli.views.charts import (
    ASCII_GLYPHS,
    UNICODE_GLYPHS,
    Glyphs,
    Span,
    interval_strip,
    plot,
    span,
)
from practicum.core.checkpoint import Interval


def test_a_rising_line_fills_more_and_more() -> None:
    assert plot(range(8), width=8, height=1, within=Span(0, 7)) == ["▁▂▃▄▅▆▇█"]


def test_two_lines_hold_twice_the_levels_top_line_first() -> None:
    assert plot(range(4), width=4, height=2, within=Span(0, 3)) == ["  ▃█", "▁▆██"]


def test_the_lowest_value_is_drawn_and_a_missing_one_is_not() -> None:
    assert plot([0.0, None, 1.0], width=3, height=1, within=Span(0, 1)) == ["▁ █"]


def test_fewer_values_than_columns_are_stretched_over_all_of_them() -> None:
    assert plot([0, 1], width=6, height=1, within=Span(0, 1)) == ["▁▁▁███"]


def test_more_values_than_columns_are_averaged() -> None:
    values = [0, 2, 7, 7, None, None]
    assert plot(values, width=3, height=1, within=Span(0, 7)) == ["▂█ "]


@pytest.mark.parametrize("glyphs", [UNICODE_GLYPHS, ASCII_GLYPHS])
@pytest.mark.parametrize("count", [0, 1, 7, 40, 1000])
def test_every_line_is_as_wide_as_asked(count: int, glyphs: Glyphs) -> None:
    values = [math.sin(i) for i in range(count)]
    lines = plot(values, width=37, height=4, within=span(values), glyphs=glyphs)
    assert [len(line) for line in lines] == [37] * 4


def test_a_curve_that_never_changes_is_a_flat_line() -> None:
    assert plot([5.0, 5.0], width=2, height=2, within=span([5.0, 5.0])) == ["  ", "▁▁"]


def test_values_outside_a_pinned_range_stay_in_the_chart() -> None:
    assert plot([-3, 9], width=2, height=1, within=Span(0, 1)) == ["▁█"]


def test_plain_charts_have_no_other_signs() -> None:
    (line,) = plot(range(9), width=9, height=1, within=Span(0, 8), glyphs=ASCII_GLYPHS)
    assert line == "...:::###"


def test_a_span_without_values_is_empty() -> None:
    assert span([None, None]) == Span(0.0, 0.0)


def test_a_strip_marks_bounds_and_estimate() -> None:
    share = Interval(value=1.0, low=0.9, high=1.0, n=40, method="wilson")
    assert interval_strip(share, 11, ASCII_GLYPHS) == ".........=O"


def test_a_strip_without_bounds_covers_everything() -> None:
    share = Interval(value=0.0, low=-math.inf, high=math.inf, n=1, method="none")
    assert interval_strip(share, 5, ASCII_GLYPHS) == "O===="
