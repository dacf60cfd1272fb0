"""Importer of OpenHands SDK conversations: a folder with `base_state.json` and a file per event."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from practicum.core.json_values import as_json
from practicum.core.trace import Failure, Message, RecordedTree, StopReason, ToolCall
from practicum.traces.importers.json_files import whole_text
from practicum.traces.importers.lenient_json import (
    as_list,
    as_map,
    as_seconds,
    as_text,
    decode_json,
)
from practicum.traces.importers.openai_messages import (
    read_call,
    read_content,
    read_message,
    read_tools,
)
from practicum.traces.importers.records import Draft, Malformed, Part

SOURCE = "openhands-v1"
EVENTS = "events"
STATE = "base_state.json"
STOPS = {
    "finished": StopReason.FINISHED,
    "idle": StopReason.FINISHED,
    "stuck": StopReason.FINISHED,
    "error": StopReason.AGENT_FAILED,
    "running": StopReason.CANCELLED,
    "paused": StopReason.CANCELLED,
}


def is_conversation(folder: Path) -> bool:
    """Whether a folder holds the events of one conversation."""
    return (folder / EVENTS).is_dir() and any((folder / EVENTS).glob("event-*.json"))


def read(path: Path, skip: int) -> Iterator[Part]:
    """The conversation of a folder; each event that cannot be read is a part with a problem."""
    state = path / STATE
    events: list[Any] = []
    problems: list[Part] = []
    offset = 0
    for file in [*([state] if state.is_file() else []), *sorted((path / EVENTS).glob("*.json"))]:
        offset += file.stat().st_size
        try:
            events.append(as_map(decode_json(whole_text(file)), "the event"))
        except (Malformed, UnicodeDecodeError) as error:
            problems.append(Part(line=0, offset=offset, problem=f"{file.name}: {error}"))
    facts = events.pop(0) if state.is_file() and not problems else {}
    try:
        if problems:
            # A conversation with a gap must not be trained on.
            raise Malformed(f"the conversation is left out: {len(problems)} events are unreadable")
        draft = draft_of_events(events, facts)
        draft.id = draft.id or path.name
        problems.append(Part(line=0, offset=offset, found=(draft.finish(),)))
    except Malformed as error:
        problems.append(Part(line=0, offset=offset, problem=str(error)))
    yield from problems[skip:]


def draft_of_events(events: list[Any], state: dict[str, Any]) -> Draft:
    """The conversation of a list of events; `state` is its `base_state.json`."""
    reader = _Reader()
    for number, value in enumerate(events, 1):
        reader.event(as_map(value, f"event {number}"))
    reader.flush()
    if not reader.tree.nodes:
        raise Malformed("no event of it says anything")
    status = as_text(state.get("execution_status") or state.get("agent_status"))
    agent = as_map(state.get("agent"), "agent")
    times = reader.times
    draft = Draft(
        source=SOURCE,
        nodes=reader.tree.nodes,
        tools=reader.tools,
        id=as_text(state.get("id")),
        model=as_text(as_map(agent.get("llm"), "llm").get("model")),
        started_at=min(times, default=0.0),
        duration_s=max(times, default=0.0) - min(times, default=0.0),
        stop=StopReason.AGENT_FAILED if reader.error else STOPS.get(status, StopReason.FINISHED),
        failure=Failure(kind="conversation", message=reader.error) if reader.error else None,
        evidence={"execution_status": status} if status else {},
    )
    return draft


class _Reader:
    """Turns events into a tree: every turn is added with the history it was given."""

    def __init__(self) -> None:
        self.tree = RecordedTree()
        self.tools: Any = ()
        self.times: list[float] = []
        self.error = ""
        self._history: list[tuple[str, Message]] = []
        self._turn: tuple[str, str, Message] | None = None
        self._asked_at = 0.0

    def event(self, event: dict[str, Any]) -> None:
        kind = as_text(event.get("kind"))
        if at := as_seconds(event.get("timestamp")):
            self.times.append(at)
        handle = {
            "SystemPromptEvent": self._system,
            "MessageEvent": self._message,
            "ActionEvent": self._action,
            "ObservationEvent": self._observation,
            "UserRejectObservation": self._answer,
            "AgentErrorEvent": self._answer,
            "Condensation": self._condensation,
            "ConversationErrorEvent": self._failed,
        }.get(kind)
        if handle is not None:
            handle(event)

    def flush(self) -> None:
        """Add the pending turn to the tree, or else the history after the last turn."""
        if self._turn is not None:
            name, _, message = self._turn
            self.tree.turn([one for _, one in self._history], message)
            self._history.append((name, message))
            self._turn = None
        elif self._history:
            self.tree.given([one for _, one in self._history])

    def _add(self, event: dict[str, Any], message: Message) -> None:
        if self._turn is not None:
            self.flush()
        self._history.append((as_text(event.get("id")), message))

    def _system(self, event: dict[str, Any]) -> None:
        prompt = as_map(event.get("system_prompt"), "system_prompt")
        self.tools = read_tools(event.get("tools"))
        self._add(event, Message(role="system", content=as_text(prompt.get("text"))))

    def _message(self, event: dict[str, Any]) -> None:
        given = as_map(event.get("llm_message"), "llm_message")
        by_agent = event.get("source") == "agent"
        role = given.get("role") or ("assistant" if by_agent else "user")
        message = read_message({**given, "role": role}, len(self._history) + 1)
        if message.role == "assistant":
            self.flush_turn()
            self._turn = (as_text(event.get("id")), "", message)
        else:
            self._add(event, message)

    def flush_turn(self) -> None:
        """Add the pending turn, if any."""
        if self._turn is not None:
            self.flush()

    def _action(self, event: dict[str, Any]) -> None:
        call = _call(event)
        response = as_text(event.get("llm_response_id"))
        if self._turn is not None and response and self._turn[1] == response:
            # Parallel calls of one model response are separate events.
            name, _, message = self._turn
            self._turn = (name, response, replace(message, tool_calls=(*message.tool_calls, call)))
            return
        self.flush_turn()
        message = Message(
            role="assistant",
            content=read_content(event.get("thought")),
            tool_calls=(call,),
            reasoning=as_text(event.get("reasoning_content")),
        )
        self._turn = (as_text(event.get("id")), response, message)

    def _observation(self, event: dict[str, Any]) -> None:
        seen = as_map(event.get("observation"), "observation")
        code = as_map(seen.get("metadata"), "metadata").get("exit_code", seen.get("exit_code"))
        content = seen.get("content", seen.get("output", seen.get("error")))
        self._add(
            event,
            Message(
                role="tool",
                content=read_content(content),
                tool_call_id=as_text(event.get("tool_call_id")),
                is_error=seen.get("is_error") is True or (isinstance(code, int) and code > 0),
            ),
        )

    def _answer(self, event: dict[str, Any]) -> None:
        """An error or rejection in place of a tool result."""
        self._add(
            event,
            Message(
                role="tool",
                content=as_text(event.get("error") or event.get("rejection_reason")),
                tool_call_id=as_text(event.get("tool_call_id")),
                is_error=True,
            ),
        )

    def _condensation(self, event: dict[str, Any]) -> None:
        """The agent condensed its history: what follows is another branch of the tree."""
        self.flush_turn()
        self.tree.given([one for _, one in self._history])
        forgotten = set(map(as_text, as_list(event.get("forgotten_event_ids"), "forgotten")))
        kept = [(name, one) for name, one in self._history if name not in forgotten]
        if summary := as_text(event.get("summary")):
            at = event.get("summary_offset")
            place = at if isinstance(at, int) else len(kept)
            kept.insert(place, (as_text(event.get("id")), Message(role="user", content=summary)))
        self._history = kept

    def _failed(self, event: dict[str, Any]) -> None:
        self.error = as_text(event.get("detail") or event.get("code") or "error")[:500]


def _call(event: dict[str, Any]) -> ToolCall:
    """The call as the model wrote it, or else as the SDK parsed it."""
    if event.get("tool_call"):
        return read_call(event["tool_call"], 0)
    action = as_json(as_map(event.get("action"), "action"))
    arguments = {k: v for k, v in action.items() if k != "kind"} if isinstance(action, dict) else {}
    return ToolCall(
        name=as_text(event.get("tool_name")) or "tool",
        arguments=arguments,
        id=as_text(event.get("tool_call_id")),
    )
