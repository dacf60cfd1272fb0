"""OpenAI's Chat Completions API: parses requests, writes answers and streams."""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from practicum.core.conversation import TurnDelta
from practicum.core.sampling import SamplingParams
from practicum.core.task import JSON
from practicum.core.trace import Message, Role, ToolCall, ToolSpec
from practicum.gateway.dialects.dialect import (
    Answers,
    Fields,
    arguments_of,
    call_id,
    custom_input,
    custom_names,
    deltas_of,
    function_tools,
    refuse,
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
    ToolChoice,
)

READ = frozenset(
    {
        "messages",
        "model",
        "n",
        "stream",
        "stream_options",
        "temperature",
        "top_p",
        "top_k",
        "max_tokens",
        "max_completion_tokens",
        "stop",
        "seed",
        "logprobs",
        "top_logprobs",
        "return_token_ids",
        "return_tokens_as_token_ids",
        "response_format",
        "tools",
        "tool_choice",
        "parallel_tool_calls",
        "functions",
        "function_call",
        "chat_template_kwargs",
        "structured_outputs",
        "guided_json",
        "guided_choice",
    }
)
"""Fields that are read."""

HARMLESS = frozenset(
    {
        "user",
        "metadata",
        "store",
        "service_tier",
        "safety_identifier",
        "prompt_cache_key",
        "prompt_cache_retention",
        "prediction",
        "reasoning_effort",
        "reasoning",
        "verbosity",
        "timeout",
        "extra_headers",
        "drop_params",
        "skip_special_tokens",
        "spaces_between_special_tokens",
        "include_reasoning",
        "thinking",
    }
)
"""Fields that are accepted and ignored: they do not concern sampling, or ask for the default."""

NEUTRAL: Mapping[str, Any] = {
    "frequency_penalty": 0,
    "presence_penalty": 0,
    "repetition_penalty": 1,
    "min_p": 0,
    "logit_bias": {},
    "modalities": ["text"],
    "ignore_eos": False,
    "min_tokens": 0,
    "best_of": 1,
    "echo": False,
}
"""Unsupported fields that would change sampling, with the one value that is accepted."""

KNOWN = READ | HARMLESS | NEUTRAL.keys()
"""Every field that is not refused because of its name alone."""

ROLES: Mapping[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}

MOST_STOPS = 16
MOST_CHOICES = 128


def read_request(
    body: Mapping[str, Any], defaults: SamplingParams, answers: Answers | None = None
) -> ParsedRequest:
    """Parses and checks a request's body."""
    del answers  # every request has the whole conversation
    fields = Fields(body)
    _check_names(body)
    logprobs = fields.truth("logprobs", False)
    extra = fields.integer("top_logprobs", 0, 20) or 0
    if extra and not logprobs:
        raise refuse("top_logprobs needs logprobs: true", "top_logprobs")
    tools = _tools(fields)
    is_legacy = fields.has("functions")
    return ParsedRequest(
        request=ChatRequest(
            messages=_messages(fields),
            tools=tools,
            params=read_params(fields, defaults),
            top_logprobs=extra,
            seed=read_seed(fields),
            template=_template(fields.inner("chat_template_kwargs")),
        ),
        model=fields.text("model", ""),
        n=fields.integer("n", 1, MOST_CHOICES) or 1,
        stream=fields.truth("stream", False),
        form=_form(fields.inner("response_format")) or vllm_form(fields),
        tool_choice=_tool_choice(fields, tools),
        parallel_tool_calls=fields.truth("parallel_tool_calls", True) and not is_legacy,
        legacy_calls=is_legacy,
        custom_tools=custom_names(fields, "custom"),
        logprobs=logprobs,
        token_ids=fields.truth("return_token_ids", False),
        stream_usage=fields.inner("stream_options").truth("include_usage", False),
    )


def _check_names(body: Mapping[str, Any]) -> None:
    for name, value in body.items():
        if name in READ or name in HARMLESS or value is None:
            continue
        if name in NEUTRAL:
            if value != NEUTRAL[name]:
                raise refuse(
                    f"{name:.60} is {value!r:.60}, which would change what is sampled and is not "
                    f"supported here; leave it out, or send {NEUTRAL[name]!r}",
                    name,
                )
            continue
        raise refuse(f"there is no parameter {name!r:.80} here; leave it out", name)


