"""OpenAI's Responses API: parses requests, writes answers and streams.

A sampled turn is answered as several items: reasoning, a message, calls. Items that a client sends
back are merged into one message again, because turns are recognised as a whole.
"""

import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any

from practicum.core.conversation import CutCall, TurnDelta
from practicum.core.sampling import SamplingParams
from practicum.core.trace import Message, Role, ToolCall
from practicum.gateway.dialects.dialect import (
    Answers,
    Event,
    Fields,
    arguments_of,
    call_id,
    custom_input,
    custom_names,
    deltas_of,
    function_tools,
    refuse,
    typed_event,
    typed_events,
)
from practicum.gateway.dialects.openai_shapes import (
    error_body,
    read_tool_choice,
    token_logprobs,
)
from practicum.gateway.requests import (
    AnswerFacts,
    ChatRequest,
    ChatTurn,
    JsonForm,
    ParsedRequest,
    StreamEvent,
)

LOGPROBS = "message.output_text.logprobs"
"""The value of `include` that asks for log-probabilities."""

UNSUPPORTED = {
    "context_management": "conversations are never shortened on the way to the model",
    "background": "the answer is sent on the request that asks for it",
    "conversation": "send previous_response_id, or the whole conversation as input",
    "prompt": "write the prompt into instructions and input",
}
"""Fields that are refused, since ignoring them would change the answer, and what to do instead."""

READ = frozenset(
    {
        "include",
        "input",
        "instructions",
        "max_output_tokens",
        "model",
        "parallel_tool_calls",
        "previous_response_id",
        "return_token_ids",
        "seed",
        "stream",
        "temperature",
        "text",
        "tool_choice",
        "tools",
        "top_logprobs",
        "top_p",
    }
)
HARMLESS = frozenset(
    {
        "max_tool_calls",  # of the provider's own tools
        "metadata",
        "moderation",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "reasoning",
        "safety_identifier",
        "service_tier",
        "store",
        "stream_options",
        "truncation",  # what does not fit is refused, whichever is asked for
        "user",
    }
)
"""Fields that are accepted and ignored: they do not concern sampling."""

KNOWN = READ | HARMLESS | UNSUPPORTED.keys()
"""Every field that is not refused because of its name alone."""

ECHOED = (
    "instructions",
    "max_output_tokens",
    "metadata",
    "parallel_tool_calls",
    "previous_response_id",
    "reasoning",
    "store",
    "temperature",
    "text",
    "tool_choice",
    "tools",
    "top_p",
    "truncation",
    "user",
)
"""Fields of the request that the answer repeats."""


def read_request(
    body: Mapping[str, Any], defaults: SamplingParams, answers: Answers | None = None
) -> ParsedRequest:
    """Parses and checks a request's body."""
    fields = Fields(body)
    fields.forbid(UNSUPPORTED)
    fields.allow(KNOWN)
    included = fields.texts("include", 16)
    tools = function_tools(fields)
    params = _params(fields, defaults)
    parallel = fields.truth("parallel_tool_calls", True)
    return ParsedRequest(
        request=ChatRequest(
            messages=_messages(fields, answers),
            tools=tools,
            params=params,
            top_logprobs=fields.integer("top_logprobs", 0, 20) or 0,
            seed=fields.integer("seed", 0),
        ),
        model=fields.text("model", ""),
        stream=fields.truth("stream", False),
        form=_form(fields.inner("text").inner("format")),
        tool_choice=read_tool_choice(fields, [tool.name for tool in tools], ""),
        parallel_tool_calls=parallel,
        custom_tools=custom_names(fields),
        logprobs=LOGPROBS in included,
        token_ids=fields.truth("return_token_ids", False),
        echo={
            **{name: body.get(name) for name in ECHOED},
            "max_output_tokens": params.max_tokens,
            "metadata": body.get("metadata") or {},
            "parallel_tool_calls": parallel,
            "temperature": params.temperature,
            "text": body.get("text") or {"format": {"type": "text"}},
            "tool_choice": body.get("tool_choice") or "auto",
            "tools": body.get("tools") or [],
            "top_p": params.top_p,
        },
    )


