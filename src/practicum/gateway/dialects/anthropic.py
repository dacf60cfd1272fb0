"""Anthropic's Messages API: parses requests, writes answers and streams."""

import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from practicum.core.conversation import TurnDelta
from practicum.core.sampling import SamplingParams
from practicum.core.task import JSON
from practicum.core.trace import Message, ToolCall, ToolSpec
from practicum.gateway.dialects.dialect import (
    Answers,
    Event,
    Fields,
    call_id,
    deltas_of,
    refuse,
    typed_event,
    typed_events,
)
from practicum.gateway.requests import (
    AnswerFacts,
    ChatRequest,
    ChatTurn,
    JsonForm,
    ParsedRequest,
    Refused,
    StreamEvent,
    ToolChoice,
)

UNSUPPORTED = {
    "context_management": "conversations are never shortened on the way to the model",
    "container": "there is no code execution behind this server",
    "mcp_servers": "offer the servers' tools in tools",
}
"""Fields that are refused, since ignoring them would change the answer, and what to do instead."""

READ = frozenset(
    {
        "max_tokens",
        "messages",
        "model",
        "output_config",
        "output_format",
        "return_token_ids",
        "seed",
        "stop_sequences",
        "stream",
        "system",
        "temperature",
        "tool_choice",
        "tools",
        "top_k",
        "top_p",
    }
)
HARMLESS = frozenset(
    {
        "betas",
        "cache_control",
        "diagnostics",
        "inference_geo",
        "metadata",
        "service_tier",
        "speed",
        "thinking",
        "user_profile_id",
        "workspace_id",
    }
)
"""Fields that are accepted and ignored: they do not concern sampling."""

KNOWN = READ | HARMLESS | UNSUPPORTED.keys() | {"thread"}
"""Every field that is not refused because of its name alone."""

THREAD_UNSUPPORTED = "thread_unsupported_request"
"""The code of an error by which clients know that there are no threads here."""

CLIENT_TOOLS: Mapping[str, dict[str, JSON]] = {
    "bash": {"command": {"type": "string"}, "restart": {"type": "boolean"}},
    "text_editor": {
        "command": {"enum": ["view", "create", "str_replace", "insert"]},
        "path": {"type": "string"},
        "file_text": {"type": "string"},
        "old_str": {"type": "string"},
        "new_str": {"type": "string"},
        "insert_line": {"type": "integer"},
        "insert_text": {"type": "string"},
        "view_range": {"type": "array", "items": {"type": "integer"}},
    },
}
"""Anthropic's tools that the client runs itself, and the arguments that they take."""
CLIENT_TOOL = re.compile(r"(bash|text_editor)_\d{8}")

CHOICES = {"auto": "auto", "any": "required", "none": "none"}
MOST_STOPS = 16


def read_request(
    body: Mapping[str, Any], defaults: SamplingParams, answers: Answers | None = None
) -> ParsedRequest:
    """Parses and checks a request's body."""
    del answers  # every request has the whole conversation
    fields = Fields(body)
    most = fields.integer("max_tokens", 1)
    if most is None:
        raise refuse("max_tokens is missing; it must be a whole number from 1", "max_tokens")
    return _read(fields, replace(_params(fields, defaults), max_tokens=most))


def read_count(body: Mapping[str, Any], defaults: SamplingParams) -> ParsedRequest:
    """Parses a request to count tokens, which has no `max_tokens`."""
    return _read(Fields(body), defaults)


def _read(fields: Fields, params: SamplingParams) -> ParsedRequest:
    if fields.has("thread"):  # the official tool runners then send the whole conversation
        sentence = "threads are not kept here; send the whole conversation without `thread`"
        raise Refused(400, sentence, THREAD_UNSUPPORTED, "thread")
    fields.forbid(UNSUPPORTED)
    fields.allow(KNOWN)
    choice = fields.inner("tool_choice")
    return ParsedRequest(
        request=ChatRequest(
            messages=messages_of(fields),
            tools=tools_of(fields),
            params=params,
            seed=fields.integer("seed", 0),
        ),
        model=fields.text("model", ""),
        stream=fields.truth("stream", False),
        form=_form(fields),
        tool_choice=_tool_choice(choice),
        parallel_tool_calls=not choice.truth("disable_parallel_tool_use", False),
        token_ids=fields.truth("return_token_ids", False),
    )


