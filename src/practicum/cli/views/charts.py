"""Curves and intervals drawn with characters."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil
from statistics import fmean
from typing import NamedTuple

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from practicum.analysis.alerts import gap_limit
from practicum.analysis.curves import Curve, curves_of
from practicum.analysis.run_view import RunView
from practicum.analysis.wording import format_number, one_line, to_ascii
from practicum.core.checkpoint import Interval


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Canvas:
    """A terminal's size and signs.

    >>> Canvas(width=20, ascii_only=True).line("3 × 4 = 12", width=6).plain
    '3 x...'
    """

    width: int = 80
    height: int | None = None
    """Lines there are; None when the text may be as long as it likes."""
    ascii_only: bool = False

    @classmethod
    def of(cls, console: Console, *, fit_height: bool = False) -> "Canvas":
        """The canvas a console is; `fit_height` for a view that must not scroll."""
        return cls(
            width=console.width,
            height=console.height if fit_height else None,
            ascii_only=console.options.ascii_only,
        )

    @property
    def glyphs(self) -> Glyphs:
        """What charts are drawn with here."""
        return ASCII_GLYPHS if self.ascii_only else UNICODE_GLYPHS

    @property
    def separator(self) -> str:
        """What stands between facts on one line."""
        return " - " if self.ascii_only else " · "

    @property
    def mark(self) -> str:
        """What stands before something worth a person's eye."""
        return "!" if self.ascii_only else "▲"

    def text(self, content: str, style: str = "") -> Text:
        """Any text on one line, in signs this terminal has; never read as markup."""
        content = one_line(content)
        return Text(to_ascii(content) if self.ascii_only else content, style=style)

    def line(self, content: str, style: str = "", *, width: int | None = None) -> Text:
        """The same, cut to a width with dots at the cut."""
        return self.cut(self.text(content, style), self.width if width is None else width)

    def cut(self, text: Text, width: int) -> Text:
        """A line cut to a width, with dots at the cut."""
        text.no_wrap = True
        if text.cell_len > width:
            dots = "..." if self.ascii_only else "…"
            text.truncate(max(0, width - len(dots)))
            text.append(dots)
        return text

    def heading(self, title: str) -> Text:
        """A title on a line across the canvas."""
        rule = "-" if self.ascii_only else "─"
        text = Text(f"{rule}{rule} ", style="dim")
        text.append_text(self.line(title, "bold not dim", width=self.width - 6))
        text.append(" ")
        text.append(rule * max(0, self.width - text.cell_len))
        text.no_wrap = True
        return text


LABEL_WIDTH = 8
"""Columns of the numbers beside an axis."""
CHART_WIDTH = 38
"""The narrowest a chart may be; wider terminals get more charts in a row."""
GAP = 2
NARROW = 60
"""Columns below which a sparkline goes without the numbers at its ends."""

STYLES = {
    "reward": "cyan",
    "success": "green",
    "entropy": "magenta",
    "kl_to_base": "blue",
    "logprob_gap": "yellow",
    "grad_norm": "bright_black",
    "loss": "cyan",
    "heldout_loss": "green",
    "heldout_in_order": "green",
    "margin": "magenta",
    "pairs_in_order": "magenta",
    "gain_desirable": "magenta",
    "gain_undesirable": "red",
}
"""The colour of each curve."""


def render_charts(view: RunView, canvas: Canvas, plot_height: int) -> RenderableType:
    """The curves as charts, as many in a row as fit."""
    columns = _columns(canvas)
    width = (canvas.width - GAP * (columns - 1)) // columns
    table = Table.grid(padding=(0, GAP, 0, 0), pad_edge=False)
    for _ in range(columns):
        table.add_column(width=width, no_wrap=True, overflow="crop")
    charts = [_chart(curve, view, canvas, width, plot_height) for curve in curves_of(view)]
    for start in range(0, len(charts), columns):
        table.add_row(*charts[start : start + columns])
    return table


def charts_height(view: RunView, canvas: Canvas, plot_height: int) -> int:
    """Lines `render_charts` takes."""
    return ceil(len(curves_of(view)) / _columns(canvas)) * (plot_height + 1)


def render_sparklines(view: RunView, canvas: Canvas) -> list[RenderableType]:
    """The curves one line each, for a terminal with few lines."""
    curves = curves_of(view)
    names = max(len(curve.title) for curve in curves)
    has_ends = canvas.width >= NARROW
    labels = 3 if has_ends else 1
    width = canvas.width - names - 1 - labels * (LABEL_WIDTH + 1)
    lines: list[RenderableType] = []
    for curve in curves:
        values, within = _values(curve, view)
        (drawn,) = plot(values, width=width, height=1, within=within, glyphs=canvas.glyphs)
        line = Text(f"{curve.title:<{names}} ", no_wrap=True)
        line.append(f"{_newest(values):>{LABEL_WIDTH}} ", style="bold")
        line.append(drawn, style=STYLES.get(curve.field, ""))
        if has_ends:
            ends = "".join(f" {format_number(end):>{LABEL_WIDTH}}" for end in within)
            line.append(ends, style="dim")
        lines.append(line)
    return lines


def _columns(canvas: Canvas) -> int:
    return max(1, min(3, (canvas.width + GAP) // (CHART_WIDTH + GAP)))


def _chart(curve: Curve, view: RunView, canvas: Canvas, width: int, height: int) -> Text:
    values, within = _values(curve, view)
    text = Text(f"{curve.title} ")
    text.append(_newest(values), style="bold")
    if curve.field == "logprob_gap":
        text.append(f"  limit {gap_limit(view):.0e}", style="dim")
    plot_width = width - LABEL_WIDTH - 2
    rows = plot(values, width=plot_width, height=height, within=within, glyphs=canvas.glyphs)
    labels = {0: format_number(within.high), height - 1: format_number(within.low)}
    for number, row in enumerate(rows):
        label = f"{labels.get(number, ''):>{LABEL_WIDTH}} {canvas.glyphs.axis}"
        text.append(f"\n{label}", style="dim")
        text.append(row, style=STYLES.get(curve.field, ""))
    return text


def _values(curve: Curve, view: RunView) -> tuple[list[float | None], Span]:
    values = [row.number(curve.field) for row in view.steps]
    return values, span(values, low=curve.low, high=curve.high)


def _newest(values: list[float | None]) -> str:
    return format_number(next((v for v in reversed(values) if v is not None), None))
