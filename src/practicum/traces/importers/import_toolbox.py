"""Importer of ToolBoxV2 FlowAgent traces and checkpoints; pickles are read without running them.

FlowAgent saves checkpoints as pickles of its own classes. A pickle can call any function of any
module (arbitrary code execution); here every global except dates and a few containers resolves to
an inert class that only stores its arguments and state.

A trace file is one run: question, tool calls, reasoning, answer. A checkpoint has the conversations
of its sessions, and the next checkpoint has them again with what followed. Each exchange of a
session (a question and all up to the next one) is one episode with the messages before it as
context, and has the same identity in every checkpoint.
"""

import io
import pickle
from collections import OrderedDict
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta, timezone
from itertools import pairwise
from pathlib import Path
from typing import Any

from practicum.core.json_values import as_json, well_formed
from practicum.core.trace import Message, StopReason, ToolCall
from practicum.traces.importers.json_files import begins_with_array, parts_of_rows
from practicum.traces.importers.records import (
    Draft,
    Imported,
    Malformed,
    Part,
    Verdict,
    as_list,
    as_map,
    as_number,
    as_seconds,
    as_text,
    as_truth,
    decode_json,
    read_message,
)

PICKLE_MAGIC = b"\x80"
"""First byte of pickles since protocol 2."""


def _encode(text: str, encoding: str) -> bytes:
    if encoding != "latin1":
        raise Malformed(f"the pickle holds bytes in {encoding!r:.20}")
    return text.encode(encoding)


MAX_VALUES = 2_000_000
"""Nested references let a tiny pickle expand to billions of values (a "billion laughs" attack)."""

HARMLESS: dict[tuple[str, str], Any] = {
    ("datetime", "datetime"): datetime,
    ("datetime", "date"): date,
    ("datetime", "time"): time,
    ("datetime", "timedelta"): timedelta,
    ("datetime", "timezone"): timezone,
    ("collections", "OrderedDict"): OrderedDict,
    ("builtins", "set"): set,
    ("builtins", "frozenset"): frozenset,
    ("_codecs", "encode"): _encode,
}
"""Globals that are safe to call: plain data classes, and protocol 2's encoding of bytes."""


class _Inert:
    """Stands in for an object of any class; stores its arguments and state."""

    name = ""

    def __new__(cls, *given: Any, **named: Any) -> "_Inert":
        made = super().__new__(cls)
        made.given = given
        made.held = dict(named)
        return made

    def __init__(self, *given: Any, **named: Any) -> None:
        self.given: tuple[Any, ...] = given
        self.held: dict[Any, Any] = dict(named)

    def __setstate__(self, state: Any) -> None:
        parts = state if isinstance(state, tuple) else (state,)
        for part in parts:  # objects with slots have a pair of states
            if isinstance(part, dict):
                self.held.update(part)

    def __call__(self, *given: Any, **named: Any) -> "_Inert":
        return _Inert(*given, **named)

    def __setitem__(self, key: Any, value: Any) -> None:
        self.held[key] = value

    def append(self, value: Any) -> None:
        """As lists of a class of their own are filled."""
        self.given = (*self.given, value)

    def extend(self, values: Any) -> None:
        """As lists of a class of their own are filled."""
        self.given = (*self.given, *values)


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        known = HARMLESS.get((module, name))
        return known if known is not None else type(name.rpartition(".")[2], (_Inert,), {})

    def persistent_load(self, pid: Any) -> Any:
        return _Inert(pid)


def load_plain(content: bytes) -> Any:
    """The content of a pickle as plain data; objects become dictionaries of their fields."""
    try:
        loaded = _Unpickler(io.BytesIO(content)).load()
        return _Plain().of(loaded)
    except Malformed:
        raise
    except RecursionError:
        raise Malformed("the pickle is nested too deep") from None
    except Exception as error:  # noqa: BLE001 - a damaged pickle can fail in any way
        raise Malformed(f"the pickle cannot be read ({error!s:.100})") from None


class _Plain:
    """Converts loaded objects to plain data; refuses cycles and too many values."""

    def __init__(self) -> None:
        self._left = MAX_VALUES
        self._ancestors: set[int] = set()

    def of(self, value: Any) -> Any:
        self._left -= 1
        if self._left < 0:
            raise Malformed("the pickle holds more values than any checkpoint")
        if not isinstance(value, _Inert | dict | list | tuple | set | frozenset):
            if isinstance(value, str):
                return well_formed(value)
            if isinstance(value, date | time):
                return value.isoformat()
            return value.total_seconds() if isinstance(value, timedelta) else value
        if id(value) in self._ancestors:
            raise Malformed("the pickle contains itself")
        self._ancestors.add(id(value))
        plain = self._inside(value)
        self._ancestors.remove(id(value))
        return plain

    def _inside(self, value: Any) -> Any:
        if isinstance(value, _Inert):
            if not value.held:
                given = [self.of(one) for one in value.given]
                return given[0] if len(given) == 1 else given
            value = value.held
        if isinstance(value, dict):
            return {str(k): self.of(v) for k, v in value.items()}
        return [self.of(one) for one in value]


SOURCE = "toolbox"
FACTS = (
    "session_id",
    "tasks_created",
    "tasks_completed",
    "tasks_failed",
    "total_tokens_in",
    "total_tokens_out",
    "total_cost",
    "llm_calls_count",
)


def read(path: Path, skip: int) -> Iterator[Part]:
    """One trace or checkpoint per file, or traces as an array or lines."""
    with path.open("rb") as file:
        is_pickle = file.read(1) == PICKLE_MAGIC
    if not is_pickle and (path.suffix == ".jsonl" or begins_with_array(path)):
        return parts_of_rows(path, skip, convert)
    return _one_file(path, skip, is_pickle)


