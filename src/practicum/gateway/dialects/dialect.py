"""The `Dialect` protocol, and what dialects share: checked fields, tools and server-sent events.

A dialect is a module of pure functions that parse a request's JSON and write an answer's. A field
that is null counts as missing, as in the public APIs.
"""

import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence, Set
from typing import Any, Protocol

from practicum.core.conversation import CutCall, TurnDelta
from practicum.core.json_values import as_json, well_formed
from practicum.core.sampling import SamplingParams
from practicum.core.task import JSON
from practicum.core.trace import Message, Tools, ToolSpec
from practicum.gateway.requests import AnswerFacts, ChatTurn, ParsedRequest, Refused, StreamEvent


def call_id(answer_id: str, index: int, prefix: str = "call") -> str:
    """The id of a turn's call: known while the turn is sampled, and unique in the conversation.

    Some clients index tool results by it for the whole conversation.

    >>> call_id("a1", 0)
    'call_a1_0'
    """
    return f"{prefix}_{answer_id}_{index}"


def deltas_of(message: Message, cut: CutCall | None = None) -> Iterator[TurnDelta]:
    """A whole turn as deltas, one for each of its parts.

    >>> [delta.kind for delta in deltas_of(Message(role="assistant", content="Yes."))]
    ['content']
    """
    if message.reasoning:
        yield TurnDelta(kind="reasoning", text=message.reasoning)
    if message.content:
        yield TurnDelta(kind="content", text=message.content)
    for index, call in enumerate(message.tool_calls):
        arguments = json.dumps(dict(call.arguments), ensure_ascii=False)
        yield TurnDelta(kind="call", text=call.name, index=index)
        yield TurnDelta(kind="arguments", text=arguments, index=index)
    if cut is not None:
        index = len(message.tool_calls)
        yield TurnDelta(kind="call", text=cut.name, index=index)
        yield TurnDelta(kind="arguments", text=cut.arguments, index=index)


Answers = Callable[[str], tuple[Message, ...] | None]
"""Finds the conversation up to and including an earlier answer of this rollout, by the answer's id
(`AnswerFacts.id`); None if there is no such answer."""


class Dialect(Protocol):
    """The functions of a dialect's module."""

    KNOWN: Set[str]
    """Every field of a request that is not refused because of its name alone."""

    def read_request(
        self, body: Mapping[str, Any], defaults: SamplingParams, answers: Answers | None = None
    ) -> ParsedRequest:
        """Parses and checks a request's body; raises `Refused`.

        `defaults` are the rollout's sampling parameters, for what the request leaves out.
        """
        ...

    def whole_answer(
        self, parsed: ParsedRequest, turns: Sequence[ChatTurn], facts: AnswerFacts
    ) -> dict[str, Any]:
        """The answer that is not streamed; one turn for each choice."""
        ...

    def stream_events(
        self, parsed: ParsedRequest, facts: AnswerFacts, updates: AsyncIterator[StreamEvent]
    ) -> AsyncIterator[str]:
        """The answer as server-sent events, each a `data: ...` block with its blank line.

        Each choice has its deltas in order, and then its turn.
        """
        ...

    def stream_error(self, status: int, sentence: str, kind: str) -> str:
        """The event that ends a stream which failed."""
        ...

    def error_body(self, status: int, sentence: str, kind: str, param: str = "") -> dict[str, Any]:
        """The JSON of a refusal."""
        ...


def refuse(sentence: str, param: str = "") -> Refused:
    """A refusal with status 400; `param` is the wrong field."""
    return Refused(400, sentence, param=param)


class Fields:
    """A JSON object of a request, with typed access; errors name the field by its path.

    >>> Fields({"top_p": 0.5}).number("top_p", 0, 1)
    0.5
    """

    def __init__(self, values: Any, where: str = "") -> None:
        if not isinstance(values, Mapping):
            raise refuse(f"{where or 'the body'} is not an object; write {{...}}", where)
        self.values = values
        self.where = where

    def named(self, name: str) -> str:
        """A field's path, such as `tools[0].name`."""
        return f"{self.where}.{name}" if self.where else name

    def has(self, name: str) -> bool:
        """Whether the field is there and not null."""
        return self.values.get(name) is not None

    def text(self, name: str, default: str | None = None) -> str:
        """A string; required unless there is a default."""
        value = self.values.get(name)
        if value is None and default is not None:
            return default
        if not isinstance(value, str):
            raise self._wrong(name, "a text")
        return well_formed(value)

    def number(self, name: str, least: float, most: float) -> float | None:
        """A number between two bounds; None if it is missing."""
        value = self.values.get(name)
        if value is None:
            return None
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not least <= value <= most:
            raise self._wrong(name, f"a number from {least:g} to {most:g}")
        return float(value)

    def integer(self, name: str, least: int, most: int = 2**63 - 1) -> int | None:
        """A whole number between two bounds; None if it is missing."""
        value = self.values.get(name)
        if value is None:
            return None
        allowed = f"a whole number from {least}" + (f" to {most}" if most < 2**63 - 1 else "")
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise self._wrong(name, allowed)
        return value

    def truth(self, name: str, default: bool) -> bool:
        """True or false."""
        value = self.values.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self._wrong(name, "true or false")
        return value

    def choice(self, name: str, allowed: Sequence[str], default: str) -> str:
        """One of the allowed strings."""
        value = self.values.get(name)
        if value is None:
            return default
        if value not in allowed:
            raise self._wrong(name, " or ".join(repr(word) for word in allowed))
        return str(value)

    def inner(self, name: str) -> "Fields":
        """An object inside this one; empty if it is missing."""
        value = self.values.get(name)
        return Fields({} if value is None else value, self.named(name))

    def items(self, name: str) -> "list[Fields]":
        """A list of objects; empty if it is missing."""
        value = self.values.get(name)
        if value is None:
            return []
        if not isinstance(value, list):
            raise self._wrong(name, "a list")
        return [Fields(one, f"{self.named(name)}[{i}]") for i, one in enumerate(value)]

    def texts(self, name: str, most: int) -> tuple[str, ...]:
        """A list of at most `most` strings that are not empty; empty if it is missing."""
        value = self.values.get(name)
        if value is None:
            return ()
        if not isinstance(value, list) or len(value) > most:
            raise self._wrong(name, f"a list of at most {most} texts")
        if not all(isinstance(one, str) and one for one in value):
            raise self._wrong(name, "a list of texts that are not empty")
        return tuple(value)

    def schema(self, name: str) -> dict[str, JSON]:
        """An object that is passed on as it is, such as a JSON schema."""
        found = as_json(dict(self.inner(name).values))
        return found if isinstance(found, dict) else {}

    def forbid(self, reasons: Mapping[str, str]) -> None:
        """Refuses these fields, each with its reason, unless they are empty."""
        for name, reason in reasons.items():
            if self.values.get(name) not in (None, False, "", [], {}):
                where = self.named(name)
                raise refuse(f"{where} is not supported here: {reason}", where)

    def allow(self, names: Set[str]) -> None:
        """Refuses all other fields, since ignoring them might change the answer."""
        for name, value in self.values.items():
            if name not in names and value is not None:
                raise refuse(f"there is no parameter {name!r:.80} here; leave it out", name)

    def _wrong(self, name: str, allowed: str) -> Refused:
        value, where = self.values.get(name), self.named(name)
        if value is None:
            return refuse(f"{where} is missing; it must be {allowed}", where)
        return refuse(f"{where} is {value!r:.80}; it must be {allowed}", where)


