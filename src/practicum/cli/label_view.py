"""How the review queue shows a trace, an answer and a report."""

from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from practicum.cli.plain_text import indented, plain

if TYPE_CHECKING:
    from practicum.assemble.labels import Agreement, LabelReport, Prediction
    from practicum.core.trace import Message, Trace

__all__ = ["print_report", "print_suggestion", "print_trace"]

STYLES = {"system": "dim", "user": "cyan", "assistant": "bold", "tool": "yellow"}
SHOWN_LINES = 12
SHOWN_CHARS = 1200
"""Of a message; the middle of a longer one is left out."""


def print_trace(console: Console, trace: "Trace", left: int, whole: bool) -> None:
    """A trace as a conversation. Its outcome, score and suggested label stay out of sight."""
    console.rule(style="dim")
    about = f"{trace.env} {trace.task_id}" + (f", from {trace.source}" if trace.source else "")
    console.print(Text.assemble((plain(trace.id), "bold"), f"  {plain(about)}"))
    for message in trace.messages():
        _print_message(console, message, whole)
    failure = f": {plain(trace.failure.message)}" if trace.failure else ""
    turns = len(trace.turns)
    told = f"stopped: {trace.stop.value}{failure}; {turns} turns; {left} traces left"
    console.print(told, style="dim", markup=False)


def _print_message(console: Console, message: "Message", whole: bool) -> None:
    role = f"{message.role} (failed)" if message.is_error else message.role
    parts = [f"(thinks) {message.reasoning}"] if message.reasoning else []
    parts += [message.content] if message.content else []
    parts += [f"→ {call.name} {_arguments(call.arguments)}" for call in message.tool_calls]
    shown = "\n".join(parts)
    text = indented(shown if whole else _shortened(shown), spaces=2)
    console.print(Text(f"{role}:", style=STYLES[message.role]))
    console.print(f"  {text}", markup=False, soft_wrap=True)


def _arguments(arguments: object) -> str:
    import json

    return json.dumps(dict(arguments), ensure_ascii=False)  # type: ignore[call-overload]


def _shortened(text: str) -> str:
    """The beginning and the end, with what was left out between them."""
    lines = text.split("\n")
    if len(lines) > SHOWN_LINES:
        half = SHOWN_LINES // 2
        left_out = len(lines) - 2 * half
        text = "\n".join([*lines[:half], f"[… {left_out} lines]", *lines[-half:]])
    if len(text) > SHOWN_CHARS:
        half = SHOWN_CHARS // 2
        text = f"{text[:half]} [… {len(text) - 2 * half} characters] {text[-half:]}"
    return text


def print_suggestion(console: Console, good: bool, said: "Prediction | None") -> None:
    """What the labeler would have said, now that the person has spoken."""
    told = "good" if good else "bad"
    if said is None:
        console.print(f"{told}; the labeler has too few labels yet to have a view")
        return
    same = "agrees" if said.is_good == good else "would have said otherwise"
    view = f"good with {said.probability:.2f}"
    console.print(f"{told}; the labeler {same}: {view}", markup=False)


def print_report(console: Console, report: "LabelReport") -> None:
    """Counts, agreement and calibration."""
    labelled = report.good + report.bad
    console.print(
        f"{labelled} episodes labelled by people: {report.good} good, {report.bad} bad; "
        f"{report.unlabelled} not; {report.suggestions} with a suggestion"
    )
    for author, count in report.authors.items():
        console.print(f"  {plain(author)}: {count}", markup=False)
    for who, agreement in report.people.items():
        console.print(f"{plain(who)} {_agreement(agreement)}", markup=False)
    if report.suggested.n:
        told = _agreement(report.suggested)
        console.print(f"suggestions, with what people said after them: {told}", markup=False)
    if report.labeler is None or report.calibration is None:
        console.print("the labeler needs 3 good and 3 bad labels before it can be checked")
        return
    told = _agreement(report.labeler)
    console.print(f"labeler, with labels it had not seen: {told}", markup=False)
    found = report.calibration
    console.print(
        f"calibration error {found.error:.3f} ({found.by_chance:.3f} is to be expected of right "
        f"probabilities with as many labels), Brier score {found.brier:.3f}"
    )
    for probability, share, count in found.bins:
        console.print(f"  said {probability:.2f}: {share:.2f} were good, n = {count}")
    console.print(
        "labels chosen where the labeler is undecided are harder than most: --order random gives "
        "labels to measure with",
        style="dim",
    )


def _agreement(found: "Agreement") -> str:
    if found.agreed is None:
        return "nothing to compare"
    told = f"agree on {found.agreed:.2f}, n = {found.n}"
    if found.kappa is None:
        return f"{told}, kappa undefined (only one verdict was given)"
    return f"{told}, kappa {found.kappa:.2f} [{found.low:.2f}, {found.high:.2f}]"