def read_params(fields: Fields, defaults: SamplingParams) -> SamplingParams:
    """The sampling parameters of a request."""
    temperature = fields.number("temperature", 0, 2)
    top_p = fields.number("top_p", 0, 1)
    top_k = fields.integer("top_k", -1)
    most = fields.integer("max_completion_tokens", 1)
    if most is None:
        most = fields.integer("max_tokens", 1)
    stop = fields.values.get("stop")
    if isinstance(stop, str):
        stop = [stop]
    if isinstance(stop, list):  # an empty one stops nothing, and some clients send it
        stop = [one for one in stop if one != ""]
    stops = Fields({"stop": stop}).texts("stop", MOST_STOPS)
    return replace(
        defaults,
        temperature=defaults.temperature if temperature is None else temperature,
        top_p=defaults.top_p if top_p is None else top_p,
        top_k=defaults.top_k if top_k is None else max(top_k, 0),
        max_tokens=defaults.max_tokens if most is None else most,
        stop=stops or defaults.stop,
    )


def read_seed(fields: Fields) -> int | None:
    """The seed modulo 2**64, as the sampler needs it."""
    seed = fields.integer("seed", -(2**63))
    return None if seed is None else seed % 2**64


def _messages(fields: Fields) -> tuple[Message, ...]:
    found = tuple(_message(item) for item in fields.items("messages"))
    if not found:
        raise refuse("messages is empty; send at least one message", "messages")
    return found


def _message(item: Fields) -> Message:
    role = item.text("role")
    if role not in ROLES:
        allowed = ", ".join(ROLES)
        raise refuse(f"{item.where} is from {role!r:.60}; roles are {allowed}", item.named("role"))
    if item.has("audio"):
        raise refuse(f"{item.where} has audio; send text")
    known, calls = ROLES[role], [_call(call) for call in item.items("tool_calls")]
    if item.has("function_call"):
        function = item.inner("function_call")
        calls.append(_call(Fields({"function": function.values, "id": function.text("name")})))
    answers = item.text("name") if role == "function" else None
    return Message(
        role=known,
        content=_content(item),
        tool_calls=tuple(calls),
        tool_call_id=item.text("tool_call_id", answers) if known == "tool" else None,
        reasoning=_reasoning(item) if known == "assistant" else "",
    )


def _reasoning(item: Fields) -> str:
    for name in ("reasoning_content", "reasoning"):
        if isinstance(item.values.get(name), str):
            return item.text(name)
    return ""


def _content(item: Fields) -> str:
    """A message's content, given as a string or as parts."""
    if not isinstance(item.values.get("content"), list):
        return item.text("content", "")
    pieces = []
    for part in item.items("content"):
        kind = part.text("type")
        if kind not in ("text", "refusal"):
            raise refuse(
                f"{part.where} is of type {kind!r:.60}; only text can be read here, and nothing "
                "is fetched from an address",
                part.named("type"),
            )
        pieces.append(part.text(kind))
    return "".join(pieces)


def _call(item: Fields) -> ToolCall:
    kind = item.text("type", "function")
    if kind == "custom":
        custom = item.inner("custom")
        given: dict[str, JSON] = {"input": custom.text("input", "")}
        return ToolCall(name=custom.text("name"), arguments=given, id=item.text("id", ""))
    if kind != "function":
        raise refuse(f"{item.where} is of type {kind!r:.60}; calls are of type 'function'")
    function = item.inner("function")
    where = function.named("arguments")
    return ToolCall(
        name=function.text("name"),
        arguments=cast("dict[str, Any]", arguments_of(function.text("arguments", "{}"), where)),
        id=item.text("id", ""),
    )


def _tool_choice(fields: Fields, tools: tuple[ToolSpec, ...]) -> ToolChoice:
    names = [tool.name for tool in tools]
    if fields.has("tool_choice") or not fields.has("function_call"):
        return read_tool_choice(fields, names, "function")
    if isinstance(fields.values["function_call"], str):
        return ToolChoice(kind=fields.choice("function_call", ("none", "auto"), "auto"))
    name = fields.inner("function_call").text("name")
    if name not in names:
        sentence = f"function_call names {name!r:.80}, which is not among the functions"
        raise refuse(sentence, "function_call")
    return ToolChoice(kind="named", name=name)


def _tools(fields: Fields) -> tuple[ToolSpec, ...]:
    """The tools; or the `functions` of older clients, of which one is called at a time."""
    if not fields.has("functions"):
        return tuple(function_tools(fields, "function"))
    listed = [{"type": "function", **one.values} for one in fields.items("functions")]
    return tuple(function_tools(Fields({"tools": listed})))


def _form(form: Fields) -> JsonForm | None:
    kind = form.choice("type", ("text", "json_object", "json_schema"), "text")
    if kind == "text":
        return None
    if kind == "json_object":
        return JsonForm()
    return JsonForm(schema=form.inner("json_schema").schema("schema"))


