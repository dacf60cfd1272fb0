"""What can be counted about a trace: lengths, calls, failures, repetition, how it ended.

Only the trace is read, never its outcome: a trace imported from elsewhere has none, and a reward
that read the outcome would only say again what another reward says already.
"""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from practicum.core.tool_calls import write_tool_call
from practicum.core.trace import Message, StopReason, Trace

__all__ = ["FACT_NAMES", "Transcript", "count_facts", "read_transcript"]

ERROR_WORDS = re.compile(
    r"\b(error|errors|exception|traceback|failed|failure|fatal|denied|invalid|refused|timeout"
    r"|timed out|no such|not found|cannot|unknown|missing|undefined|syntax)\b",
    re.IGNORECASE,
)
GIVING_UP = re.compile(
    r"\b(sorry|unable|apologi[sz]e|give up|giving up|can't|cannot|could not|couldn't|impossible"
    r"|not sure|i guess|maybe|perhaps)\b",
    re.IGNORECASE,
)
CLAIMS_DONE = re.compile(
    r"\b(done|finished|complete|completed|success|successfully|fixed|verified|passed|works)\b",
    re.IGNORECASE,
)
WRITTEN_CALL = re.compile(r"<tool_call>\s*(.*?)\s*(?:</tool_call>|\Z)", re.DOTALL)
TAG = re.compile(r"</?[a-zA-Z_][\w-]*>")
WORD = re.compile(r"\w+")
SHINGLE = 4
"""Words in a row that count as a repetition when they come again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript:
    """The texts of a trace by who said them, in order, along the path that was followed last."""

    said: tuple[str, ...]
    """What the assistant wrote, a text for each turn, calls left out."""
    thought: tuple[str, ...]
    """What it thought, where that was kept apart."""
    calls: tuple[str, ...]
    """Its tool calls, each as one text of name and arguments."""
    results: tuple[str, ...]
    """What tools answered."""
    failed: tuple[bool, ...]
    """Whether each answer is marked as a failure, or begins like one."""
    replies: tuple[str, ...]
    """What the user said after the assistant's first turn."""
    ends_with_call: bool
    """Whether the assistant's last turn is a call."""


def read_transcript(trace: Trace) -> Transcript:
    """Sort the messages of the path that ends at the trace's newest node by who said them."""
    path = trace.path(len(trace.nodes) - 1) if trace.nodes else ()
    messages = [message for index in path for message in trace.nodes[index].messages]
    assistant = [message for message in messages if message.role == "assistant"]
    turns = [_text_and_calls(message) for message in assistant]
    answers = [message for message in messages if message.role == "tool"]
    first = next((i for i, m in enumerate(messages) if m.role == "assistant"), len(messages))
    return Transcript(
        said=tuple(text for text, _ in turns),
        thought=tuple(message.reasoning for message in assistant if message.reasoning),
        calls=tuple(call for _, calls in turns for call in calls),
        results=tuple(message.content for message in answers),
        failed=tuple(m.is_error or m.content.lstrip()[:6].lower() == "error:" for m in answers),
        replies=tuple(m.content for m in messages[first:] if m.role == "user"),
        ends_with_call=bool(turns and turns[-1][1]),
    )


def _text_and_calls(message: Message) -> tuple[str, list[str]]:
    """What a turn says, and its calls; those written into the text count like the others."""
    if message.tool_calls:
        bodies = [WRITTEN_CALL.fullmatch(write_tool_call(call)) for call in message.tool_calls]
        return message.content, [body[1] for body in bodies if body is not None]
    return WRITTEN_CALL.sub(" ", message.content), WRITTEN_CALL.findall(message.content)


def count_facts(trace: Trace, transcript: Transcript) -> list[float]:
    """One number for each of `FACT_NAMES`; counts are on a log scale, shares between 0 and 1."""
    facts = {
        **_lengths(transcript),
        **_tool_use(transcript),
        **_wording(transcript),
        **_repetition(transcript),
        **_ending(trace, transcript),
    }
    return [facts[name] for name in FACT_NAMES]


def _lengths(told: Transcript) -> dict[str, float]:
    written = sum(map(len, told.said))
    return {
        "turns": math.log1p(len(told.said)),
        "said_chars": math.log1p(written),
        "chars_per_turn": math.log1p(written / max(1, len(told.said))),
        "thought_chars": math.log1p(sum(map(len, told.thought))),
        "call_chars": math.log1p(sum(map(len, told.calls))),
        "result_chars": math.log1p(sum(map(len, told.results))),
        "longest_turn": math.log1p(max(map(len, told.said), default=0)),
        "silent_turn_share": _share(not text.strip() for text in told.said),
        "user_replies": math.log1p(len(told.replies)),
    }


