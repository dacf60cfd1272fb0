"""A run as a terminal shows it: pure functions from `RunView` to what rich prints.

`render_run` stacks the parts and shares out the height; each part is a function of its own.
"""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from practicum.analysis.alerts import find_alerts
from practicum.analysis.evaluations import EvalPoint
from practicum.analysis.run_view import (
    EpisodeTurn,
    EpisodeView,
    RunStatus,
    RunView,
    StepRow,
    describe_status,
    ending,
    episode_turns,
    opening,
)
from practicum.analysis.wording import format_duration, format_number
from practicum.cli.views.charts import (
    Canvas,
    charts_height,
    interval_strip,
    render_charts,
    render_sparklines,
)
from practicum.cli.views.mastery_view import mastery_line
from practicum.core.checkpoint import beside_success
from practicum.evaluation.report import format_interval

STATUS_STYLES = {
    RunStatus.RUNNING: "green",
    RunStatus.FINISHED: "cyan",
    RunStatus.STOPPED: "yellow",
    RunStatus.NOT_STARTED: "dim",
}
EPISODE_LINES = 7
"""Lines kept for the latest episode before charts grow taller."""
EVALUATIONS_SHOWN = 4
TALL = 40
"""Lines from which more than the first and the last evaluation are shown."""
SHORTEST_PLOT, USUAL_PLOT, TALLEST_PLOT = 3, 4, 8
"""Lines of a plot: the least that shows a shape, where height is free, and the most."""
NARROWEST_STRIP, WIDEST_STRIP = 10, 60
"""Columns of the line an interval is drawn on: fewer show nothing, more say nothing."""
EPISODE_WIDTH = 120
"""Most columns of an episode, so that a turn and its reward stay close together."""
NUMBER_WIDTH, REWARD_WIDTH = 2, 6
ALERT_LINES = 6
"""Most lines of alerts where the height is given: the curves stay in sight."""


def render_run(view: RunView, canvas: Canvas) -> RenderableType:
    """The whole frame; with a height, what does not fit is left out rather than cut."""
    evaluations = _chosen_evaluations(view.evaluations, canvas)
    parts: list[RenderableType] = [*render_header(view, canvas)]
    parts += [*mastery_line(view, canvas), *render_alerts(view, canvas)]
    used = len(parts) + (2 + len(evaluations) if view.evaluations else 0)
    if view.steps:
        plot_height = _plot_height(view, canvas, used)
        parts.append(canvas.heading(_curves_title(view)))
        if plot_height:
            parts.append(render_charts(view, canvas, plot_height))
            used += 1 + charts_height(view, canvas, plot_height)
        else:
            sparklines = render_sparklines(view, canvas)
            parts += sparklines
            used += 1 + len(sparklines)
    if view.evaluations:
        parts += render_evaluations(view, canvas)
    if view.episodes:
        room = None if canvas.height is None else canvas.height - used
        parts += render_episode(view.episodes[-1], canvas, lines=room)
    return Group(*parts)


def _plot_height(view: RunView, canvas: Canvas, used: int) -> int:
    """Lines of each plot; 0 when there is only room for sparklines."""
    if canvas.height is None:
        return USUAL_PLOT
    room = canvas.height - used - EPISODE_LINES - 1
    fitting = [
        h for h in range(SHORTEST_PLOT, TALLEST_PLOT + 1) if charts_height(view, canvas, h) <= room
    ]
    return max(fitting, default=0)


def _curves_title(view: RunView) -> str:
    return f"steps {view.steps[0].step} to {view.steps[-1].step}"


def render_header(view: RunView, canvas: Canvas) -> list[RenderableType]:
    """Who, what, where it stands, how far it is, and what the last step did."""
    config = view.config
    first = Text().append_text(canvas.text(view.name, "bold"))
    for fact in (_describe_env(view), config.model.name, _describe_machine(view)):
        if fact:
            first.append(canvas.separator, style="dim")
            first.append_text(canvas.text(fact, "dim"))
    status = canvas.text(describe_status(view), STATUS_STYLES[view.status])
    lines: list[RenderableType] = [canvas.cut(first, canvas.width), *_wrap(status, canvas.width)]
    lines.append(_progress(view, canvas))
    if view.last_step is not None:
        lines.append(_describe_last_step(view.last_step, canvas))
    return lines


def _describe_env(view: RunView) -> str:
    env = view.config.env
    options = [f"{key}={value}" for key, value in env.options.items()] if env else []
    return " ".join([view.config.env_name, *options])


