"""What a report says of one run, in the order a reader asks."""

import json
import math
from collections.abc import Sequence
from typing import NamedTuple

from practicum.analysis.alerts import alarm_lines, find_alerts
from practicum.analysis.curves import CURVES, curves_of
from practicum.analysis.evaluations import EvalPoint
from practicum.analysis.mastery_curves import mastery_curves, unsolved_kinds
from practicum.analysis.run_view import RunStatus, RunView, ending, gain_of, read_run
from practicum.analysis.wording import clock_time, format_duration, format_number, training_words
from practicum.core.checkpoint import Interval, beside_success, card_head
from practicum.core.sample import Episode
from practicum.engine.models.catalog import known_base
from practicum.evaluation.report import format_interval
from practicum.evaluation.study_report import ONE_SEED
from practicum.reports.chart_svg import curve_chart
from practicum.reports.document import Block, Document, Heading, Listing, Paragraph, Table
from practicum.store.run_dir import RunDir
from practicum.store.trace_store import EpisodeSummary, SqliteTraceStore

EXAMPLES = 2
"""Good episodes, and as many bad ones."""
MOST_EPISODES = 2000
"""Episodes of one evaluation, or one step, that examples are chosen from."""
MOST_CHARACTERS = 1200
"""Of a message; a report is to be read."""
MOST_MESSAGES = 24
"""Of an episode: those at its start and its end."""
NO_LICENCE = "other"
FEWEST_POINTS = 2
"""Of a curve."""


def report_on_run(run: RunDir) -> Document:
    """The report on a run as its folder shows it now."""
    view = read_run(run)
    base, licence = known_base(view.config.model.name)
    return Document(
        title=f"Run {view.name}",
        subtitle=_subtitle(view),
        front=tuple(card_head(base, licence, "peft")),
        blocks=(
            *_result(view),
            *_trained_on(view, base, licence),
            *_evidence(view),
            *_charts(view),
            *_alarms(view),
            *_examples(view, run),
            *config_blocks(run.config_path.read_text(encoding="utf-8")),
            *_again(view),
        ),
    )


def _subtitle(view: RunView) -> str:
    started = clock_time(view.facts.created_at)
    return (
        f"{view.config.model.name} on {view.config.env_name}, {view.status.value}, step "
        f"{view.steps_done} of {view.steps_total}, begun {started}; 95 % intervals throughout"
    )


def _result(view: RunView) -> list[Block]:
    """What it came to, in the first lines."""
    told: list[Block] = []
    for label, point in (("Before training", view.before), ("After", view.after)):
        if point is not None:
            told.append(Paragraph(text=f"{label}: {_point_words(point)}.", is_strong=True))
    _, verdict = gain_of(view)
    if verdict:
        told.append(Paragraph(text=verdict))
    if view.after is None:
        told.append(Paragraph(text="There is no held-out evaluation after training yet."))
    if view.status is not RunStatus.FINISHED:
        told.append(
            Paragraph(text="The run has not come to its end: what follows is what is there.")
        )
    told.append(Paragraph(text=f"This is {ONE_SEED}; its intervals are over tasks only."))
    return told


def _point_words(point: EvalPoint) -> str:
    reward = f"mean reward {with_n(point.reward)}"
    if point.success is None:
        return f"{reward} on held-out tasks; whether a task was done is not known"
    masked = beside_success(point, digits=2)
    return f"success {with_n(point.success)}{masked} on held-out tasks, {reward}"


def with_n(found: Interval) -> str:
    """A figure with its interval and what it rests on."""
    return f"{format_interval(found, digits=2)}, n = {found.n}"


def _trained_on(view: RunView, base: str, licence: str) -> list[Block]:
    config, facts = view.config, view.facts
    hardware = {key: value for key, value in facts.hardware.items() if isinstance(value, str | int)}
    rows = [
        ("model", base if licence == NO_LICENCE else f"{base}, licence {licence}"),
        ("how", training_words(config).replace("`", "")),
        ("environment", _environment(view)),
        ("adapter", f"LoRA, rank {config.lora.r}, alpha {config.lora.alpha:g}"),
        ("seed", str(config.seed)),
        *_amounts(view),
        ("weights", _fingerprint(view)),
        ("machine", _machine(view, hardware)),
        ("versions", ", ".join(f"{name} {version}" for name, version in facts.versions.items())),
    ]
    kept = tuple((name, told) for name, told in rows if told)
    return [Heading(text="What was trained on what"), Table(head=("", ""), rows=kept)]


