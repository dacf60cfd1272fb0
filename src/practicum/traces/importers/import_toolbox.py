"""Importer of ToolBoxV2 FlowAgent traces and checkpoints, which are pickles of its own classes.

A trace file is one run: question, tool calls, reasoning, answer. A checkpoint has the conversations
of its sessions, and the next checkpoint has them again with what followed. Each exchange of a
session (a question and all up to the next one) is one episode with the messages before it as
context, and has the same identity in every checkpoint.
"""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from practicum.core.json_values import as_json
from practicum.core.trace import Message, StopReason, ToolCall
from practicum.traces.importers.json_files import begins_with_array, parts_of_rows, whole_text
from practicum.traces.importers.lenient_json import (
    as_list,
    as_map,
    as_number,
    as_seconds,
    as_text,
    as_truth,
    decode_json,
)
from practicum.traces.importers.openai_messages import read_message
from practicum.traces.importers.plain_pickle import BadPickle, pickle_to_json
from practicum.traces.importers.records import Draft, Imported, Malformed, Part, Verdict

PICKLE_MAGIC = b"\x80"
"""First byte of pickles since protocol 2."""


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
            value = decode_json(pickle_to_json(str(path)))
        else:
            value = decode_json(whole_text(path))
        yield Part(line=1, offset=size, found=convert(value))
    except UnicodeDecodeError as error:
        yield Part(line=0, offset=size, problem=f"it is not UTF-8 text ({error.reason})")
    except BadPickle as error:
        yield Part(line=0, offset=size, problem=f"the pickle cannot be read: {error}")
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
        evidence={name: as_json(row[name]) for name in FACTS if row.get(name) is not None},
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
    tasks = _tasks(checkpoint)
    for session, history in histories.items():
        entries = [
            as_map(entry, f"message {n} of session {session!r}")
            for n, entry in enumerate(as_list(history, "history"), 1)
        ]
        for start, end in _bounds(entries):
            draft = _exchange(entries, start, end)
            draft.env = as_text(agent.get("agent_name") or agent.get("name"))
            draft.evidence["session_id"] = session
            following = entries[end] if end < len(entries) else {}
            draft.evidence |= _task_counts(tasks, entries[start], following)
            # Without the messages before it, which later checkpoints may have truncated; the
            # timestamps tell equal exchanges apart.
            identity = [session, *map(_identifying, entries[start:end])]
            draft.identity = f"{SOURCE} {identity!r}"
            yield draft.finish()


COMPLETED = frozenset({"completed", "done", "success", "finished"})
FAILED = frozenset({"failed", "error", "cancelled", "aborted"})


def _tasks(checkpoint: dict[str, Any]) -> list[dict[str, Any]]:
    """The tasks of `task_state`, a mapping by id or a list; what is neither is left."""
    state = as_json(checkpoint.get("task_state") or {})
    found = list(state.values()) if isinstance(state, dict) else state
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _task_counts(
    tasks: list[dict[str, Any]], question: dict[str, Any], following: dict[str, Any]
) -> dict[str, Any]:
    """How many tasks an exchange made, completed and failed: those made before the next question.

    A task without a time belongs to the last exchange there is. `task_completion` reads these.
    """
    begin, until = as_seconds(question.get("timestamp")), as_seconds(following.get("timestamp"))
    own = [task for task in tasks if _falls_between(task, begin, until, is_last=not following)]
    if not own:
        return {}
    states = [as_text(task.get("status") or task.get("state")).casefold() for task in own]
    return {
        "tasks_created": len(own),
        "tasks_completed": sum(state in COMPLETED for state in states),
        "tasks_failed": sum(state in FAILED for state in states),
    }


def _falls_between(task: dict[str, Any], begin: float, until: float, *, is_last: bool) -> bool:
    made = as_seconds(task.get("created_at") or task.get("timestamp"))
    if not made or not begin:
        return is_last
    return begin <= made and (is_last or not until or made < until)


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