def _params(fields: Fields, defaults: SamplingParams) -> SamplingParams:
    temperature = fields.number("temperature", 0, 1)
    top_p = fields.number("top_p", 0, 1)
    top_k = fields.integer("top_k", 0)
    return replace(
        defaults,
        temperature=defaults.temperature if temperature is None else temperature,
        top_p=defaults.top_p if top_p is None else top_p,
        top_k=defaults.top_k if top_k is None else top_k,
        stop=fields.texts("stop_sequences", MOST_STOPS) or defaults.stop,
    )


def _tool_choice(choice: Fields) -> ToolChoice:
    kind = choice.choice("type", (*CHOICES, "tool"), "auto")
    if kind == "tool":
        return ToolChoice(kind="named", name=choice.text("name"))
    return ToolChoice(kind=CHOICES[kind])


def _form(fields: Fields) -> JsonForm | None:
    """The answer's JSON schema, in `output_config.format` or the older `output_format`."""
    format_ = fields.inner("output_config").inner("format")
    if not format_.values:
        format_ = fields.inner("output_format")
    if not format_.values:
        return None
    format_.choice("type", ("json_schema",), "json_schema")
    return JsonForm(schema=format_.schema("schema"))


def messages_of(body: Fields) -> tuple[Message, ...]:
    """The conversation: the system prompt and the messages, each tool result a message."""
    found: list[Message] = []
    if body.has("system"):
        found.append(Message(role="system", content=_text_of(body, "system")))
    given = body.items("messages")
    for message in given:
        role = message.text("role")
        if role == "assistant":
            found.append(_assistant(message))
        elif role == "user":
            found += _user(message)
        else:
            where = message.named("role")
            raise refuse(f"{where} is {role!r:.60}; it must be user or assistant", where)
    if not given:
        raise refuse("messages is empty; it must hold at least one message", "messages")
    if found[-1].role == "assistant":
        raise refuse(
            "the last message is the assistant's; a turn that the client begins is not supported: "
            "end with a message of the user",
            "messages",
        )
    return tuple(found)


def _user(message: Fields) -> list[Message]:
    """A user message's tool results, each as a message, and its text."""
    if isinstance(message.values.get("content"), str):
        return [Message(role="user", content=message.text("content"))]
    found: list[Message] = []
    texts: list[str] = []

    def take_text() -> list[Message]:
        taken = [Message(role="user", content="\n\n".join(texts))] if texts else []
        texts.clear()
        return taken

    for block in message.items("content"):
        kind = block.text("type")
        if kind == "text":
            texts.append(block.text("text"))
        elif kind == "tool_result":
            found += take_text()
            found.append(
                Message(
                    role="tool",
                    content=_text_of(block, "content"),
                    tool_call_id=block.text("tool_use_id"),
                    is_error=block.truth("is_error", False),
                )
            )
        else:
            raise refuse(
                f"{block.where} is {kind!r:.60}; the model reads text and tool_result", block.where
            )
    found += take_text()
    if not found:
        where = message.named("content")
        raise refuse(f"{where} is empty; it must say something", where)
    return found


def _assistant(message: Fields) -> Message:
    if isinstance(message.values.get("content"), str):
        return Message(role="assistant", content=message.text("content"))
    texts: list[str] = []
    thoughts: list[str] = []
    calls: list[ToolCall] = []
    for block in message.items("content"):
        kind = block.text("type")
        if kind == "text":
            texts.append(block.text("text"))
        elif kind == "thinking":
            thoughts.append(block.text("thinking"))
        elif kind == "redacted_thinking":  # another model's, which only that one can read
            continue
        elif kind == "tool_use":
            calls.append(
                ToolCall(
                    id=block.text("id"), name=block.text("name"), arguments=block.schema("input")
                )
            )
        else:
            raise refuse(
                f"{block.where} is {kind!r:.60}; an assistant's blocks are text, thinking and "
                "tool_use",
                block.where,
            )
    return Message(
        role="assistant",
        content="".join(texts),
        reasoning="".join(thoughts),
        tool_calls=tuple(calls),
    )


