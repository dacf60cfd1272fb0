"""What all importers share: their result records, `Draft`, and lenient parsing of JSON values."""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from practicum.core.json_values import as_json, well_formed
from practicum.core.sample import Episode
from practicum.core.score import Label, Score
from practicum.core.task import JSON, Outcome, Task
from practicum.core.trace import (
    Failure,
    Message,
    Node,
    Role,
    StopReason,
    ToolCall,
    ToolSpec,
    Trace,
    recorded_nodes,
)


class Malformed(Exception):
    """Why a record cannot be imported, in one sentence; `line` if known more exactly."""

    def __init__(self, reason: str, line: int = 0) -> None:
        super().__init__(reason)
        self.line = line


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """An imported episode, its task and its labels."""

    episode: Episode
    task: Task
    labels: tuple[Label, ...] = ()
    identity: str = ""
    """Identifies the episode when it is imported again; empty: by its content."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One record of a file (a line, an array item, or the file): its episodes, or its problem."""

    line: int
    """Where it starts; 0 where the format has no lines."""
    offset: int
    """Bytes of the file read so far."""
    found: tuple[Imported, ...] = ()
    problem: str = ""


Read = Callable[[Path, int], Iterator[Part]]
"""`read(path, skip)`: the parts of a file, always in the same order, without the first `skip`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A label as the file has it."""

    value: float
    author: str
    note: str = ""
    is_suggestion: bool = False


@dataclass(slots=True, kw_only=True)
class Draft:
    """The fields that an importer collects; `finish` makes the records."""

    source: str
    messages: list[Message] = field(default_factory=list)
    nodes: tuple[Node, ...] = ()
    """Set where the conversation branches; else made from `messages`."""
    given: set[int] = field(default_factory=set)
    """Indices of assistant messages that the model did not write."""
    durations: dict[int, float] = field(default_factory=dict)
    id: str = ""
    task_id: str = ""
    env: str = ""
    model: str = ""
    instruction: str = ""
    started_at: float = 0.0
    duration_s: float = 0.0
    tools: tuple[ToolSpec, ...] = ()
    stop: StopReason = StopReason.FINISHED
    failure: Failure | None = None
    success: bool | None = None
    rewards: Mapping[str, float] = field(default_factory=dict)
    evidence: dict[str, JSON] = field(default_factory=dict)
    verdicts: tuple[Verdict, ...] = ()
    identity: str = ""

    def finish(self) -> Imported:
        """The records; missing ids are made from the content."""
        nodes = self.nodes or recorded_nodes(
            self.messages, given=self.given, durations=self.durations
        )
        if not any(node.sampled for node in nodes):
            raise Malformed("no turn of an assistant is in it")
        messages = [message for node in nodes for message in node.messages]
        first = next((m.content for m in messages if m.role == "user"), "")
        instruction = self.instruction or first
        env = self.env or self.source
        task_id = self.task_id or _digest([instruction])[:16]
        trace = Trace(
            id=self.id or f"{self.source}-{_digest([env, task_id, *map(repr, messages)])[:16]}",
            task_id=task_id,
            env=env,
            nodes=nodes,
            stop=self.stop,
            failure=self.failure,
            model=self.model,
            started_at=self.started_at,
            duration_s=self.duration_s,
            tools=self.tools,
            source=self.source,
        )
        score = (
            Score(components=dict(self.rewards))
            if self.rewards
            else Score.unscored("its source gives no reward")
        )
        outcome = Outcome(success=self.success, evidence=self.evidence)
        return Imported(
            episode=Episode(trace=trace, outcome=outcome, score=score),
            task=Task(id=task_id, env=env, split="train", instruction=instruction),
            labels=tuple(self._label(verdict, trace) for verdict in self.verdicts),
            identity=self.identity,
        )

    def _label(self, verdict: Verdict, trace: Trace) -> Label:
        return Label(
            episode_id=trace.id,
            value=verdict.value,
            author=verdict.author,
            created_at=self.started_at,
            note=verdict.note,
            is_suggestion=verdict.is_suggestion,
        )


def _digest(parts: list[str]) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def decode_json(text: str) -> Any:
    """Parse JSON; raises `Malformed`."""
    try:
        return whole_characters(json.loads(text), text)
    except ValueError as error:
        raise Malformed(f"it is not JSON ({error!s:.100})") from None
    except RecursionError:
        raise Malformed("its JSON is nested too deep") from None


def whole_characters(value: Any, text: str) -> Any:
    """A value parsed from `text`, with lone surrogates replaced (see `well_formed`)."""
    if "\\ud" not in text and "\\uD" not in text:
        return value
    if isinstance(value, str):
        return well_formed(value)
    if isinstance(value, list):
        return [whole_characters(one, text) for one in value]
    if isinstance(value, dict):
        return {well_formed(k): whole_characters(v, text) for k, v in value.items()}
    return value