def _describe_machine(view: RunView) -> str:
    if not view.attempts:
        return ""
    last = view.attempts[-1]
    return f"{last.device}, {last.threads} thread{'' if last.threads == 1 else 's'}"


def _progress(view: RunView, canvas: Canvas) -> Text:
    done, total, left = view.steps_done, view.steps_total, view.time_left_s
    share = min(1.0, done / total)
    after = f" {share:.0%}"
    if left is not None:
        after += f"{canvas.separator}{format_duration(left)} left"
    text = Text(f"step {done}/{total} ", no_wrap=True)
    width = canvas.width - text.cell_len - len(after)
    filled = round(share * width)
    full, empty = ("#", "-") if canvas.ascii_only else ("━", "─")
    text.append(full * filled, style=STATUS_STYLES[view.status])
    text.append(empty * (width - filled), style="dim")
    return text.append(after)


def _describe_last_step(row: StepRow, canvas: Canvas) -> Text:
    """As many facts as fit, the most useful first."""
    episodes, groups, trained = (
        row.number(name) for name in ("episodes", "groups", "trained_groups")
    )
    acting, learning = row.number("rollout_s"), row.number("update_s")
    rows, unique, turns = (row.number(n) for n in ("row_tokens", "update_tokens", "turns"))
    examples, epoch = row.number("examples"), row.number("epoch")
    facts = [
        None if examples is None else f"{examples:.0f} examples",
        None if epoch is None else f"epoch {epoch:.2f}",
        None if episodes is None else f"{episodes:.0f} episodes",
        None if groups is None or trained is None else f"{trained:.0f}/{groups:.0f} groups",
        None if turns is None else f"{turns:.1f} turns",
        None
        if acting is None or learning is None
        else f"acting {acting:.1f} s, learning {learning:.1f} s",
        *_episode_times(row),
        f"tree {rows / unique:.1f}× smaller" if rows and unique else None,
    ]
    line = canvas.text("last step", "dim")
    for fact in (canvas.text(fact, "dim") for fact in facts if fact is not None):
        if line.cell_len + len(canvas.separator) + fact.cell_len <= canvas.width:
            line = line.append(canvas.separator).append_text(fact)
    line.no_wrap = True
    return line


def _episode_times(row: StepRow) -> list[str]:
    """How long its episodes took, and what they waited for."""
    median, slowest = row.number("median_episode_s"), row.number("slowest_episode_s")
    spent = {word: row.number(f"{word}_s") for word in ("sampling", "environment", "judging")}
    known = {word: seconds for word, seconds in spent.items() if seconds is not None}
    if median is None or slowest is None or not sum(known.values()):
        return []
    total = sum(known.values())
    told = ", ".join(f"{word} {seconds / total:.0%}" for word, seconds in known.items())
    return [f"episodes {median:.1f} s, slowest {slowest:.1f} s", told]


def render_alerts(
    view: RunView, canvas: Canvas, *, has_alarms: bool = True
) -> list[RenderableType]:
    """A sentence for each thing worth a person's eye, in as many lines as it takes.

    `has_alarms=False` leaves the alarms of training out, where all of them are listed beside.
    """
    lines: list[RenderableType] = []
    for alert in find_alerts(view, has_alarms=has_alarms):
        style = "bold red" if alert.is_severe else "yellow"
        # Wrapped here, so that the frame knows how many lines it takes.
        lines += _wrap(canvas.text(f"{canvas.mark} {alert.text}", style), canvas.width)
    if canvas.height is not None and len(lines) > ALERT_LINES:
        rest = canvas.line(f"  more with: practicum runs {view.path}", "yellow")
        return [*lines[: ALERT_LINES - 1], rest]
    return lines


def render_evaluations(
    view: RunView, canvas: Canvas, *, most: int | None = None
) -> list[RenderableType]:
    """Held-out success and reward with their intervals, the first and the latest."""
    shown = _chosen_evaluations(view.evaluations, canvas, most)
    title = "held-out tasks, 95 % intervals"
    if len(shown) < len(view.evaluations):
        title += f" (first and last of {len(view.evaluations)} evaluations)"
    return [canvas.heading(title), _evaluations_table(shown, view, canvas)]