def _one_file(path: Path, skip: int, is_pickle: bool) -> Iterator[Part]:
    if skip:
        return
    size = path.stat().st_size
    try:
        if is_pickle:
            value = load_plain(path.read_bytes())
        else:
            value = decode_json(path.read_text(encoding="utf-8"))
        yield Part(line=1, offset=size, found=convert(value))
    except UnicodeDecodeError as error:
        yield Part(line=0, offset=size, problem=f"it is not UTF-8 text ({error.reason})")
    except Malformed as error:
        yield Part(line=error.line, offset=size, problem=str(error))


def convert(value: Any) -> tuple[Imported, ...]:
    """The episodes of a trace or a checkpoint."""
    row = as_map(value, "the file")
    if "session_data" in row or "conversation_history" in row:
        return tuple(_exchanges(row))
    if "user_query" in row:
        return (_trace(row).finish(),)
    raise Malformed('it has neither "user_query" (a trace) nor "session_data" (a checkpoint)')


def _trace(row: dict[str, Any]) -> Draft:
    draft = Draft(
        source=SOURCE,
        messages=[Message(role="user", content=as_text(row.get("user_query")))],
        id=as_text(row.get("trace_id")),
        env=as_text(row.get("agent_name")),
        started_at=as_seconds(row.get("timestamp")),
        duration_s=_milliseconds(row.get("execution_duration_ms")),
        evidence={name: as_json(row[name]) for name in FACTS if row.get(name)},
        verdicts=_verdicts(row),
    )
    reward = as_number(row.get("reward_score"), "reward_score")
    draft.rewards = {} if reward is None else {"reward_score": reward}
    reasoning = _reasoning(row)
    for number, value in enumerate(as_list(row.get("tool_calls"), "tool_calls"), 1):
        _add_call(draft, as_map(value, f"tool call {number}"), number, reasoning)
        reasoning = ""
    draft.messages.append(
        Message(role="assistant", content=as_text(row.get("final_response")), reasoning=reasoning)
    )
    return draft


def _reasoning(row: dict[str, Any]) -> str:
    """All reasoning steps; the file does not say between which calls they were."""
    steps = as_list(row.get("reasoning_steps"), "reasoning_steps")
    return "\n".join(as_text(as_map(step, "a reasoning step").get("content")) for step in steps)


def _add_call(draft: Draft, call: dict[str, Any], number: int, reasoning: str) -> None:
    arguments = as_json(as_map(call.get("arguments"), "arguments"))
    asked = ToolCall(
        name=as_text(call.get("tool_name")) or "tool",
        arguments=arguments if isinstance(arguments, dict) else {},
        id=f"call-{number}",
    )
    failed = as_truth(call.get("success"), "success") is False
    error = as_text(call.get("error"))
    draft.messages.append(
        Message(role="assistant", content="", tool_calls=(asked,), reasoning=reasoning)
    )
    draft.durations[len(draft.messages)] = _milliseconds(call.get("duration_ms"))
    draft.messages.append(
        Message(
            role="tool",
            content=as_text(call.get("result")) or error,
            tool_call_id=asked.id,
            is_error=failed or bool(error),
        )
    )


def _verdicts(row: dict[str, Any]) -> tuple[Verdict, ...]:
    label = as_truth(row.get("label"), "label")
    if label is None:
        return ()
    by_person = row.get("manual_review") is True
    note = as_text(row.get("review_notes"))
    return (Verdict(value=float(label), author=SOURCE, note=note, is_suggestion=not by_person),)


def _milliseconds(value: Any) -> float:
    return (as_number(value, "a duration") or 0.0) / 1000


def _exchanges(checkpoint: dict[str, Any]) -> Iterator[Imported]:
    sessions = as_map(checkpoint.get("session_data"), "session_data")
    histories = {
        name: as_map(session, f"session {name!r}").get("history")
        for name, session in sessions.items()
    }
    if not any(histories.values()):
        histories = {"default": checkpoint.get("conversation_history")}
    agent = as_map(as_json(checkpoint.get("agent_state") or {}), "agent_state")
    for session, history in histories.items():
        entries = [
            as_map(entry, f"message {n} of session {session!r}")
            for n, entry in enumerate(as_list(history, "history"), 1)
        ]
        for start, end in _bounds(entries):
            draft = _exchange(entries, start, end)
            draft.env = as_text(agent.get("agent_name") or agent.get("name"))
            draft.evidence["session_id"] = session
            # Without the messages before it, which later checkpoints may have truncated; the
            # timestamps tell equal exchanges apart.
            identity = [session, *map(_identifying, entries[start:end])]
            draft.identity = f"{SOURCE} {identity!r}"
            yield draft.finish()


def _bounds(entries: list[dict[str, Any]]) -> Iterator[tuple[int, int]]:
    """Start and end of each exchange that has an answer."""
    starts = [i for i, entry in enumerate(entries) if entry.get("role") == "user"]
    for start, end in pairwise([*starts, len(entries)]):
        if any(entry.get("role") == "assistant" for entry in entries[start:end]):
            yield start, end


def _exchange(entries: list[dict[str, Any]], start: int, end: int) -> Draft:
    messages = [read_message(entry, n) for n, entry in enumerate(entries[:end], 1)]
    return Draft(
        source=SOURCE,
        messages=messages,
        given=set(range(start)),
        instruction=messages[start].content,
        started_at=as_seconds(entries[start].get("timestamp")),
        stop=StopReason.FINISHED,
    )


def _identifying(entry: dict[str, Any]) -> str:
    keys = ("role", "content", "timestamp", "tool_calls")
    return as_text({key: entry[key] for key in keys if entry.get(key) is not None})
