"""Episodes on a terminal: a row each, or one of them whole."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from practicum.cli.arguments import indented, plain
from practicum.core.sample import Episode
from practicum.core.score import Label
from practicum.core.trace import Message
from practicum.store.trace_store import FoundEpisode

COLOURS = {"system": "dim", "user": "cyan", "assistant": "bold", "tool": "green"}
MINUTE = "%Y-%m-%d %H:%M"


WIDE = 120
"""Columns from which environment, source and day have room."""
FACTS_WIDTH = 32
"""Columns of the numbers beside an id."""


def episode_table(
    found: Sequence[FoundEpisode], prompts: Mapping[str, str], width: int = 80
) -> Table:
    """A row for each episode: its id with what was asked under it, and what came of it.

    Args:
        found: The episodes.
        prompts: What was asked, by the episode's id.
        width: Columns of the terminal.
    """
    table = Table(box=None, header_style="bold", pad_edge=False)
    numbers, more = ("turns", "score", "label"), ("env", "source", "begun")
    headings = ("id", *(more if width >= WIDE else ()), "turns", "success", "score", "label")
    for heading in headings:
        # An id is there to be copied, so it is never broken.
        side = "right" if heading in numbers else "left"
        table.add_column(heading, overflow="fold", justify=side, no_wrap=True)  # type: ignore[arg-type]  # a literal
    for one in found:
        row = one.summary
        asked = " ".join(plain(prompts.get(row.id, "")).split())
        room = max(20, width - FACTS_WIDTH)
        first = Text(plain(row.id))
        if asked:
            first.append(f"\n  {asked[: room - 3]}{'…' if len(asked) > room - 3 else ''}", "dim")
        facts = {
            "env": row.env,
            "source": row.source or "-",
            "begun": _day(row.created_at),
            "turns": str(row.n_turns),
            "success": {True: "yes", False: "no", None: "-"}[row.success],
            "score": "-" if row.score is None else f"{row.score:.3g}",
            "label": "-" if one.label is None else f"{one.label:g}",
        }
        table.add_row(first, *(escape(plain(facts[heading])) for heading in headings[1:]))
    return table


def print_episode(episode: Episode, labels: Sequence[Label]) -> None:
    """All that was said, in order; a branch says where it begins."""
    console = Console(highlight=False)
    trace = episode.trace
    facts = [
        f"environment {trace.env}, task {trace.task_id}",
        f"recorded by {trace.source}" if trace.source else "a rollout of this program",
        f"model {trace.model}" if trace.model else "",
        f"begun {_minute(trace.started_at)}" if trace.started_at else "",
        f"took {trace.duration_s:.1f} s" if trace.duration_s else "",
        f"ended: {trace.stop.value}",
    ]
    console.print(Text(plain(trace.id), style="bold"))
    console.print(plain(", ".join(filter(None, facts))), markup=False, style="dim")
    for index, node in enumerate(trace.nodes):
        if node.parent != (index - 1 if index else None):
            after = "the start" if node.parent is None else f"message {node.parent + 1}"
            console.print(f"-- another branch, from {after}", style="yellow")
        for message in node.messages:
            _print_message(console, message)
    if trace.failure is not None:
        said = f"failed: {trace.failure.kind}: {trace.failure.message}"
        console.print(plain(said), style="red", markup=False)
    _print_verdicts(console, episode, labels)


def _print_message(console: Console, message: Message) -> None:
    style = "red" if message.is_error else COLOURS[message.role]
    if message.reasoning:
        console.print(f"thinks  {indented(message.reasoning, 8)}", style="dim", markup=False)
    lines = [message.content] if message.content or not message.tool_calls else []
    for call in message.tool_calls:
        arguments = json.dumps(dict(call.arguments), ensure_ascii=False)
        lines.append(f"calls {call.name} {arguments}")
    for line in lines:
        text = f"{message.role:10s}{indented(line, 10)}"
        console.print(text, style=style, markup=False, soft_wrap=True)


def _print_verdicts(console: Console, episode: Episode, labels: Sequence[Label]) -> None:
    outcome, score = episode.outcome, episode.score
    success = None if outcome is None else outcome.success
    console.print(f"success: {'not known' if success is None else str(success).lower()}")
    if score.value is None:
        console.print(plain(f"score: none ({score.reason})"), markup=False)
    else:
        parts = ", ".join(f"{name} {value}" for name, value in score.components.items())
        console.print(plain(f"score: {score.value:g} ({parts})"), markup=False)
    for label in labels:
        who = f"suggested by {label.author}" if label.is_suggestion else f"by {label.author}"
        note = f": {label.note}" if label.note else ""
        console.print(plain(f"label {label.value:g} {who}{note}"), markup=False)


def _minute(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime(MINUTE) if seconds else "-"


def _day(seconds: float) -> str:
    return _minute(seconds).partition(" ")[0]