def as_map(value: Any, what: str) -> dict[str, Any]:
    """A JSON object; empty for null."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise Malformed(f"{what} is not an object")
    return value


def as_list(value: Any, what: str) -> list[Any]:
    """A JSON list; empty for null."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise Malformed(f"{what} is not a list")
    return value


def as_text(value: Any) -> str:
    """A string as it is, null as an empty one, anything else as JSON."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return json.dumps(as_json(value), ensure_ascii=False)


def as_number(value: Any, what: str) -> float | None:
    """A finite number, or None for null."""
    if value is None:
        return None
    if not isinstance(value, int | float) or not abs(value) < LARGEST:
        raise Malformed(f"{what} is {value!r:.40}, not a number")
    return float(value)


def as_truth(value: Any, what: str) -> bool | None:
    """A boolean, also as 0, 1 or a word such as "yes"; None for null."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | float) and value in (0, 1):
        return bool(value)
    word = value.strip().lower() if isinstance(value, str) else ""
    if word in WORDS:
        return WORDS[word]
    raise Malformed(f"{what} is {value!r:.40}; it must be true, false, 1 or 0")


WORDS = {"true": True, "yes": True, "good": True, "false": False, "no": False, "bad": False}


def as_seconds(value: Any) -> float:
    """A time (a number or ISO 8601) as seconds since the epoch; 0 where there is none."""
    if isinstance(value, int | float) and 0 < value < LARGEST:
        seconds = float(value)
        while seconds > LAST_MOMENT:  # milliseconds, microseconds or nanoseconds
            seconds /= 1000
        return seconds
    if not isinstance(value, str) or not value:
        return 0.0
    try:
        moment = datetime.fromisoformat(value)
        return max(0.0, (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())
    except (ValueError, OverflowError):
        return 0.0


LARGEST = 1e300
LAST_MOMENT = 1e11
"""The year 5138; larger numbers are not in seconds."""


ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "agent": "assistant",
    "tool": "tool",
    "function": "tool",
}
UNPARSED = "unparsed"
"""Argument name for the text of call arguments that are not a JSON object."""


def read_message(value: Any, number: int) -> Message:
    """A chat message in OpenAI's format; `number` is its position, for error messages."""
    given = as_map(value, f"message {number}")
    role = ROLES.get(as_text(given.get("role")).lower())
    if role is None:
        raise Malformed(
            f"message {number} has the role {given.get('role')!r:.40}; known are "
            f"{', '.join(sorted(ROLES))}"
        )
    calls = [read_call(call, number) for call in as_list(given.get("tool_calls"), "tool_calls")]
    if given.get("function_call"):  # OpenAI's format before `tool_calls`
        calls.append(read_call({"function": given["function_call"]}, number))
    call_id = given.get("tool_call_id")
    return Message(
        role=role,
        content=read_content(given.get("content")),
        tool_calls=tuple(calls),
        tool_call_id=as_text(call_id) if call_id is not None else None,
        reasoning=read_content(given.get("reasoning_content") or given.get("reasoning")),
        is_error=given.get("is_error") is True,
    )


def read_content(content: Any) -> str:
    """The text of a message content: a string, or a list of parts; `[image]` for other parts."""
    if not isinstance(content, list):
        return as_text(content)
    pieces = []
    for part in content:
        if isinstance(part, dict) and isinstance(part.get("text"), str):
            pieces.append(part["text"])
        elif isinstance(part, dict):
            pieces.append(f"[{part.get('type', 'part')}]")
        else:
            pieces.append(as_text(part))
    return "\n".join(pieces)


def read_call(value: Any, number: int) -> ToolCall:
    """A tool call in OpenAI's format; arguments may be an object or JSON text."""
    call = as_map(value, f"a tool call of message {number}")
    function = as_map(call.get("function") or call, "function")
    name = as_text(function.get("name"))
    if not name:
        raise Malformed(f"a tool call of message {number} names no tool")
    return ToolCall(
        name=name, arguments=_arguments(function.get("arguments")), id=as_text(call.get("id"))
    )


def _arguments(value: Any) -> dict[str, JSON]:
    if isinstance(value, str):
        try:
            parsed = decode_json(value) if value.strip() else {}
        except Malformed:
            return {UNPARSED: value}
        value = parsed
    if value is None:
        return {}
    plain = as_json(value)
    return plain if isinstance(plain, dict) else {UNPARSED: as_text(plain)}


def read_tools(value: Any) -> tuple[ToolSpec, ...]:
    """Tools in OpenAI's request format, with or without the `function` wrapper."""
    found = []
    for entry in as_list(value, "tools"):
        given = as_map(entry, "a tool")
        function = as_map(given.get("function") or given, "a tool's function")
        parameters = as_json(as_map(function.get("parameters"), "parameters"))
        found.append(
            ToolSpec(
                name=as_text(function.get("name")),
                description=as_text(function.get("description")),
                parameters=parameters if isinstance(parameters, dict) else {},
            )
        )
    return tuple(found)