def _params(fields: Fields, defaults: SamplingParams) -> SamplingParams:
    temperature = fields.number("temperature", 0, 2)
    top_p = fields.number("top_p", 0, 1)
    most = fields.integer("max_output_tokens", 1)
    return replace(
        defaults,
        temperature=defaults.temperature if temperature is None else temperature,
        top_p=defaults.top_p if top_p is None else top_p,
        max_tokens=defaults.max_tokens if most is None else most,
    )


def _messages(fields: Fields, answers: Answers | None) -> tuple[Message, ...]:
    """Instructions, then the conversation of the previous response, then the input.

    The previous response's instructions are kept unless the request has its own.
    """
    found: list[Message] = []
    if fields.has("instructions"):
        found.append(Message(role="system", content=fields.text("instructions")))
    name = fields.text("previous_response_id", "")
    if name:
        before = answers(name.removeprefix("resp_")) if answers else None
        if before is None:
            raise refuse(
                f"previous_response_id is {name!r:.80}, which this rollout did not answer; send "
                "the whole conversation as input",
                "previous_response_id",
            )
        found += before[1:] if found and before[0].role == "system" else before
    given = fields.values.get("input")
    if isinstance(given, str):
        found.append(Message(role="user", content=fields.text("input")))
    else:
        found += messages_of_items([one.values for one in fields.items("input")], answers)
    if not any(message.role != "system" for message in found):
        raise refuse("input is empty; it must be a text or a list of items", "input")
    return tuple(found)


def _form(format_: Fields) -> JsonForm | None:
    kind = format_.choice("type", ("text", "json_object", "json_schema"), "text")
    if kind == "text":
        return None
    return JsonForm(schema=format_.schema("schema") if kind == "json_schema" else None)


ROLES: Mapping[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
}
TEXT_PARTS = {
    "input_text": "text",
    "output_text": "text",
    "text": "text",
    "summary_text": "text",
    "reasoning_text": "text",
    "refusal": "refusal",
}
"""Types of content parts that are text, with the field of the text."""


def messages_of_items(
    items: Sequence[Mapping[str, Any]], answers: Answers | None = None
) -> list[Message]:
    """The conversation in input items; `answers` finds the answers that items refer to."""
    found: list[Message] = []
    for index, value in enumerate(items):
        item = Fields(value, f"input[{index}]")
        kind = item.text("type", "message" if item.has("role") else "item_reference")
        if kind == "item_reference":
            item = _resolve_reference(item, answers)
            kind = item.text("type")
        read = READERS.get(kind)
        if read is None:
            allowed = ", ".join(READERS)
            raise refuse(
                f"{item.where} is a {kind!r:.60}; items of these types are read: {allowed}",
                item.where,
            )
        read(found, item)
    return found


def _resolve_reference(item: Fields, answers: Answers | None) -> Fields:
    """The item of an earlier answer that an `item_reference` names."""
    name = item.text("id")
    answer, _, index = name.partition("_")[2].rpartition("_")
    conversation = answers(answer) if answers and answer else None
    items = items_of_message(conversation[-1], answer, "completed") if conversation else []
    if not index.isdigit() or int(index) >= len(items):
        raise refuse(
            f"{item.where} refers to {name!r:.80}, which this rollout did not answer; send the "
            "item itself",
            item.where,
        )
    return Fields(items[int(index)], item.where)


def _read_message(found: list[Message], item: Fields) -> None:
    role = ROLES.get(item.text("role"))
    if role is None:
        allowed = ", ".join(ROLES)
        position = item.named("role")
        raise refuse(f"{position} is {item.text('role')!r:.60}; it must be {allowed}", position)
    content = _text_of(item, "content")
    if role != "assistant":
        found.append(Message(role=role, content=content))
    elif _is_open_turn(found) and not found[-1].content:
        found[-1] = replace(found[-1], content=content)
    else:
        found.append(Message(role=role, content=content))