def _evaluations_table(shown: Sequence[EvalPoint], view: RunView, canvas: Canvas) -> Table:
    """Label, success, its place between 0 and 1, reward and n; a narrow terminal gets less."""
    cells = [_evaluation_cells(point, view) for point in shown]
    fixed = sum(max(len(row[i]) for row in cells) for i in range(4)) + 4
    room = canvas.width - fixed
    strip = min(room, WIDEST_STRIP) if room >= NARROWEST_STRIP else 0
    heads = ["", "success", f"0{'1':>{strip - 1}}" if strip else "", "mean reward", "tasks"]
    kept = [0, 1, 2, 3, 4] if strip else [0, 1, 4]
    table = Table.grid(padding=(0, 1))
    for _ in kept:
        table.add_column(no_wrap=True, overflow="crop")
    table.add_row(*(Text(heads[i], style="dim") for i in kept))
    for point, (label, success, reward, n) in zip(shown, cells, strict=True):
        drawn = interval_strip(point.success, strip, canvas.glyphs) if point.success else ""
        row = [Text(label), Text(success), Text(drawn, style="green"), Text(reward), Text(n)]
        table.add_row(*(row[i] for i in kept))
    return table


def _chosen_evaluations(
    points: Sequence[EvalPoint], canvas: Canvas, most: int | None = None
) -> list[EvalPoint]:
    if most is None:
        most = 2 if canvas.height is not None and canvas.height < TALL else EVALUATIONS_SHOWN
    return list(points) if len(points) <= most else [points[0], *points[1 - most :]]


def _best_step(view: RunView) -> int:
    """The step of the best checkpoint; 0 for a run that never got better than it began."""

    def key(point: EvalPoint) -> tuple[float, float, int]:
        return (point.success or point.reward).low, point.reward.value, point.step

    found = max(view.evaluations, key=key).step
    return found and (view.checkpoints.best or 0)


def _evaluation_cells(point: EvalPoint, view: RunView) -> tuple[str, str, str, str]:
    label = "before" if point.step == 0 else f"step {point.step}"
    if view.checkpoints.best is not None and point.step == _best_step(view):
        label += " best"
    success = format_interval(point.success, digits=2) if point.success else "unknown"
    success += beside_success(point, digits=2)
    counted = point.success or point.reward
    return label, success, format_interval(point.reward, digits=2), f"{counted.n:>5}"


def render_episode(
    shown: EpisodeView, canvas: Canvas, *, lines: int | None = None
) -> list[RenderableType]:
    """An episode turn by turn; with few lines, its last turns, and with too few nothing."""
    if lines is not None and lines < 3:
        return []
    episode, summary = shown.episode, shown.summary
    score = "not scored" if summary.score is None else f"score {format_number(summary.score)}"
    title = f"latest episode: {summary.purpose} step {summary.step} · {score} · {ending(episode)}"
    turns = list(enumerate(episode_turns(episode), start=1))
    kept = turns if lines is None else turns[-(lines - 2) :]
    failure = episode.trace.failure
    said = failure.message if failure else opening(episode)
    return [
        canvas.heading(title),
        canvas.line(said, "red" if failure else "bold"),
        _turns_table(kept, ending(episode), canvas),
    ]


def _turns_table(turns: Sequence[tuple[int, EpisodeTurn]], end: str, canvas: Canvas) -> Table:
    """Number, action, what came of it, what it was worth."""
    width = min(canvas.width, EPISODE_WIDTH)
    longest = max((canvas.text(turn.action).cell_len for _, turn in turns), default=0)
    action_width = min(longest, width // 2)
    arrow = canvas.text("→", "dim")
    answer_width = width - action_width - arrow.cell_len - NUMBER_WIDTH - REWARD_WIDTH - 4
    table = Table.grid(padding=(0, 1))
    for fixed in (NUMBER_WIDTH, action_width, arrow.cell_len, answer_width):
        table.add_column(width=fixed, no_wrap=True, overflow="crop")
    table.add_column(width=REWARD_WIDTH, justify="right", no_wrap=True, overflow="crop")
    for number, turn in turns:
        is_last = turn.observation is None
        answer = f"({end})" if turn.observation is None else turn.observation
        table.add_row(
            Text(f"{number:>{NUMBER_WIDTH}}", style="dim"),
            canvas.line(turn.action, "cyan", width=action_width),
            arrow,
            canvas.line(answer, "dim" if is_last else "", width=answer_width),
            _reward(turn.reward),
        )
    return table


def _reward(value: float | None) -> Text:
    if value is None:
        return Text("")
    return Text(f"{value:+.2f}", style="green" if value > 0 else "red" if value < 0 else "dim")


def _wrap(text: Text, width: int) -> list[Text]:
    """Lines of a sentence, those after the first indented; a word too long is left whole."""
    lines: list[str] = []
    for word in text.plain.split(" "):
        if lines and len(lines[-1]) + 1 + len(word) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(f"  {word}" if lines else word)
    return [Text(line, style=text.style) for line in lines]
