"""Runs as tables: all of a folder, or one in full."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from practicum.analysis.alerts import alarm_lines, alarms_of
from practicum.analysis.evaluations import EvalPoint
from practicum.analysis.run_view import EpisodeView, RunView, StepRow, Unreadable, ending
from practicum.analysis.wording import IN_ORDER, clock_time, format_age, format_number
from practicum.cli.views.charts import Canvas
from practicum.cli.views.mastery_view import mastery_lines, unsolved_line
from practicum.cli.views.run_screen import (
    STATUS_STYLES,
    render_alerts,
    render_evaluations,
    render_header,
)

WIDE = 100
"""Columns from which times are written out."""
NAME_WIDTH = 28
"""Longest name that is never folded."""
MODEL_WIDTH = 12
"""Columns of a model's name where there are few."""
STEPS_SHOWN = 10
STEP_COLUMNS = (
    ("reward", "reward"),
    ("success", "success"),
    ("entropy", "entropy"),
    ("kl_to_base", "KL"),
    ("logprob_gap", "gap"),
    ("grad_norm", "gradient"),
    ("flat_share", "flat"),
    ("masked_episodes", "masked"),
)
OFFLINE_COLUMNS = (
    ("loss", "loss"),
    ("heldout_loss", "held-out"),
    ("heldout_in_order", "accuracy"),
    ("margin", "margin"),
    ("kl_to_base", "KL"),
    ("grad_norm", "gradient"),
    ("epoch", "epoch"),
    ("examples", "examples"),
)
"""Of steps that learn from recorded examples; accuracy is that of held-out pairs."""


def render_runs(
    views: Sequence[RunView], unreadable: Sequence[Unreadable], canvas: Canvas
) -> RenderableType:
    """A line for each run, in the order given."""
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="dim")
    # Names are what one copies from here: other columns fold first.
    is_short = all(len(view.name) <= NAME_WIDTH for view in views)
    table.add_column("run", overflow="fold", no_wrap=is_short)
    for heading in ("env", "model", "status"):
        table.add_column(heading, overflow="fold")
    for heading in ("steps", "reward"):
        table.add_column(heading, justify="right", overflow="fold")
    table.add_column("held-out", no_wrap=True, overflow="crop")
    table.add_column("started" if canvas.width >= WIDE else "age", no_wrap=True, overflow="crop")
    for view in views:
        table.add_row(*_run_cells(view, canvas))
    lines = [canvas.text(f"{run.name}: {run.reason}", "red") for run in unreadable]
    return Group(table, *lines) if views else Group(*lines)


def _run_cells(view: RunView, canvas: Canvas) -> list[Text]:
    started = view.facts.last_started_at
    age = clock_time(started) if canvas.width >= WIDE else format_age(view.read_at - started)
    reward = view.last_step.number("reward") if view.last_step else None
    return [
        canvas.text(view.name, "bold"),
        canvas.text(view.config.env_name),
        canvas.line(
            _short_model(view), width=canvas.width if canvas.width >= WIDE else MODEL_WIDTH
        ),
        _status_cell(view, canvas),
        Text(f"{view.steps_done}/{view.steps_total}"),
        Text("-" if reward is None else f"{reward:.2f}"),
        canvas.text(_before_after(view)),
        Text(age),
    ]


def _status_cell(view: RunView, canvas: Canvas) -> Text:
    """The status, with a mark and the number of alarms where there are any."""
    cell = canvas.text(view.status.value, STATUS_STYLES[view.status])
    if count := len(alarms_of(view).alarms):
        cell = cell.append(f" {canvas.mark}{count}", style="bold red")
    return cell


def _short_model(view: RunView) -> str:
    """The last part of a folder or hub id: the rest would not fit."""
    return view.config.model.name.rstrip("/").rpartition("/")[2]


def _before_after(view: RunView) -> str:
    if view.before is None and view.after is None:
        return _losses(view)
    before, after = (
        "?" if point is None else _short_success(point) for point in (view.before, view.after)
    )
    return before if view.after is None else f"{before} → {after}"


def _short_success(point: EvalPoint) -> str:
    """Success, or else reward, and where attempts are masked what they would make of it."""
    told = f"{(point.success or point.reward).value:.2f}"
    if not point.masked:
        return told
    failed = point.success_if_masked_failed
    less = "" if failed is None or failed == point.success else f", else {failed.value:.2f}"
    return f"{told} ({point.masked} masked{less})"


def _losses(view: RunView) -> str:
    """The loss on held-out rows, where there is no held-out task."""
    told = _change(view, "heldout_loss")
    return f"loss {told}" if told else "-"


def _change(view: RunView, name: str) -> str:
    """A figure of held-out rows before the first step and after the last; empty without one."""
    first, last = (
        [found for row in view.steps if (found := row.number(one)) is not None]
        for one in (f"{name}_before", name)
    )
    return " → ".join(f"{found:.2f}" for found in [*first[:1], *last[-1:]]) if last else ""


def _heldout_rows(view: RunView) -> list[str]:
    told = [f"held-out rows: {_losses(view)}"] if _change(view, "heldout_loss") else []
    order = _change(view, "heldout_in_order")
    return told + ([f"{IN_ORDER}: {order} of their pairs"] if order else [])