def _read_reasoning(found: list[Message], item: Fields) -> None:
    text = _text_of(item, "content") or _text_of(item, "summary")
    found.append(Message(role="assistant", content="", reasoning=text))


def _read_call(found: list[Message], item: Fields) -> None:
    call = ToolCall(
        id=item.text("call_id"),
        name=item.text("name"),
        arguments=arguments_of(item.text("arguments", ""), item.named("arguments")),
    )
    if not _is_open_turn(found):
        found.append(Message(role="assistant", content=""))
    found[-1] = replace(found[-1], tool_calls=(*found[-1].tool_calls, call))


def _read_custom_call(found: list[Message], item: Fields) -> None:
    arguments = json.dumps({"input": item.text("input", "")})
    _read_call(found, Fields({**item.values, "arguments": arguments}, item.where))


def _read_result(found: list[Message], item: Fields) -> None:
    text = _text_of(item, "output")
    found.append(Message(role="tool", content=text, tool_call_id=item.text("call_id")))


READERS: Mapping[str, Callable[[list[Message], Fields], None]] = {
    "message": _read_message,
    "reasoning": _read_reasoning,
    "function_call": _read_call,
    "function_call_output": _read_result,
    "custom_tool_call": _read_custom_call,
    "custom_tool_call_output": _read_result,
}


def _is_open_turn(found: list[Message]) -> bool:
    return bool(found) and found[-1].role == "assistant"


def _text_of(item: Fields, name: str) -> str:
    """The text of a field that is a string or a list of text parts."""
    if isinstance(item.values.get(name), str):
        return item.text(name)
    text: list[str] = []
    for part in item.items(name):
        kind = part.text("type")
        if kind not in TEXT_PARTS:
            raise refuse(f"{part.where} is {kind!r:.60}; the model reads text only", part.where)
        text.append(part.text(TEXT_PARTS[kind]))
    return "".join(text)


def whole_answer(
    parsed: ParsedRequest, turns: Sequence[ChatTurn], facts: AnswerFacts
) -> dict[str, Any]:
    """The answer that is not streamed."""
    [turn] = turns
    items = items_of_message(
        turn.message, facts.id, status_of(turn), parsed.custom_tools, turn.cut_call
    )
    return complete_body(parsed, facts, turn, items)


def status_of(turn: ChatTurn) -> str:
    """`completed`, or `incomplete` for a turn cut off by the token limit."""
    return "completed" if turn.completion.finished else "incomplete"


def complete_body(
    parsed: ParsedRequest, facts: AnswerFacts, turn: ChatTurn, items: list[dict[str, Any]]
) -> dict[str, Any]:
    """The Response object of a sampled turn."""
    status = status_of(turn)
    if parsed.logprobs:
        shown = token_logprobs(turn.completion, facts)
        for part in (part for item in items for part in item.get("content", ())):
            if part["type"] == "output_text":
                part["logprobs"] = shown
    body = without_output(parsed, facts, status) | {"output": items, "usage": _usage(turn)}
    if status == "incomplete":
        body["incomplete_details"] = {"reason": "max_output_tokens"}
    if parsed.token_ids:
        body["prompt_token_ids"] = list(turn.prompt_ids)
        body["token_ids"] = list(turn.completion.token_ids)
    return body


def without_output(parsed: ParsedRequest, facts: AnswerFacts, status: str) -> dict[str, Any]:
    """The Response object before anything is sampled."""
    return {
        "id": f"resp_{facts.id}",
        "object": "response",
        "created_at": facts.created,
        "model": facts.model,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "output": [],
        "usage": None,
        **parsed.echo,
    }


def _usage(turn: ChatTurn) -> dict[str, Any]:
    sampled = len(turn.completion.token_ids)
    return {
        "input_tokens": turn.prompt_tokens,
        "input_tokens_details": {
            "cached_tokens": turn.completion.cached_tokens,
            "cache_write_tokens": 0,
        },
        "output_tokens": sampled,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": turn.prompt_tokens + sampled,
    }


