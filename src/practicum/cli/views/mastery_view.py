"""Mastery by level over time, as lines of a terminal."""

from rich.text import Text

from practicum.analysis.mastery_curves import mastery_curves, phase_words, unsolved_kinds
from practicum.analysis.run_view import RunView
from practicum.cli.views.charts import Canvas, Span, plot

SPARKLINE = 24
"""Columns of a bucket's success over the steps."""
NAME_WIDTH = 28
"""Columns of a bucket's name."""


def mastery_line(view: RunView, canvas: Canvas) -> list[Text]:
    """The newest success of each bucket on one line; none without a curriculum."""
    curves = mastery_curves(view)
    if view.last_step is None or not curves:
        return []
    facts = phase_words(view.last_step)
    for curve in curves:
        short = curve.name.replace("level ", "L", 1)
        facts.append(f"{short} {_share(curve.newest)}")
    return [canvas.line(canvas.separator.join(["mastery", *facts]), "dim")]


def mastery_lines(view: RunView, canvas: Canvas) -> list[Text]:
    """A line for each bucket: its success over the steps, and its share of the recent draws."""
    curves = mastery_curves(view)
    if view.last_step is None or not curves:
        return []
    lines = [canvas.heading(canvas.separator.join(["mastery", *phase_words(view.last_step)]))]
    width = min(NAME_WIDTH, max(len(curve.name) for curve in curves))
    for curve in curves:
        (drawn,) = plot(
            curve.success, width=SPARKLINE, height=1, within=Span(0.0, 1.0), glyphs=canvas.glyphs
        )
        name = canvas.line(curve.name, width=width).plain
        line = Text(f"{name:<{width}} {_share(curve.newest):>4} ")
        line.append(drawn, style="green")
        line.append("" if curve.draws is None else f" {curve.draws:.0%} of draws", style="dim")
        lines.append(canvas.cut(line, canvas.width))
    return lines


def _share(value: float | None) -> str:
    return "?" if value is None else f"{value:.2f}"


MOST_UNSOLVED = 12
"""Kinds of tasks that are named."""


def unsolved_line(view: RunView, canvas: Canvas) -> list[Text]:
    """The kinds of tasks that practice never solved; none where there is one kind or none left."""
    unsolved, kinds = unsolved_kinds(view)
    if not unsolved:
        return []
    named = ", ".join(unsolved[:MOST_UNSOLVED])
    more = f" and {len(unsolved) - MOST_UNSOLVED} more" if len(unsolved) > MOST_UNSOLVED else ""
    told = f"never solved in practice: {len(unsolved)} of {kinds} kinds of tasks: {named}{more}"
    return [canvas.text(told)]