def vllm_form(fields: Fields) -> JsonForm | None:
    """The answer's form as vLLM's clients ask for it: `structured_outputs`, or `guided_json`."""
    given, outer = fields.inner("structured_outputs"), fields.inner("structured_outputs")
    if not given.values:
        names = {"guided_json": "json", "guided_choice": "choice"}
        given = Fields({new: fields.values.get(old) for old, new in names.items()})
    known = {"json", "json_object", "choice"}
    for name, value in outer.values.items():
        if name not in known and value not in (None, False, ""):
            where = outer.named(name)
            raise refuse(f"{where} is not supported here; send json, json_object or choice", where)
    if given.has("choice"):
        return JsonForm(choices=given.texts("choice", MOST_CHOICES))
    if given.has("json"):
        schema = given.values["json"]
        if isinstance(schema, str):
            return JsonForm(schema=arguments_of(schema, "guided_json"))
        return JsonForm(schema=given.schema("json"))
    return JsonForm() if given.truth("json_object", False) else None


MOST_VARIABLES = 8
MOST_VARIABLE = 200
"""Characters of a template's variable."""


def _template(variables: Fields) -> tuple[tuple[str, str | int | float | bool], ...]:
    """The chat template's variables, each a plain value."""
    for name, value in variables.values.items():
        is_plain = isinstance(value, str | int | float | bool) and len(str(value)) < MOST_VARIABLE
        if not is_plain or not name.isidentifier() or name in TEMPLATE_ARGUMENTS:
            where = variables.named(f"{name:.60}")
            raise refuse(f"{where} is no variable of a template with a plain value", where)
    if len(variables.values) > MOST_VARIABLES:
        raise refuse(f"{variables.where} has more than {MOST_VARIABLES} variables", variables.where)
    return tuple(sorted(variables.values.items()))


TEMPLATE_ARGUMENTS = frozenset(
    {"conversation", "messages", "tools", "tokenize", "add_generation_prompt", "chat_template"}
)
"""What the server itself says to a template."""


def whole_answer(
    parsed: ParsedRequest, turns: Sequence[ChatTurn], facts: AnswerFacts
) -> dict[str, Any]:
    """The answer that is not streamed; one turn for each choice."""
    answer: dict[str, Any] = {
        "id": f"chatcmpl-{facts.id}",
        "object": "chat.completion",
        "created": facts.created,
        "model": facts.model,
        "choices": [_choice(parsed, turn, facts, number) for number, turn in enumerate(turns)],
        "usage": usage_of(turns),
        "system_fingerprint": turns[0].completion.fingerprint,
    }
    if parsed.token_ids:
        answer["prompt_token_ids"] = list(turns[0].prompt_ids)
    return answer


def _choice(
    parsed: ParsedRequest, turn: ChatTurn, facts: AnswerFacts, number: int
) -> dict[str, Any]:
    choice: dict[str, Any] = {
        "index": number,
        "message": _message_json(parsed, turn, facts, number),
        "logprobs": logprobs_of(turn, facts) if parsed.logprobs else None,
        "finish_reason": finish_reason(parsed, turn),
        "practicum_turn": turn.node,  # by which the run finds the recorded turn
    }
    if parsed.token_ids:
        choice["token_ids"] = list(turn.completion.token_ids)
    return choice


def _message_json(
    parsed: ParsedRequest, turn: ChatTurn, facts: AnswerFacts, number: int
) -> dict[str, Any]:
    message = turn.message
    written = [
        (call.name, json.dumps(dict(call.arguments), ensure_ascii=False))
        for call in message.tool_calls
    ]
    if turn.cut_call is not None:
        written.append((turn.cut_call.name, turn.cut_call.arguments))
    calls = [
        {"id": call_name(facts, number, index), **_call_json(parsed, name, arguments)}
        for index, (name, arguments) in enumerate(written)
    ]
    message_json: dict[str, Any] = {
        "role": "assistant",
        "content": message.content if message.content or not calls else None,
        "refusal": None,
    }
    if message.reasoning:
        message_json["reasoning_content"] = message.reasoning
    if calls and parsed.legacy_calls:
        message_json["function_call"] = calls[0]["function"]
    elif calls:
        message_json["tool_calls"] = calls
    return message_json


def _call_json(parsed: ParsedRequest, name: str, arguments: str) -> dict[str, Any]:
    if name in parsed.custom_tools:
        text = custom_input(arguments) if arguments else ""
        return {"type": "custom", "custom": {"name": name, "input": text}}
    return {"type": "function", "function": {"name": name, "arguments": arguments}}


def call_name(facts: AnswerFacts, number: int, index: int) -> str:
    """The id of a call in one of several choices."""
    return call_id(f"{facts.id}_{number}" if number else facts.id, index)


def finish_reason(parsed: ParsedRequest, turn: ChatTurn) -> str:
    """`tool_calls`, `stop` or `length`; a call that the client chose itself is a `stop`."""
    if not turn.completion.finished:
        return "length"
    if not turn.message.tool_calls or parsed.tool_choice.kind == "named":
        return "stop"
    return "function_call" if parsed.legacy_calls else "tool_calls"