def _amounts(view: RunView) -> list[tuple[str, str]]:
    """How much was done, and how long it took."""
    episodes, tokens, examples = (
        sum(row.number(name) or 0.0 for row in view.steps)
        for name in ("episodes", "sampled_tokens", "examples")
    )
    seconds = sum(row.duration_s or 0.0 for row in view.steps)
    practised = f"{episodes:,.0f} episodes, {tokens:,.0f} sampled tokens"
    return [
        ("practised", practised if episodes else ""),
        ("imitated", f"{examples:,.0f} examples" if examples else ""),
        ("time in steps", format_duration(seconds) if seconds else ""),
    ]


def _environment(view: RunView) -> str:
    env = view.config.env
    if env is None:
        return "none"
    options = [f"{key}={json.dumps(value)}" for key, value in env.options.items()]
    return " ".join([env.name, *options])


def _fingerprint(view: RunView) -> str:
    known = [row.values["fingerprint"] for row in view.steps if row.values.get("fingerprint")]
    return f"{known[-1]} (base, adapter and its settings, after the last step)" if known else ""


def _machine(view: RunView, hardware: dict[str, str | int]) -> str:
    told = [str(hardware[key]) for key in ("system", "cpu") if key in hardware]
    if cores := hardware.get("allowed_cores"):
        told.append(f"{cores} cores")
    if memory := hardware.get("memory_bytes"):
        told.append(f"{int(memory) / 2**30:.0f} GiB")
    told += [f"on {last.device}" for last in view.attempts[-1:]]
    starts = len(view.attempts)
    return ", ".join([*told, f"{starts} starts"] if starts > 1 else told)


def _evidence(view: RunView) -> list[Block]:
    """Every evaluation, and the last one by level and environment."""
    if not view.evaluations:
        return []
    rows = tuple(
        (
            "before" if point.step == 0 else str(point.step),
            "unknown" if point.success is None else with_n(point.success),
            with_n(point.reward),
            f"{point.masked} of {point.attempts}" if point.attempts else str(point.masked),
        )
        for point in view.evaluations
    )
    told: list[Block] = [
        Heading(text="Evidence on held-out tasks"),
        Table(head=("after step", "success", "mean reward", "masked"), rows=rows),
    ]
    last = view.evaluations[-1]
    parts = {f"level {level}": found for level, found in last.success_by_level.items()}
    parts |= dict(last.success_by_env)
    if len(parts) > 1:
        shares = tuple((name, with_n(found)) for name, found in parts.items())
        told.append(Table(head=(f"after step {last.step}", "success"), rows=shares))
    return told


def _charts(view: RunView) -> list[Block]:
    if not view.steps:
        return []
    curves = dict.fromkeys((*CURVES, *curves_of(view)))
    told: list[Block] = [Heading(text="Curves")]
    for curve in curves:
        if sum(row.number(curve.field) is not None for row in view.steps) >= FEWEST_POINTS:
            is_scored = curve.field in ("success", "reward")
            told.append(curve_chart(view, curve, view.evaluations if is_scored else ()))
    return [*told, *_mastery(view)]


def _mastery(view: RunView) -> list[Block]:
    curves = mastery_curves(view)
    if not curves:
        return []
    rows = tuple(
        (
            curve.name,
            format_number(next((v for v in curve.success if v is not None), None)),
            format_number(curve.newest),
            "" if curve.draws is None else f"{curve.draws:.0%}",
        )
        for curve in curves
    )
    head = ("practised", "success at first", "at last", "share of draws")
    caption = "As the curriculum estimates it from practice; it steers, and is no evidence."
    told: list[Block] = [Table(head=head, rows=rows, caption=caption)]
    unsolved, kinds = unsolved_kinds(view)
    if unsolved:
        named = (
            f"Never solved in practice, {len(unsolved)} of {kinds} kinds: {', '.join(unsolved)}."
        )
        told.append(Paragraph(text=named))
    return told


def _alarms(view: RunView) -> list[Block]:
    told: list[Block] = [Heading(text="Alarms")]
    lines = alarm_lines(view)
    notes = [alert.text for alert in find_alerts(view, has_alarms=False)]
    if not lines and not notes:
        return [*told, Paragraph(text="None: no sign of a collapse or of a gamed reward was seen.")]
    told += [Paragraph(text=line, is_strong=True) for line in lines]
    return [*told, *(Paragraph(text=note) for note in notes)]