def _text_of(holder: Fields, name: str) -> str:
    """The text of a field that is a string or a list of text blocks; empty if it is missing."""
    if isinstance(holder.values.get(name), str):
        return holder.text(name)
    texts: list[str] = []
    for block in holder.items(name):
        if block.text("type") != "text":
            kind = block.text("type")
            raise refuse(f"{block.where} is {kind!r:.60}; the model reads text only", block.where)
        texts.append(block.text("text"))
    return "\n\n".join(texts)


def tools_of(body: Fields) -> tuple[ToolSpec, ...]:
    """The client's tools; those of Anthropic that run on its servers are refused."""
    found: list[ToolSpec] = []
    for tool in body.items("tools"):
        kind = tool.text("type", "custom")
        known = CLIENT_TOOL.fullmatch(kind)
        if known is not None:
            properties = CLIENT_TOOLS[known[1]]
            required: list[JSON] = ["command", "path"] if known[1] == "text_editor" else []
            schema: dict[str, JSON] = {"type": "object", "properties": properties}
            schema["required"] = required
            found.append(ToolSpec(name=tool.text("name", known[1]), parameters=schema))
            continue
        if kind != "custom":
            raise refuse(
                f"{tool.where} is {kind!r:.60}; only tools with an input_schema can be offered "
                "here, and those that the client runs: bash and text_editor",
                tool.named("type"),
            )
        found.append(
            ToolSpec(
                name=tool.text("name"),
                description=tool.text("description", ""),
                parameters=tool.schema("input_schema"),
            )
        )
    return tuple(found)


def whole_answer(
    parsed: ParsedRequest, turns: Sequence[ChatTurn], facts: AnswerFacts
) -> dict[str, Any]:
    """The answer that is not streamed."""
    [turn] = turns
    return {
        **empty_message(facts),
        "content": _blocks(turn, facts.id),
        **stop_of(turn),
        "usage": usage_of(turn),
        **token_ids_of(parsed, turn),
    }


def empty_message(facts: AnswerFacts, prompt_tokens: int = 0) -> dict[str, Any]:
    """The message object before anything is sampled."""
    return {
        "id": f"msg_{facts.id}",
        "type": "message",
        "role": "assistant",
        "model": facts.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": prompt_tokens, "output_tokens": 0},
    }


def _blocks(turn: ChatTurn, answer_id: str) -> list[dict[str, Any]]:
    """The content blocks of a turn: thinking, text, calls; of a call that was cut off, its name."""
    message, blocks = turn.message, list[dict[str, Any]]()
    if message.reasoning:
        blocks.append({"type": "thinking", "thinking": message.reasoning, "signature": ""})
    if message.content:
        blocks.append({"type": "text", "text": message.content})
    calls = [(call.name, dict(call.arguments)) for call in message.tool_calls]
    if turn.cut_call is not None:
        calls.append((turn.cut_call.name, {}))
    for index, (called, arguments) in enumerate(calls):
        name = {"id": call_id(answer_id, index, TOOL_ID), "name": called}
        blocks.append({"type": "tool_use", **name, "input": arguments})
    return blocks


TOOL_ID = "toolu"
"""What ids of calls begin with."""


def stop_of(turn: ChatTurn) -> dict[str, Any]:
    """`stop_reason`, and the stop sequence if there was one."""
    completion = turn.completion
    if not completion.finished:
        return {"stop_reason": "max_tokens", "stop_sequence": None}
    if turn.message.tool_calls:
        return {"stop_reason": "tool_use", "stop_sequence": None}
    if completion.stopped_by:
        return {"stop_reason": "stop_sequence", "stop_sequence": completion.stopped_by}
    return {"stop_reason": "end_turn", "stop_sequence": None}


def usage_of(turn: ChatTurn) -> dict[str, int]:
    """Token counts; tokens read from the prefix cache are counted apart."""
    cached = turn.completion.cached_tokens
    return {
        "input_tokens": turn.prompt_tokens - cached,
        "cache_read_input_tokens": cached,
        "cache_creation_input_tokens": 0,
        "output_tokens": len(turn.completion.token_ids),
    }


def token_ids_of(parsed: ParsedRequest, turn: ChatTurn) -> dict[str, list[int]]:
    """Token ids of prompt and turn, if the client asks for them."""
    if not parsed.token_ids:
        return {}
    return {
        "prompt_token_ids": list(turn.prompt_ids),
        "token_ids": list(turn.completion.token_ids),
    }