def _tool_use(told: Transcript) -> dict[str, float]:
    unhappy = [failed or _has_error(text) for failed, text in _answers(told)]
    return {
        "calls": math.log1p(len(told.calls)),
        "calls_per_turn": len(told.calls) / max(1, len(told.said)),
        "answers": math.log1p(len(told.results)),
        "failures": math.log1p(sum(told.failed)),
        "failed_share": _share(told.failed),
        "error_answers": math.log1p(sum(unhappy)),
        "error_answer_share": _share(unhappy),
        "last_answer_failed": float(bool(unhappy) and unhappy[-1]),
        "failures_in_a_row": math.log1p(_longest_run(unhappy)),
        "empty_answer_share": _share(not text.strip() for text in told.results),
    }


def _answers(told: Transcript) -> Iterable[tuple[bool, str]]:
    return zip(told.failed, told.results, strict=True)


def _has_error(text: str) -> bool:
    return ERROR_WORDS.search(text) is not None


def _wording(told: Transcript) -> dict[str, float]:
    text = "\n".join(told.said)
    words = max(1, len(WORD.findall(text)))
    last = told.said[-1] if told.said else ""
    return {
        "giving_up": math.log1p(len(GIVING_UP.findall(text))),
        "claims_done": math.log1p(len(CLAIMS_DONE.findall(text))),
        "error_words_per_word": len(ERROR_WORDS.findall(text)) / words,
        "tags": math.log1p(len(TAG.findall(text))),
        "code_blocks": math.log1p(text.count("```") // 2),
        "questions": math.log1p(text.count("?")),
        "last_claims_done": float(CLAIMS_DONE.search(last) is not None),
        "last_gives_up": float(GIVING_UP.search(last) is not None),
        "last_has_number": float(any(letter.isdigit() for letter in last)),
        "last_asks": float(last.rstrip().endswith("?")),
        "last_is_finished": float(last.rstrip().endswith((".", "!", "?", "`", ")", "}", '"'))),
        "last_chars": math.log1p(len(last.strip())),
    }


def _repetition(told: Transcript) -> dict[str, float]:
    words = [word.lower() for text in told.said for word in WORD.findall(text)]
    shingles = [tuple(words[i : i + SHINGLE]) for i in range(len(words) - SHINGLE + 1)]
    same_as_before = [a == b for a, b in zip(told.calls, told.calls[1:], strict=False)]
    return {
        "repeated_phrase_share": _repeated_share(shingles),
        "distinct_word_share": len(set(words)) / max(1, len(words)),
        "repeated_call_share": _repeated_share(told.calls),
        "same_call_in_a_row": math.log1p(_longest_run(same_as_before)),
        "repeated_answer_share": _repeated_share(told.results),
        "repeated_turn_share": _repeated_share([text for text in told.said if text.strip()]),
    }


def _ending(trace: Trace, told: Transcript) -> dict[str, float]:
    stops = {f"stop_{stop.value}": float(trace.stop == stop) for stop in StopReason}
    return {
        **stops,
        "broke_off": float(trace.failure is not None),
        "ends_with_call": float(told.ends_with_call),
        "ends_unanswered": float(bool(told.said) and not told.said[-1].strip()),
        "branches": math.log1p(max(0, len(trace.leaves()) - 1)),
    }


def _share(marks: Iterable[bool]) -> float:
    found = list(marks)
    return sum(found) / len(found) if found else 0.0


def _repeated_share(things: Sequence[object]) -> float:
    return 1 - len(set(things)) / len(things) if things else 0.0


def _longest_run(marks: Sequence[bool]) -> int:
    longest = run = 0
    for mark in marks:
        run = run + 1 if mark else 0
        longest = max(longest, run)
    return longest


def _names() -> tuple[str, ...]:
    nothing = Trace(id="", task_id="", env="")
    told = read_transcript(nothing)
    groups = (_lengths(told), _tool_use(told), _wording(told), _repetition(told))
    return tuple(name for group in (*groups, _ending(nothing, told)) for name in group)


FACT_NAMES = _names()
"""Names of the facts, in their order; saved with a labeler, which refuses to read with others."""
