"""The curves of a run: reward, success, entropy, distance to the base, gap, gradient."""

from dataclasses import dataclass
from math import ceil

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from practicum.monitor.alerts import gap_limit
from practicum.monitor.canvas import Canvas
from practicum.monitor.charts import Span, plot, span
from practicum.monitor.reader import RunView
from practicum.monitor.wording import format_number

__all__ = ["CURVES", "Curve", "charts_height", "render_charts", "render_sparklines"]

LABEL_WIDTH = 8
"""Columns of the numbers beside an axis."""
CHART_WIDTH = 38
"""The narrowest a chart may be; wider terminals get more charts in a row."""
GAP = 2
NARROW = 60
"""Columns below which a sparkline goes without the numbers at its ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """One recorded number over the steps."""

    field: str
    title: str
    style: str
    low: float | None = None
    """Where the axis begins, if not at the lowest value."""
    high: float | None = None


CURVES = (
    Curve(field="reward", title="reward", style="cyan"),
    Curve(field="success", title="success", style="green", low=0.0, high=1.0),
    Curve(field="entropy", title="entropy", style="magenta", low=0.0),
    Curve(field="kl_to_base", title="KL to base", style="blue"),
    Curve(field="logprob_gap", title="log-prob gap", style="yellow", low=0.0),
    Curve(field="grad_norm", title="gradient norm", style="bright_black", low=0.0),
)


def render_charts(view: RunView, canvas: Canvas, plot_height: int) -> RenderableType:
    """The curves as charts, as many in a row as fit."""
    columns = _columns(canvas)
    width = (canvas.width - GAP * (columns - 1)) // columns
    table = Table.grid(padding=(0, GAP, 0, 0), pad_edge=False)
    for _ in range(columns):
        table.add_column(width=width, no_wrap=True, overflow="crop")
    charts = [_chart(curve, view, canvas, width, plot_height) for curve in CURVES]
    for start in range(0, len(charts), columns):
        table.add_row(*charts[start : start + columns])
    return table


def charts_height(canvas: Canvas, plot_height: int) -> int:
    """Lines `render_charts` takes."""
    return ceil(len(CURVES) / _columns(canvas)) * (plot_height + 1)


def render_sparklines(view: RunView, canvas: Canvas) -> list[RenderableType]:
    """The curves one line each, for a terminal with few lines."""
    names = max(len(curve.title) for curve in CURVES)
    has_ends = canvas.width >= NARROW
    labels = 3 if has_ends else 1
    width = canvas.width - names - 1 - labels * (LABEL_WIDTH + 1)
    lines: list[RenderableType] = []
    for curve in CURVES:
        values, within = _values(curve, view)
        (drawn,) = plot(values, width=width, height=1, within=within, glyphs=canvas.glyphs)
        line = Text(f"{curve.title:<{names}} ", no_wrap=True)
        line.append(f"{_newest(values):>{LABEL_WIDTH}} ", style="bold")
        line.append(drawn, style=curve.style)
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
        text.append(row, style=curve.style)
    return text


def _values(curve: Curve, view: RunView) -> tuple[list[float | None], Span]:
    values = [row.number(curve.field) for row in view.steps]
    return values, span(values, low=curve.low, high=curve.high)


def _newest(values: list[float | None]) -> str:
    return format_number(next((v for v in reversed(values) if v is not None), None))