def model_entry(name: str, created: int) -> dict[str, Any]:
    """A model, as Anthropic's clients read it."""
    at = datetime.fromtimestamp(created, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"type": "model", "id": name, "display_name": name, "created_at": at}


def model_list(names: Sequence[str], created: int) -> dict[str, Any]:
    """The page of models, which is the only one."""
    listed = [model_entry(name, created) for name in names]
    ends = {"first_id": names[0], "last_id": names[-1]} if names else {}
    return {"data": listed, "has_more": False, "first_id": None, "last_id": None, **ends}


def count_answer(prompt_tokens: int) -> dict[str, int]:
    """The answer to a request to count tokens."""
    return {"input_tokens": prompt_tokens}


ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
    529: "overloaded_error",
}
"""Anthropic's error types by HTTP status."""


def error_body(status: int, sentence: str, kind: str, param: str = "") -> dict[str, Any]:
    """The JSON of a refusal."""
    del param  # Anthropic's errors have no field for it
    if kind == "context_length_exceeded":  # clients recognise it by this text only
        sentence = f"prompt is too long: {sentence}"
    usual = "api_error" if status >= 500 else "invalid_request_error"
    error: dict[str, Any] = {"type": ERROR_TYPES.get(status, usual), "message": sentence}
    if kind == THREAD_UNSUPPORTED:
        error["details"] = {"error_code": THREAD_UNSUPPORTED}
    return {"type": "error", "error": error}


def stream_error(status: int, sentence: str, kind: str) -> str:
    """The event that ends a stream which failed."""
    return typed_event(error_body(status, sentence, kind))


def stream_events(
    parsed: ParsedRequest, facts: AnswerFacts, updates: AsyncIterator[StreamEvent]
) -> AsyncIterator[str]:
    """The answer as server-sent events."""
    return typed_events(MessageWriter(parsed, facts), updates)


class MessageWriter:
    """Turns deltas into the events of a stream, one content block after another."""

    def __init__(self, parsed: ParsedRequest, facts: AnswerFacts) -> None:
        self._parsed = parsed
        self._facts = facts
        self._open: tuple[str, int] | None = None
        """Kind of the current block, and the index of its call."""
        self._index = 0

    def start(self, prompt_tokens: int) -> Iterator[Event]:
        """The events before the first token."""
        yield {"type": "message_start", "message": empty_message(self._facts, prompt_tokens)}

    def delta(self, delta: TurnDelta) -> Iterator[Event]:
        """The events of a delta."""
        if delta.kind == "call":
            name = {"id": call_id(self._facts.id, delta.index, TOOL_ID), "name": delta.text}
            block = {"type": "tool_use", **name, "input": {}}
            yield from self._begin(("call", delta.index), block)
            return
        if delta.kind == "arguments":
            piece = {"type": "input_json_delta", "partial_json": delta.text}
        elif delta.kind == "reasoning":
            if self._open != ("reasoning", 0):
                block = {"type": "thinking", "thinking": "", "signature": ""}
                yield from self._begin(("reasoning", 0), block)
            piece = {"type": "thinking_delta", "thinking": delta.text}
        else:
            if self._open != ("content", 0):
                yield from self._begin(("content", 0), {"type": "text", "text": ""})
            piece = {"type": "text_delta", "text": delta.text}
        yield {"type": "content_block_delta", "index": self._index, "delta": piece}

    def end(self, turn: ChatTurn) -> Iterator[Event]:
        """The end of the last block, the stop reason and the usage."""
        if self._index == 0 and self._open is None:  # nothing was streamed
            for delta in deltas_of(turn.message, turn.cut_call):
                yield from self.delta(delta)
        yield from self._close()
        ids = token_ids_of(self._parsed, turn)
        yield {"type": "message_delta", "delta": stop_of(turn), "usage": usage_of(turn), **ids}
        yield {"type": "message_stop"}

    def _begin(self, kind: tuple[str, int], block: dict[str, Any]) -> Iterator[Event]:
        yield from self._close()
        self._open = kind
        yield {"type": "content_block_start", "index": self._index, "content_block": block}

    def _close(self) -> Iterator[Event]:
        if self._open is None:
            return
        yield {"type": "content_block_stop", "index": self._index}
        self._index += 1
        self._open = None
