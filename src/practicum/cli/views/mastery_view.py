"""Mastery by level over time, where a run has a curriculum that measures it."""

from rich.text import Text

from practicum.cli.views.charts import Canvas, Span, plot
from practicum.cli.views.run_view import RunView, StepRow

MASTERY, DRAWS = "mastery_", "draws_"
SPARKLINE = 24
"""Columns of a bucket's success over the steps."""
NAME_WIDTH = 28
"""Columns of a bucket's name."""


def mastery_line(view: RunView, canvas: Canvas) -> list[Text]:
    """The newest success of each bucket on one line; none without a curriculum."""
    row = view.last_step
    if row is None or not _buckets(row):
        return []
    facts = [*_phase(row)]
    for bucket in _buckets(row):
        success = row.number(f"{MASTERY}{bucket}")
        short = _name(bucket).replace("level ", "L", 1)
        facts.append(f"{short} {'?' if success is None else f'{success:.2f}'}")
    text = canvas.separator.join(["mastery", *facts])
    return [canvas.line(text, "dim")]


def mastery_lines(view: RunView, canvas: Canvas) -> list[Text]:
    """A line for each bucket: its success over the steps, and its share of the recent draws."""
    row = view.last_step
    if row is None or not _buckets(row):
        return []
    lines = [canvas.heading(canvas.separator.join(["mastery", *_phase(row)]))]
    width = min(NAME_WIDTH, max(len(_name(bucket)) for bucket in _buckets(row)))
    for bucket in _buckets(row):
        values = [one.number(f"{MASTERY}{bucket}") for one in view.steps]
        (drawn,) = plot(
            values, width=SPARKLINE, height=1, within=Span(0.0, 1.0), glyphs=canvas.glyphs
        )
        success, share = row.number(f"{MASTERY}{bucket}"), row.number(f"{DRAWS}{bucket}")
        name = canvas.line(_name(bucket), width=width).plain
        line = Text(f"{name:<{width}} {'?' if success is None else f'{success:.2f}':>4} ")
        line.append(drawn, style="green")
        line.append("" if share is None else f" {share:.0%} of draws", style="dim")
        lines.append(canvas.cut(line, canvas.width))
    return lines


MOST_UNSOLVED = 12
"""Kinds of tasks that are named."""


def unsolved_line(view: RunView, canvas: Canvas) -> list[Text]:
    """The kinds of tasks that practice never solved; none where there is one kind or none left."""
    row = view.last_step
    unsolved = row.values.get("unsolved_kinds") if row is not None else None
    if row is None or not isinstance(unsolved, list) or not unsolved:
        return []
    kinds = row.number("kinds") or 0.0
    if kinds < 2:
        return []
    named = ", ".join(_name(str(kind)) for kind in unsolved[:MOST_UNSOLVED])
    more = f" and {len(unsolved) - MOST_UNSOLVED} more" if len(unsolved) > MOST_UNSOLVED else ""
    told = f"never solved in practice: {len(unsolved)} of {kinds:.0f} kinds of tasks: {named}{more}"
    return [canvas.text(told)]


def _buckets(row: StepRow) -> list[str]:
    return [key.removeprefix(MASTERY) for key in row.values if key.startswith(MASTERY)]


def _name(bucket: str) -> str:
    """A level as people write it; other names as they are."""
    if not bucket.startswith("level_"):
        return bucket
    level, _, about = bucket.removeprefix("level_").partition("_")
    return f"level {level} {about.removeprefix('family_')}".strip()


def _phase(row: StepRow) -> list[str]:
    phase = row.number("phase")
    return [] if phase is None else [f"phase {phase:.0f} ({row.values.get('phase_name')})"]