def render_whole_run(view: RunView, canvas: Canvas, comparison: str = "") -> RenderableType:
    """One run in full; `comparison` is what is said of the evaluations taken together."""
    parts: list[RenderableType] = [*render_header(view, canvas)]
    parts += [canvas.text(f"{canvas.mark} {line}", "bold red") for line in alarm_lines(view)]
    parts += render_alerts(view, canvas, has_alarms=False)
    parts += [canvas.heading("config"), _config_table(view, canvas)]
    if view.attempts:
        parts += [canvas.heading("attempts"), _attempts_table(view, canvas)]
    if view.evaluations:
        parts += render_evaluations(view, canvas, most=len(view.evaluations))
        parts += _share_lines(view, canvas)
    if comparison:
        parts.append(canvas.text(comparison, "bold"))
    parts += [canvas.heading("checkpoints"), canvas.text(_checkpoints_line(view))]
    parts += [*mastery_lines(view, canvas), *unsolved_line(view, canvas)]
    parts += [canvas.text(line) for line in _heldout_rows(view)]
    if view.steps:
        parts += [canvas.heading("last steps"), _steps_table(view.steps[-STEPS_SHOWN:], canvas)]
    if view.episodes:
        parts.append(canvas.heading("last episodes"))
        parts += [canvas.line(_episode_line(shown)) for shown in view.episodes]
    return Group(*parts)


def _config_table(view: RunView, canvas: Canvas) -> RenderableType:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True, overflow="crop")
    table.add_column(overflow="fold")
    values = view.config.model_dump(mode="json")
    for number, stage in enumerate(values.pop("stages"), start=1):
        values[f"stage {number}"] = stage
    if view.config.stages:  # they have methods and data of their own
        del values["algorithm"]
    for key, value in values.items():
        if not _is_empty(value):
            table.add_row(key, canvas.text(_describe(value)))
    return table


def _is_empty(value: Any) -> bool:
    """Whether a config says nothing by it."""
    return value is None or value == "" or value == []


def _describe(value: Any) -> str:
    if isinstance(value, Mapping):
        return " ".join(
            f"{key}=({_describe(inner)})"
            if isinstance(inner, Mapping)
            else f"{key}={_describe(inner)}"
            for key, inner in value.items()
            if not _is_empty(inner)
        )
    if isinstance(value, list):
        return ",".join(_describe(inner) for inner in value)
    return str(value)


def _attempts_table(view: RunView, canvas: Canvas) -> RenderableType:
    table = _plain_table("attempt", "from step", "started", "device", "threads", "process")
    for attempt in view.attempts:
        cells = (
            str(attempt.attempt),
            str(attempt.from_step),
            clock_time(attempt.started_at),
            attempt.device,
            str(attempt.threads),
            f"{attempt.pid} on {attempt.host}",
        )
        table.add_row(*(canvas.text(cell) for cell in cells))
    versions = " ".join(f"{name} {version}" for name, version in view.facts.versions.items())
    return Group(table, canvas.text(versions, "dim"))


def _share_lines(view: RunView, canvas: Canvas) -> list[Text]:
    """The newest success by environment and by level, where there are several."""
    last = view.evaluations[-1]
    by_level = {f"level {level}": found for level, found in last.success_by_level.items()}
    lines = []
    for several in (last.success_by_env, by_level):
        shares = [f"{name} {found.value:.2f} (n = {found.n})" for name, found in several.items()]
        if len(shares) > 1:
            told = f"success after step {last.step}: {', '.join(shares)}"
            lines.append(canvas.text(told, "dim"))
    return lines


def _checkpoints_line(view: RunView) -> str:
    saved = view.checkpoints
    if not saved.steps:
        return "none yet"
    pointers = (("latest", saved.latest), ("best", saved.best))
    words = []
    for step in saved.steps:
        marks = ", ".join(name for name, at in pointers if at == step)
        name = f"{view.config.checkpoints.layout}_{step}"
        words.append(f"{name} ({marks})" if marks else name)
    return f"{', '.join(words)} in {view.path / 'checkpoints'}"


def _steps_table(rows: Sequence[StepRow], canvas: Canvas) -> RenderableType:
    is_offline = rows[-1].is_offline
    columns = OFFLINE_COLUMNS if is_offline else STEP_COLUMNS
    table = _plain_table("step", *(title for _, title in columns), "seconds", numbers=True)
    for row in rows:
        numbers = [format_number(row.number(field)) for field, _ in columns]
        table.add_row(str(row.step), *numbers, format_number(row.duration_s))
    return table


def _episode_line(shown: EpisodeView) -> str:
    summary = shown.summary
    score = "not scored" if summary.score is None else f"score {format_number(summary.score)}"
    turns = f"{summary.n_turns} turn{'' if summary.n_turns == 1 else 's'}"
    where = f"{summary.purpose} step {summary.step}"
    return f"{where}: {summary.task_id} · {turns} · {score} · {ending(shown.episode)}"


def _plain_table(*headings: str, numbers: bool = False) -> Table:
    gap = 1 if numbers else 2  # ten columns of numbers are to fit into 80
    table = Table(box=None, padding=(0, gap, 0, 0), pad_edge=False, header_style="dim")
    for heading in headings:
        table.add_column(heading, overflow="fold", justify="right" if numbers else "left")
    return table
