"""Curves and intervals drawn with characters. Pure functions from numbers to lines of text."""

from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean
from typing import NamedTuple

from practicum.core.report import Interval

__all__ = ["ASCII_GLYPHS", "UNICODE_GLYPHS", "Glyphs", "Span", "interval_strip", "plot", "span"]


class Glyphs(NamedTuple):
    """The characters a chart is drawn with."""

    fills: str
    """One cell filled more and more, from one part to full."""
    axis: str
    base: str
    """Where an interval is not."""
    bar: str
    """Where it is."""
    point: str
    """Its estimate."""


UNICODE_GLYPHS = Glyphs(fills="▁▂▃▄▅▆▇█", axis="│", base="·", bar="━", point="●")
ASCII_GLYPHS = Glyphs(fills=".:#", axis="|", base=".", bar="=", point="O")


class Span(NamedTuple):
    """The values at the foot and at the top of a chart."""

    low: float
    high: float


def span(
    values: Sequence[float | None], *, low: float | None = None, high: float | None = None
) -> Span:
    """The range of the values, with an end pinned where one is given.

    >>> span([2.0, None, 5.0]), span([2.0, 5.0], low=0.0)
    (Span(low=2.0, high=5.0), Span(low=0.0, high=5.0))
    """
    known = [value for value in values if value is not None]
    bottom = low if low is not None else min(known, default=0.0)
    top = high if high is not None else max(known, default=0.0)
    return Span(bottom, max(bottom, top))


def plot(
    values: Sequence[float | None],
    *,
    width: int,
    height: int,
    within: Span,
    glyphs: Glyphs = UNICODE_GLYPHS,
) -> list[str]:
    """Lines of an area chart, top first, each `width` wide; a missing value leaves a hole.

    >>> plot([1, 2, None, 4], width=4, height=1, within=Span(0, 4))
    ['▃▅ █']
    """
    columns = _fit(values, width)
    steps = height * len(glyphs.fills)
    levels = [0 if v is None else _level(v, within, steps) for v in columns]
    return [
        "".join(_cell(level - row * len(glyphs.fills), glyphs) for level in levels)
        for row in reversed(range(height))
    ]


def interval_strip(interval: Interval, width: int, glyphs: Glyphs = UNICODE_GLYPHS) -> str:
    """A share and its bounds on a line that goes from 0 to 1.

    >>> share = Interval(value=0.5, low=0.3, high=0.7, n=20, method="wilson")
    >>> interval_strip(share, 11, ASCII_GLYPHS)
    '...==O==...'
    """
    low, value, high = (
        round(min(1.0, max(0.0, bound)) * (width - 1))
        for bound in (interval.low, interval.value, interval.high)
    )
    cells = [glyphs.bar if low <= at <= high else glyphs.base for at in range(width)]
    cells[value] = glyphs.point
    return "".join(cells)


def _fit(values: Sequence[float | None], width: int) -> list[float | None]:
    """One value for each column: means of neighbours where there are too many, else repeated."""
    count = len(values)
    if count == 0:
        return [None] * width
    if count <= width:
        return [values[column * count // width] for column in range(width)]
    edges = [column * count // width for column in range(width + 1)]
    return [_mean(values[a:b]) for a, b in pairwise(edges)]


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def _level(value: float, within: Span, steps: int) -> int:
    """How many of `steps` parts to fill, never none: a low value is not a missing one."""
    size = within.high - within.low
    if size <= 0:
        return 1
    share = min(1.0, max(0.0, (value - within.low) / size))
    return 1 + round(share * (steps - 1))


def _cell(level: int, glyphs: Glyphs) -> str:
    return " " if level <= 0 else glyphs.fills[min(level, len(glyphs.fills)) - 1]
