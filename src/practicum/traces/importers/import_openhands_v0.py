"""Importer of OpenHands V0 trajectories: a JSON list of actions and observations.

Also of the evaluation's `output.jsonl`, whose lines have such a list as `history`.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from practicum.core.json_values import as_json
from practicum.core.task import JSON
from practicum.core.trace import Failure, Message, StopReason, ToolCall
from practicum.traces.importers.import_openhands_v1 import draft_of_events
from practicum.traces.importers.json_files import begins_with_array, parts_of_lines, whole_text
from practicum.traces.importers.lenient_json import (
    as_list,
    as_map,
    as_seconds,
    as_text,
    as_truth,
    decode_json,
)
from practicum.traces.importers.openai_messages import read_call, read_content, read_tools
from practicum.traces.importers.records import Draft, Imported, Malformed, Part

SOURCE = "openhands-v0"
TOOLS = {
    "run": "execute_bash",
    "run_ipython": "execute_ipython_cell",
    "read": "str_replace_editor",
    "write": "str_replace_editor",
    "edit": "str_replace_editor",
    "browse": "browser",
    "browse_interactive": "browser",
}
"""The tool of an action, where the event does not name it."""

INTERNAL_ARGUMENTS = frozenset(
    {
        "thought",
        "hidden",
        "confirmation_state",
        "security_risk",
        "blocking",
        "keep_prompt",
        "is_static",
    }
)
IGNORED_ACTIONS = frozenset({"change_agent_state", "recall", "condensation", "null", "pause"})
IGNORED_OBSERVATIONS = frozenset(
    {"agent_state_changed", "recall", "null", "success", "agent_condensation"}
)
STOPS = {
    "finished": StopReason.FINISHED,
    "awaiting_user_input": StopReason.FINISHED,
    "error": StopReason.AGENT_FAILED,
    "rejected": StopReason.FINISHED,
    "stopped": StopReason.CANCELLED,
    "running": StopReason.CANCELLED,
}


def read(path: Path, skip: int) -> Iterator[Part]:
    """One trajectory per file, or per line."""
    if not begins_with_array(path):
        return parts_of_lines(path, skip, convert_evaluation)
    return _one_file(path, skip)


def _one_file(path: Path, skip: int) -> Iterator[Part]:
    if skip:
        return
    size = path.stat().st_size
    try:
        events = as_list(decode_json(whole_text(path)), "the trajectory")
        found = (_draft(events).finish(),)
        yield Part(line=1, offset=size, found=found)
    except UnicodeDecodeError as error:
        yield Part(line=0, offset=size, problem=f"it is not UTF-8 text ({error.reason})")
    except Malformed as error:
        yield Part(line=error.line, offset=size, problem=str(error))


def convert_evaluation(value: Any) -> tuple[Imported, ...]:
    """A line of an evaluation's output, with V0 or V1 events."""
    row = as_map(value, "the line")
    events = as_list(row.get("history"), "history")
    is_new = any(isinstance(event, dict) and "kind" in event for event in events)
    draft = draft_of_events(events, {}) if is_new else _draft(_flat(events))
    result = as_map(row.get("test_result"), "test_result")
    report = as_map(row.get("report") or result.get("report"), "report")
    resolved = report.get("resolved", result.get("resolved", row.get("resolved")))
    draft.task_id = as_text(row.get("instance_id"))
    draft.success = as_truth(resolved, "resolved")
    draft.evidence = {**draft.evidence, "test_result": as_json(result)}
    metadata = as_map(row.get("metadata"), "metadata")
    model = as_map(metadata.get("llm_config") or metadata.get("llm"), "llm_config").get("model")
    draft.model = draft.model or as_text(model)
    if row.get("error"):
        draft.stop = StopReason.AGENT_FAILED
        draft.failure = Failure(kind="error", message=as_text(row["error"])[:500])
    return (draft.finish(),)


def _flat(events: list[Any]) -> list[Any]:
    """Older evaluations have pairs of an action and its observation."""
    return [one for entry in events for one in (entry if isinstance(entry, list) else [entry])]


def _draft(events: list[Any]) -> Draft:
    draft = Draft(source=SOURCE)
    reader = _Reader(draft)
    for number, value in enumerate(events, 1):
        event = as_map(value, f"event {number}")
        if "action" in event:
            reader.action(event)
        elif "observation" in event:
            reader.observation(event)
        else:
            raise Malformed(f"event {number} is neither an action nor an observation")
    reader.finish()
    return draft