def usage_of(turns: Sequence[ChatTurn]) -> dict[str, Any]:
    """Token counts; the prompt counts once for all choices."""
    prompt = turns[0].prompt_tokens
    sampled = sum(len(turn.completion.token_ids) for turn in turns)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": sampled,
        "total_tokens": prompt + sampled,
        "prompt_tokens_details": {"cached_tokens": turns[0].completion.cached_tokens},
    }


def logprobs_of(turn: ChatTurn, facts: AnswerFacts) -> dict[str, Any]:
    """The `logprobs` object of a choice."""
    return {"content": token_logprobs(turn.completion, facts), "refusal": None}


END = "data: [DONE]\n\n"


def plain_event(event: Mapping[str, Any]) -> str:
    r"""A server-sent event without a type.

    >>> plain_event({"a": 1})
    'data: {"a":1}\n\n'
    """
    return f"data: {json.dumps(event, ensure_ascii=False, separators=(',', ':'))}\n\n"


def stream_error(status: int, sentence: str, kind: str) -> str:
    """The event that ends a stream which failed."""
    return plain_event(error_body(status, sentence, kind))


async def stream_events(
    parsed: ParsedRequest, facts: AnswerFacts, updates: AsyncIterator[StreamEvent]
) -> AsyncIterator[str]:
    """The answer as server-sent events.

    Log-probabilities and token ids are in a choice's last chunk but one, when all are known.
    """
    streamed: set[int] = set()
    turns: dict[int, ChatTurn] = {}
    names: dict[tuple[int, int], str] = {}
    async for update in updates:
        number = update.choice
        deltas = [] if update.delta is None else [update.delta]
        if update.turn is not None and number not in streamed and not deltas:
            deltas = list(deltas_of(update.turn.message, update.turn.cut_call))
        if number not in streamed:
            streamed.add(number)
            is_call = bool(deltas) and deltas[0].kind == "call"
            begun = {"role": "assistant", "content": None if is_call else ""}
            yield _chunk(facts, number, begun)
        for delta in deltas:
            if delta.kind == "call":
                names[number, delta.index] = delta.text
            name = names.get((number, delta.index), "")
            yield _chunk(facts, number, _delta(parsed, delta, name, facts, number))
        if update.turn is not None:
            turns[number] = update.turn
            for event in _ending(parsed, facts, number, update.turn):
                yield event
    if parsed.stream_usage and turns:
        usage = usage_of([turns[number] for number in sorted(turns)])
        yield plain_event({**_head(facts), "choices": [], "usage": usage})
    yield END


def _ending(parsed: ParsedRequest, facts: AnswerFacts, number: int, turn: ChatTurn) -> list[str]:
    """The last events of a choice."""
    events: list[str] = []
    more: dict[str, Any] = {}
    if parsed.logprobs:
        more["logprobs"] = logprobs_of(turn, facts)
    if parsed.token_ids:
        more["token_ids"] = list(turn.completion.token_ids)
        more["prompt_token_ids"] = list(turn.prompt_ids)
    if more:
        events.append(_chunk(facts, number, {}, more))
    events.append(_chunk(facts, number, {}, {"finish_reason": finish_reason(parsed, turn)}))
    return events


def _delta(
    parsed: ParsedRequest, delta: TurnDelta, name: str, facts: AnswerFacts, number: int
) -> dict[str, Any]:
    """A delta as a chunk has it; `name` is the tool of its call."""
    if delta.kind == "content":
        return {"content": delta.text}
    if delta.kind == "reasoning":
        return {"reasoning_content": delta.text}
    if delta.kind == "call":
        call = {"id": call_name(facts, number, delta.index), **_call_json(parsed, name, "")}
    elif name in parsed.custom_tools:
        call = {"custom": {"input": custom_input(delta.text)}}
    else:
        call = {"function": {"arguments": delta.text}}
    if parsed.legacy_calls:
        return {"function_call": call["function"]}
    return {"tool_calls": [{"index": delta.index, **call}]}


def _chunk(
    facts: AnswerFacts, number: int, delta: Mapping[str, Any], more: Mapping[str, Any] | None = None
) -> str:
    choice = {"index": number, "delta": delta, "finish_reason": None, **(more or {})}
    ids = choice.pop("prompt_token_ids", None)
    extra = {} if ids is None else {"prompt_token_ids": ids}
    return plain_event({**_head(facts), "choices": [choice], **extra})


def _head(facts: AnswerFacts) -> dict[str, Any]:
    head = {
        "id": f"chatcmpl-{facts.id}",
        "object": "chat.completion.chunk",
        "created": facts.created,
        "model": facts.model,
    }
    return {**head, "system_fingerprint": facts.fingerprint} if facts.fingerprint else head