Item = dict[str, Any]


def items_of_message(
    said: Message,
    answer_id: str,
    status: str,
    custom: Set[str] = frozenset(),
    cut: CutCall | None = None,
) -> list[Item]:
    """The items of a turn: reasoning, message, calls; `custom` tools take text."""
    items: list[Item] = []
    if said.reasoning:
        id_ = item_id("reasoning", answer_id, len(items))
        items.append(reasoning_item(id_, said.reasoning, status))
    calls = [
        (call.name, json.dumps(dict(call.arguments), ensure_ascii=False), "completed")
        for call in said.tool_calls
    ]
    if cut is not None:
        calls.append((cut.name, cut.arguments, status))
    if said.content or not calls:
        items.append(message_item(item_id("content", answer_id, len(items)), said.content, status))
    for index, (name, arguments, state) in enumerate(calls):
        id_, known = item_id("call", answer_id, len(items)), call_id(answer_id, index)
        items.append(call_item(id_, known, name, arguments, state, custom))
    return items


ITEM_IDS = {"reasoning": "rs", "content": "msg", "call": "fc"}
"""What ids of items begin with, as at OpenAI."""


def item_id(kind: str, answer_id: str, index: int) -> str:
    """An item's id, unique because the answer's is."""
    return f"{ITEM_IDS[kind]}_{answer_id}_{index}"


def reasoning_item(id_: str, text: str, status: str) -> Item:
    """An item of reasoning."""
    content = [{"type": "reasoning_text", "text": text}] if text else []
    return {"id": id_, "type": "reasoning", "summary": [], "content": content, "status": status}


def message_item(id_: str, text: str, status: str) -> Item:
    """An item of content."""
    return {
        "id": id_,
        "type": "message",
        "role": "assistant",
        "status": status,
        "content": [text_part(text)],
    }


def text_part(text: str) -> Item:
    """A text part of a message item."""
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def call_item(
    id_: str, call_id: str, name: str, arguments: str, status: str, custom: Set[str] = frozenset()
) -> Item:
    """An item of a tool call."""
    if name in custom:
        text = custom_input(arguments) if arguments else ""
        kind = {"id": id_, "type": "custom_tool_call", "call_id": call_id, "name": name}
        return {**kind, "input": text, "status": status}
    return {
        "id": id_,
        "type": "function_call",
        "call_id": call_id,
        "name": name,
        "arguments": arguments,
        "status": status,
    }


def stream_events(
    parsed: ParsedRequest, facts: AnswerFacts, updates: AsyncIterator[StreamEvent]
) -> AsyncIterator[str]:
    """The answer as server-sent events."""
    return typed_events(ResponseWriter(parsed, facts), updates)


