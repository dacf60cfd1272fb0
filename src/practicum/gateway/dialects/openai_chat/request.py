"""Requests for chat completions as records of the gateway."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from practicum.core.sampling import SamplingParams
from practicum.core.trace import Message, Role, ToolCall, ToolSpec
from practicum.gateway.dialects.dialect import Earlier
from practicum.gateway.dialects.fields import Fields, arguments_of, refuse
from practicum.gateway.requests import Asked, ChatRequest, JsonForm, ToolChoice

__all__ = ["read_request"]

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
"""Fields that say nothing the model could follow, or that only ask for what is done anyway."""

NEUTRAL: Mapping[str, Any] = {
    "frequency_penalty": 0,
    "presence_penalty": 0,
    "repetition_penalty": 1,
    "min_p": 0,
    "logit_bias": {},
    "modalities": ["text"],
    "functions": [],
    "function_call": "none",
    "ignore_eos": False,
    "min_tokens": 0,
    "best_of": 1,
    "echo": False,
}
"""Fields that would change what is sampled, and the value with which they change nothing."""

ROLES: Mapping[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
}

MOST_STOPS = 16
MOST_CHOICES = 128


def read_request(
    body: Mapping[str, Any], defaults: SamplingParams, earlier: Earlier | None = None
) -> Asked:
    """A request's body, checked."""
    del earlier  # every request holds the whole conversation
    asked = Fields(body)
    _check_names(body)
    logprobs = asked.truth("logprobs", False)
    beside = asked.integer("top_logprobs", 0, 20) or 0
    if beside and not logprobs:
        raise refuse("top_logprobs needs logprobs: true", "top_logprobs")
    tools = _tools(asked)
    return Asked(
        request=ChatRequest(
            messages=_messages(asked),
            tools=tools,
            params=_params(asked, defaults),
            top_logprobs=beside,
            seed=_seed(asked),
        ),
        model=asked.text("model", ""),
        n=asked.integer("n", 1, MOST_CHOICES) or 1,
        stream=asked.truth("stream", False),
        form=_form(asked.inner("response_format")),
        tool_choice=_tool_choice(asked, tools),
        parallel_tool_calls=asked.truth("parallel_tool_calls", True),
        logprobs=logprobs,
        token_ids=asked.truth("return_token_ids", False),
        stream_usage=asked.inner("stream_options").truth("include_usage", False),
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


def _params(asked: Fields, defaults: SamplingParams) -> SamplingParams:
    temperature = asked.number("temperature", 0, 2)
    top_p = asked.number("top_p", 0, 1)
    top_k = asked.integer("top_k", -1)
    most = asked.integer("max_completion_tokens", 1)
    if most is None:
        most = asked.integer("max_tokens", 1)
    stop = asked.values.get("stop")
    stops = (stop,) if isinstance(stop, str) and stop else asked.texts("stop", MOST_STOPS)
    return replace(
        defaults,
        temperature=defaults.temperature if temperature is None else temperature,
        top_p=defaults.top_p if top_p is None else top_p,
        top_k=defaults.top_k if top_k is None else max(top_k, 0),
        max_tokens=defaults.max_tokens if most is None else most,
        stop=stops or defaults.stop,
    )


def _seed(asked: Fields) -> int | None:
    """The seed as the sampler takes it: not negative."""
    seed = asked.integer("seed", -(2**63))
    return None if seed is None else seed % 2**64


def _messages(asked: Fields) -> tuple[Message, ...]:
    found = tuple(_message(item) for item in asked.items("messages"))
    if not found:
        raise refuse("messages is empty; send at least one message", "messages")
    return found


def _message(item: Fields) -> Message:
    role = item.text("role")
    if role not in ROLES:
        allowed = ", ".join(ROLES)
        raise refuse(f"{item.where} is from {role!r:.60}; roles are {allowed}", item.named("role"))
    if item.has("function_call") or item.has("audio"):
        raise refuse(f"{item.where} has a function_call or audio; send tool_calls and text")
    kept = ROLES[role]
    return Message(
        role=kept,
        content=_words(item),
        tool_calls=tuple(_call(call) for call in item.items("tool_calls")),
        tool_call_id=item.text("tool_call_id") if kept == "tool" else None,
        reasoning=_reasoning(item) if kept == "assistant" else "",
    )


def _reasoning(item: Fields) -> str:
    for name in ("reasoning_content", "reasoning"):
        if isinstance(item.values.get(name), str):
            return item.text(name)
    return ""


def _words(item: Fields) -> str:
    """The text of a message, given whole or in parts."""
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
    if kind != "function":
        raise refuse(f"{item.where} is of type {kind!r:.60}; calls are of type 'function'")
    function = item.inner("function")
    where = function.named("arguments")
    return ToolCall(
        name=function.text("name"),
        arguments=cast("dict[str, Any]", arguments_of(function.text("arguments", "{}"), where)),
        id=item.text("id", ""),
    )


def _tools(asked: Fields) -> tuple[ToolSpec, ...]:
    found: list[ToolSpec] = []
    for tool in asked.items("tools"):
        kind = tool.text("type")
        if kind != "function":
            raise refuse(
                f"{tool.where} is {kind!r:.60}; only tools of type 'function' can be offered here",
                tool.named("type"),
            )
        function = tool.inner("function")
        found.append(
            ToolSpec(
                name=function.text("name"),
                description=function.text("description", ""),
                parameters=function.schema("parameters"),
            )
        )
    return tuple(found)


def _tool_choice(asked: Fields, tools: tuple[ToolSpec, ...]) -> ToolChoice:
    value = asked.values.get("tool_choice")
    if value is None or isinstance(value, str):
        kind = asked.choice("tool_choice", ("none", "auto", "required"), "auto")
        return ToolChoice(kind=kind)
    name = asked.inner("tool_choice").inner("function").text("name")
    if name not in {tool.name for tool in tools}:
        raise refuse(f"tool_choice names {name!r:.80}, which is not among the tools", "tool_choice")
    return ToolChoice(kind="named", name=name)


def _form(form: Fields) -> JsonForm | None:
    kind = form.choice("type", ("text", "json_object", "json_schema"), "text")
    if kind == "text":
        return None
    if kind == "json_object":
        return JsonForm()
    return JsonForm(schema=form.inner("json_schema").schema("schema"))