class _Reader:
    """Turns events into the messages of a draft."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._response = ""
        self._state = ""
        self._times: list[float] = []
        self._called_at: dict[str, float] = {}

    def action(self, event: dict[str, Any]) -> None:
        at = self._time(event)
        name, source = as_text(event.get("action")), event.get("source")
        arguments = as_map(event.get("args"), "args")
        if name in IGNORED_ACTIONS:
            return
        if name == "system":
            self._draft.messages.insert(
                0, Message(role="system", content=as_text(arguments.get("content")))
            )
            self._draft.tools = read_tools(arguments.get("tools"))
        elif name == "message":
            content = read_content(arguments.get("content"))
            self._add(Message(role="user" if source == "user" else "assistant", content=content))
        elif source == "agent" or event.get("tool_call_metadata"):
            self._call(event, name, arguments, at)

    def observation(self, event: dict[str, Any]) -> None:
        at = self._time(event)
        kind = as_text(event.get("observation"))
        extras = as_map(event.get("extras"), "extras")
        if kind == "agent_state_changed":
            self._state = as_text(extras.get("agent_state"))
        if kind in IGNORED_OBSERVATIONS:
            return
        details = as_map(event.get("tool_call_metadata"), "tool_call_metadata")
        call_id = as_text(details.get("tool_call_id")) or f"event-{event.get('cause')}"
        ended = as_map(extras.get("metadata"), "metadata")
        code = extras.get("exit_code", ended.get("exit_code"))
        is_error = kind == "error" or (isinstance(code, int) and code > 0)
        if call_id in self._called_at:
            self._draft.durations[len(self._draft.messages)] = at - self._called_at[call_id]
        self._add(
            Message(
                role="tool",
                content=as_text(event.get("content")),
                tool_call_id=call_id,
                is_error=is_error,
            )
        )

    def finish(self) -> None:
        draft = self._draft
        if self._times:
            draft.started_at = min(self._times)
            draft.duration_s = max(self._times) - min(self._times)
        draft.stop = STOPS.get(self._state, StopReason.FINISHED)
        if self._state:
            draft.evidence["agent_state"] = self._state
        if draft.stop is StopReason.AGENT_FAILED:
            draft.failure = Failure(kind="agent_state", message=self._state)

    def _call(self, event: dict[str, Any], name: str, arguments: dict[str, Any], at: float) -> None:
        details = as_map(event.get("tool_call_metadata"), "tool_call_metadata")
        response = as_map(details.get("model_response"), "model_response")
        call_id = as_text(details.get("tool_call_id")) or f"event-{event.get('id')}"
        self._draft.model = self._draft.model or as_text(response.get("model"))
        message = _response_message(response)
        call = _call_of(message, call_id) or ToolCall(
            name=as_text(details.get("function_name")) or TOOLS.get(name, name),
            arguments=_model_arguments(arguments),
            id=call_id,
        )
        self._called_at[call_id] = at
        if name == "finish":
            self._draft.evidence["finish"] = as_json(_model_arguments(arguments))
        last = self._draft.messages[-1] if self._draft.messages else None
        same = response.get("id") and as_text(response.get("id")) == self._response
        if same and last is not None and last.role == "assistant":
            # Parallel calls of one model response are separate events.
            joined = Message(
                role="assistant",
                content=last.content,
                tool_calls=(*last.tool_calls, call),
                reasoning=last.reasoning,
            )
            self._draft.messages[-1] = joined
            return
        self._response = as_text(response.get("id"))
        self._add(
            Message(
                role="assistant",
                content=read_content(message.get("content")) or as_text(arguments.get("thought")),
                tool_calls=(call,),
                reasoning=as_text(message.get("reasoning_content")),
            )
        )

    def _add(self, message: Message) -> None:
        self._draft.messages.append(message)

    def _time(self, event: dict[str, Any]) -> float:
        at = as_seconds(event.get("timestamp"))
        if at:
            self._times.append(at)
        return at


def _response_message(response: dict[str, Any]) -> dict[str, Any]:
    choices = as_list(response.get("choices"), "choices")
    return as_map(as_map(choices[0], "a choice").get("message"), "message") if choices else {}


def _call_of(message: dict[str, Any], call_id: str) -> ToolCall | None:
    """The call as the model wrote it, if the event has the model's response."""
    for call in as_list(message.get("tool_calls"), "tool_calls"):
        if as_map(call, "a tool call").get("id") == call_id:
            return read_call(call, 0)
    return None


def _model_arguments(arguments: dict[str, Any]) -> dict[str, JSON]:
    return {
        key: as_json(value)
        for key, value in arguments.items()
        if key not in INTERNAL_ARGUMENTS and value is not None
    }