class ResponseWriter:
    """Turns deltas into the events of a stream, one item after another."""

    def __init__(self, parsed: ParsedRequest, facts: AnswerFacts) -> None:
        self._parsed = parsed
        self._facts = facts
        self._sequence = 0
        self._done: list[dict[str, Any]] = []
        self._open: tuple[str, int] | None = None
        """Kind of the current item, and the index of its call."""
        self._name = ""
        self._text = ""

    def start(self, prompt_tokens: int) -> Iterator[Event]:
        """The events before the first token."""
        del prompt_tokens  # the usage comes at the end
        body = without_output(self._parsed, self._facts, "in_progress")
        yield self._event("response.created", {"response": body})
        yield self._event("response.in_progress", {"response": body})

    def delta(self, delta: TurnDelta) -> Iterator[Event]:
        """The events of a delta."""
        if delta.kind == "call":
            yield from self._begin(("call", delta.index), delta.text)
            return
        kind = "call" if delta.kind == "arguments" else delta.kind
        if self._name in self._parsed.custom_tools and kind == "call":
            self._text = delta.text
            text = custom_input(delta.text)
            yield self._event(f"{CUSTOM}.delta", {**self._position(), "delta": text})
            return
        if self._open != (kind, delta.index):
            yield from self._begin((kind, delta.index), "")
        self._text += delta.text
        extra: dict[str, Any] = {"logprobs": []} if kind == "content" else {}
        yield self._event(DELTAS[kind], {**self._position(), "delta": delta.text, **extra})

    def end(self, turn: ChatTurn) -> Iterator[Event]:
        """The end of the last item, and the whole Response."""
        status = status_of(turn)
        if not self._done and self._open is None:  # nothing was streamed
            for delta in deltas_of(turn.message, turn.cut_call):
                yield from self.delta(delta)
        if not self._done and self._open is None:  # an empty turn
            yield from self._begin(("content", 0), "")
        yield from self._close(status)
        body = complete_body(self._parsed, self._facts, turn, self._done)
        yield self._event(f"response.{status}", {"response": body})

    def _begin(self, item: tuple[str, int], name: str) -> Iterator[Event]:
        yield from self._close("completed")
        self._open, self._name, self._text = item, name, ""
        shown = self._item("in_progress")
        if item[0] == "content":
            shown["content"] = []
        added = {"output_index": len(self._done), "item": shown}
        yield self._event("response.output_item.added", added)
        if item[0] == "content":
            part = {**self._position(), "part": text_part("")}
            yield self._event("response.content_part.added", part)

    def _close(self, status: str) -> Iterator[Event]:
        if self._open is None:
            return
        kind, position = self._open[0], self._position()
        item = self._item(status)
        if kind == "content":
            text = {"text": self._text, "logprobs": []}
            yield self._event("response.output_text.done", {**position, **text})
            part = {**position, "part": text_part(self._text)}
            yield self._event("response.content_part.done", part)
        elif kind == "reasoning":
            yield self._event("response.reasoning_text.done", {**position, "text": self._text})
        elif item["type"] == "custom_tool_call":
            yield self._event(f"{CUSTOM}.done", {**position, "input": item["input"]})
        else:
            done = {**position, "name": item["name"], "arguments": item["arguments"]}
            yield self._event("response.function_call_arguments.done", done)
        closed = {"output_index": len(self._done), "item": item}
        yield self._event("response.output_item.done", closed)
        self._done.append(item)
        self._open = None

    def _item(self, status: str) -> dict[str, Any]:
        """The current item, as far as it is sampled."""
        kind, index = self._open or ("content", 0)
        id_ = item_id(kind, self._facts.id, len(self._done))
        if kind == "reasoning":
            return reasoning_item(id_, self._text, status)
        if kind == "content":
            return message_item(id_, self._text, status)
        arguments = self._text or ("{}" if status == "completed" else "")
        known = call_id(self._facts.id, index)
        custom = self._parsed.custom_tools
        return call_item(id_, known, self._name, arguments, status, custom)

    def _position(self) -> dict[str, Any]:
        position: dict[str, Any] = {
            "item_id": item_id((self._open or ("content",))[0], self._facts.id, len(self._done)),
            "output_index": len(self._done),
        }
        is_call = self._open is not None and self._open[0] == "call"
        return position if is_call else {**position, "content_index": 0}

    def _event(self, kind: str, fields: Mapping[str, Any]) -> Event:
        number = self._sequence
        self._sequence += 1
        return {"type": kind, "sequence_number": number, **fields}


CUSTOM = "response.custom_tool_call_input"

DELTAS = {
    "content": "response.output_text.delta",
    "reasoning": "response.reasoning_text.delta",
    "call": "response.function_call_arguments.delta",
}


def stream_error(status: int, sentence: str, kind: str) -> str:
    """The event that ends a stream which failed."""
    error = error_body(status, sentence, kind)["error"]
    fields = {"code": error["code"], "message": sentence, "param": None}
    return typed_event({"type": "error", "sequence_number": 0, **fields})