def arguments_of(text: str, where: str) -> dict[str, JSON]:
    """A tool call's arguments, from the JSON that a client sends back."""
    try:
        value = as_json(json.loads(text or "{}"))
    except (ValueError, RecursionError) as error:
        sentence = f"{where} is not JSON ({error!s:.80}); send it as it was answered"
        raise refuse(sentence, where) from None
    if not isinstance(value, dict):
        raise refuse(f"{where} is not a JSON object; send it as it was answered", where)
    return value


def function_tools(fields: Fields, inside: str = "") -> Tools:
    """The function tools of a request; `inside` is the field of a tool with its description.

    A custom tool, whose input is a text, is a function with one argument.
    """
    found: list[ToolSpec] = []
    for tool in fields.items("tools"):
        kind = tool.text("type")
        if kind == "custom":
            found.append(_custom_tool(tool.inner("custom") if inside else tool))
            continue
        if kind != "function":
            raise refuse(
                f"{tool.where} is {kind!r:.60}; only tools of type 'function' can be offered here",
                tool.named("type"),
            )
        function = tool.inner(inside) if inside else tool
        found.append(
            ToolSpec(
                name=function.text("name"),
                description=function.text("description", ""),
                parameters=function.schema("parameters"),
            )
        )
    return tuple(found)


CUSTOM_INPUT: dict[str, JSON] = {
    "type": "object",
    "properties": {"input": {"type": "string"}},
    "required": ["input"],
    "additionalProperties": False,
}
"""Arguments of a custom tool."""


def _custom_tool(tool: Fields) -> ToolSpec:
    kind = tool.inner("format").text("type", "text")
    if kind != "text":
        where = tool.named("format")
        raise refuse(f"{where} is {kind!r:.60}; a custom tool's input is any text here", where)
    return ToolSpec(
        name=tool.text("name"), description=tool.text("description", ""), parameters=CUSTOM_INPUT
    )


def custom_names(fields: Fields, inside: str = "") -> frozenset[str]:
    """The names of a request's custom tools."""
    tools = [tool for tool in fields.items("tools") if tool.values.get("type") == "custom"]
    return frozenset((tool.inner(inside) if inside else tool).text("name") for tool in tools)


def custom_input(arguments: str) -> str:
    """The text that a custom tool is called with, from the JSON of its arguments.

    >>> custom_input('{"input": "ls -l"}')
    'ls -l'
    """
    try:
        return str(json.loads(arguments)["input"])
    except (ValueError, KeyError, TypeError):
        return arguments


Event = dict[str, Any]


class EventWriter(Protocol):
    """Turns deltas of a turn into a dialect's stream events."""

    def start(self, prompt_tokens: int) -> Iterator[Event]:
        """The events before the first token."""
        ...

    def delta(self, delta: TurnDelta) -> Iterator[Event]:
        """The events of a delta."""
        ...

    def end(self, turn: ChatTurn) -> Iterator[Event]:
        """The events at the end of the turn."""
        ...


def typed_event(event: Mapping[str, Any]) -> str:
    r"""A server-sent event with its type.

    >>> typed_event({"type": "ping"})
    'event: ping\ndata: {"type":"ping"}\n\n'
    """
    data = json.dumps(event, ensure_ascii=False, separators=(",", ":"))
    return f"event: {event['type']}\ndata: {data}\n\n"


async def typed_events(
    writer: EventWriter, updates: AsyncIterator[StreamEvent]
) -> AsyncIterator[str]:
    """The answer as server-sent events."""
    has_started = False
    async for update in updates:
        if not has_started:
            has_started = True
            for event in writer.start(update.prompt_tokens):
                yield typed_event(event)
        if update.delta is not None:
            for event in writer.delta(update.delta):
                yield typed_event(event)
        if update.turn is not None:
            for event in writer.end(update.turn):
                yield typed_event(event)
