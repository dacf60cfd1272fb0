"""Charts of a report: matplotlib's, as SVG, each with the figures it shows."""

import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from practicum.analysis.curves import Curve, window_means
from practicum.analysis.evaluations import EvalPoint
from practicum.analysis.run_view import RunView
from practicum.analysis.wording import format_number
from practicum.core.checkpoint import Interval
from practicum.evaluation.report import format_interval
from practicum.reports.document import Picture, Table

INK, DOTS, HELD_OUT = "#1f4e9c", "#9db4d8", "#c2571a"
"""Colours that differ in grey as well, as a printer has it."""
ROWS_SHOWN = 12
"""Most rows of a chart's figures, spread evenly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Points with intervals over the steps."""

    label: str
    points: Mapping[int, Interval]
    color: str
    is_line: bool = True


def curve_chart(view: RunView, curve: Curve, evaluations: Sequence[EvalPoint] = ()) -> Picture:
    """One number over the steps: each step, means of windows, and held-out points where given."""
    steps = [(row.step, v) for row in view.steps if (v := row.number(curve.field)) is not None]
    size, means = window_means(steps)
    unit = "1 step" if size == 1 else f"{size} steps"
    series = [Series(label=f"mean of {unit}", points=means, color=INK)]
    held = {
        point.step: found
        for point in evaluations
        if (found := point.success if curve.field == "success" else point.reward) is not None
    }
    if held:
        series.append(Series(label="held-out", points=held, color=HELD_OUT, is_line=False))
    told = f"{curve.title}, {len(steps)} steps. Dots: each step"
    told += _episodes(view, curve.field)
    told += f"; line and band: means of {unit} with 95 % intervals (Student's t over the steps)"
    told += "; orange: held-out tasks with 95 % intervals." if held else "."
    return Picture(
        svg=_draw(curve.title, steps, series, (curve.low, curve.high)),
        alt=f"{curve.title} over the steps of {view.name}; the figures are in the text form",
        caption=told,
        figures=_figures(series),
    )


def _episodes(view: RunView, field: str) -> str:
    counts = sorted(
        {n for r in view.steps if r.number(field) is not None and (n := r.number("episodes"))}
    )
    if not counts:
        return ""
    spread = f"{counts[0]:.0f}" if len(counts) == 1 else f"{counts[0]:.0f} to {counts[-1]:.0f}"
    return f" (n = {spread} episodes)"


def series_chart(title: str, caption: str, series: Sequence[Series]) -> Picture:
    """Several studies or seeds in one chart."""
    return Picture(
        svg=_draw(title, (), series, (None, None)),
        alt=f"{title}; the figures are in the text form",
        caption=caption,
        figures=_figures(series),
    )


def _figures(series: Sequence[Series]) -> Table:
    rows = [
        (str(step), one.label, format_interval(found, digits=2), str(found.n))
        for one in series
        for step, found in _thinned(one.points)
    ]
    return Table(head=("step", "what", "value [95 % interval]", "n"), rows=tuple(rows))


def _thinned(points: Mapping[int, Interval]) -> list[tuple[int, Interval]]:
    """The first, the last, and some in between."""
    kept = list(points.items())
    if len(kept) <= ROWS_SHOWN:
        return kept
    last = len(kept) - 1
    return [kept[round(n * last / (ROWS_SHOWN - 1))] for n in range(ROWS_SHOWN)]


def _draw(
    title: str,
    dots: Sequence[tuple[int, float]],
    series: Sequence[Series],
    ends: tuple[float | None, float | None],
) -> bytes:
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    # The same run gives the same bytes: no date, and no ids of chance.
    with matplotlib.rc_context({"svg.hashsalt": "practicum", "font.size": 9}):
        figure = Figure(figsize=(7.0, 2.5), layout="constrained")
        axis = figure.subplots()
        if dots:
            axis.plot(*zip(*dots, strict=True), ".", color=DOTS, label="each step")
        for one in series:
            _draw_series(axis, one)
        axis.set(title=title, xlabel="step")
        if ends != (None, None):
            low, high = ends
            margin = 0.03 * ((high - low) if low is not None and high is not None else 0.0)
            axis.set_ylim(
                None if low is None else low - margin, None if high is None else high + margin
            )
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
        axis.yaxis.set_major_formatter(lambda value, _: format_number(value))
        axis.grid(alpha=0.25)
        axis.spines[["top", "right"]].set_visible(False)
        axis.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
        svg = io.BytesIO()
        figure.savefig(svg, format="svg", metadata={"Date": None})
    return svg.getvalue()


def _draw_series(axis: Any, series: Series) -> None:
    bounded = {s: p for s, p in series.points.items() if math.isfinite(p.low + p.high)}
    values = [p.value for p in series.points.values()]
    if series.is_line:
        axis.plot(list(series.points), values, ".-", color=series.color, label=series.label)
        axis.fill_between(
            list(bounded),
            [p.low for p in bounded.values()],
            [p.high for p in bounded.values()],
            color=series.color,
            alpha=0.18,
            linewidth=0,
        )
        return
    apart = [
        [max(0.0, p.value - p.low) for p in bounded.values()],
        [max(0.0, p.high - p.value) for p in bounded.values()],
    ]
    found = [p.value for p in bounded.values()]
    axis.errorbar(
        list(bounded), found, yerr=apart, fmt="o", color=series.color, label=series.label, capsize=3
    )