class _Example(NamedTuple):
    summary: EpisodeSummary
    episode: Episode


def _examples(view: RunView, run: RunDir) -> list[Block]:
    """Good and bad episodes of the newest evaluation, or else of the newest step."""
    if not run.traces_path.is_file():
        return []
    with SqliteTraceStore(run.traces_path, read_only=True) as store:
        good, bad, where = _chosen(store, view)
    if not good and not bad:
        return []
    told: list[Block] = [Heading(text="Examples"), Paragraph(text=where)]
    for word, examples in (("Good", good), ("Bad", bad)):
        for example in examples:
            told += _example(word, example)
    return told


def _chosen(store: SqliteTraceStore, view: RunView) -> tuple[list[_Example], list[_Example], str]:
    for purpose, steps in (
        ("eval", [point.step for point in view.evaluations]),
        ("train", [row.step for row in view.steps]),
    ):
        for step in reversed(steps[-3:]):
            where = f"purpose = {purpose} and step = {step}"
            found = [one.summary for one in store.find(where, limit=MOST_EPISODES)]
            scored = sorted((s for s in found if s.score is not None), key=_rank)
            if scored:
                good = [s for s in reversed(scored) if s.success is not False][:EXAMPLES]
                bad = [s for s in scored if not s.success and s not in good][:EXAMPLES]
                told = f"Of {len(scored)} scored episodes made {_made(purpose, step)}: those with "
                told += "the highest and the lowest score."
                return _whole(store, good), _whole(store, bad), told
    return [], [], ""


def _rank(summary: EpisodeSummary) -> tuple[bool, float, str]:
    score = summary.score if summary.score is not None else -math.inf
    return bool(summary.success), score, summary.id


def _made(purpose: str, step: int) -> str:
    return f"in the evaluation after step {step}" if purpose == "eval" else f"in step {step}"


def _whole(store: SqliteTraceStore, chosen: Sequence[EpisodeSummary]) -> list[_Example]:
    found = [(summary, store.get(summary.id)) for summary in chosen]
    return [_Example(summary, episode) for summary, episode in found if episode is not None]


def _example(word: str, example: _Example) -> list[Block]:
    summary, episode = example
    title = (
        f"{word}: task {summary.task_id}, {ending(episode)}, score "
        f"{format_number(summary.score)}, {summary.n_turns} turns, {summary.sampled_tokens} tokens"
    )
    return [Paragraph(text=title, is_strong=True), Listing(text=conversation(episode))]


def conversation(episode: Episode) -> str:
    """What was said, in order; long messages and long episodes are cut, and say so."""
    said = []
    for node in episode.trace.nodes:
        for message in node.messages:
            parts = [message.content] if message.content else []
            parts += [f"{c.name}({json.dumps(dict(c.arguments))})" for c in message.tool_calls]
            said.append(f"{message.role}: {_cut(chr(10).join(parts))}")
    if len(said) > MOST_MESSAGES:
        half = MOST_MESSAGES // 2
        left = f"[{len(said) - 2 * half} messages left out]"
        said = [*said[:half], left, *said[-half:]]
    return "\n".join(said)


def _cut(text: str) -> str:
    if len(text) <= MOST_CHARACTERS:
        return text
    half = MOST_CHARACTERS // 2
    return f"{text[:half]} [{len(text) - 2 * half:,} characters left out] {text[-half:]}"


def config_blocks(text: str) -> list[Block]:
    """The whole config, as it is read again."""
    return [Heading(text="Config"), Listing(text=text, language="yaml")]


def _again(view: RunView) -> list[Block]:
    name = view.name
    lines = [f"# the config above, saved as {name}.yaml"]
    lines.append(f"practicum train {name}.yaml --name {name}-again")
    if view.evaluations:
        n = (view.evaluations[-1].success or view.evaluations[-1].reward).n
        lines.append(f"practicum eval runs/{name}-again --n {n} --against base")
    lines.append(f"practicum compare runs/{name} runs/{name}-again")
    same = "The same seed and threads on a CPU give the same bytes where no sandbox or server is "
    same += "waited for; elsewhere the intervals above say how near another run should be."
    return again_blocks(lines, same)


def again_blocks(lines: Sequence[str], told: str) -> list[Block]:
    """The commands that make it again, and what may differ."""
    listing = Listing(text="\n".join(lines), language="bash")
    return [Heading(text="To make it again"), listing, Paragraph(text=told)]
