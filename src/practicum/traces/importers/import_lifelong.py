"""Importer of LifelongAgentBench's `runs.json`: a list of sessions."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from practicum.core.json_values import as_json
from practicum.core.trace import Failure, Message, StopReason
from practicum.traces.importers.json_files import (
    array_items,
    begins_with_array,
    parts_of_items,
    parts_of_lines,
)
from practicum.traces.importers.lenient_json import as_list, as_map, as_text
from practicum.traces.importers.records import Draft, Imported, Malformed, Part

SOURCE = "lifelong"
ACKNOWLEDGED = frozenset({"ok", "ok.", "okay", "okay."})
"""Assistant messages that the benchmark itself inserts after its instructions."""

STOPS = {
    "completed": StopReason.FINISHED,
    "agent_validation_failed": StopReason.FINISHED,  # the policy's fault, so not masked
    "task_limit_reached": StopReason.MAX_TURNS,
    "agent_context_limit": StopReason.CONTEXT_FULL,
    "task_environment_error": StopReason.ENVIRONMENT_FAILED,
    "task_unknown_error": StopReason.ENVIRONMENT_FAILED,
    "agent_out_of_memory": StopReason.AGENT_FAILED,
    "agent_unknown_error": StopReason.AGENT_FAILED,
    "initial": StopReason.CANCELLED,
    "running": StopReason.CANCELLED,
}
VERDICTS = {"correct": True, "incorrect": False}
FAILED = frozenset({StopReason.ENVIRONMENT_FAILED, StopReason.AGENT_FAILED})


def read(path: Path, skip: int) -> Iterator[Part]:
    """One session per item."""
    if begins_with_array(path):
        return parts_of_items(array_items(path), skip, convert)
    return parts_of_lines(path, skip, convert)


def convert(value: Any) -> tuple[Imported, ...]:
    """One session."""
    session = as_map(value, "the session")
    history = as_map(session.get("chat_history"), "chat_history")
    messages = [_message(item, n) for n, item in enumerate(as_list(history.get("value"), "value"))]
    if not messages:
        raise Malformed("its chat_history is empty")
    given = {
        i
        for i, message in enumerate(messages[:2])
        if message.role == "assistant" and message.content.strip().lower() in ACKNOWLEDGED
    }
    status = as_text(session.get("sample_status"))
    if status not in STOPS:
        raise Malformed(f"its sample_status is {status!r:.40}; known are {', '.join(STOPS)}")
    record = as_map(session.get("evaluation_record"), "evaluation_record")
    stop = STOPS[status]
    reason = as_text(session.get("finish_reason")) or status
    draft = Draft(
        source=SOURCE,
        messages=messages,
        given=given,
        task_id=as_text(session.get("sample_index")),
        env=as_text(session.get("task_name")),
        instruction=messages[2].content if given and len(messages) > 2 else messages[0].content,
        stop=stop,
        failure=Failure(kind=status, message=reason) if stop in FAILED else None,
        success=VERDICTS.get(as_text(record.get("outcome"))),
        evidence={
            "sample_status": status,
            "outcome": as_text(record.get("outcome")),
            "detail": as_json(record.get("detail_dict")),
            "task_output": as_json(session.get("task_output")),
        },
    )
    return (draft.finish(),)


def _message(item: Any, number: int) -> Message:
    given = as_map(item, f"item {number} of its history")
    role = as_text(given.get("role"))
    if role not in ("user", "agent"):
        raise Malformed(
            f"item {number} of its history has the role {role!r:.40}, not user or agent"
        )
    return Message(
        role="assistant" if role == "agent" else "user", content=as_text(given.get("content"))
    )
