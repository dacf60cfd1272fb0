"""Requests of the Responses API as records of the gateway."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from practicum.core.sampling import SamplingParams
from practicum.core.trace import Message, ToolSpec
from practicum.gateway.dialects.dialect import Earlier
from practicum.gateway.dialects.fields import Fields, refuse
from practicum.gateway.dialects.openai_responses.items import messages_of_items
from practicum.gateway.requests import Asked, ChatRequest, JsonForm, ToolChoice

__all__ = ["read_request"]

LOGPROBS = "message.output_text.logprobs"
"""What a client includes to be shown log-probabilities."""

UNSUPPORTED = {
    "context_management": "conversations are never shortened on the way to the model",
    "background": "the answer is sent on the request that asks for it",
    "conversation": "send previous_response_id, or the whole conversation as input",
    "prompt": "write the prompt into instructions and input",
}
"""Fields that change what a request means, and what to do instead."""

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
"""Fields that say nothing the model could follow."""

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
"""Fields that a Response says again."""


def read_request(
    body: Mapping[str, Any], defaults: SamplingParams, earlier: Earlier | None = None
) -> Asked:
    """A request's body, checked."""
    asked = Fields(body)
    asked.forbid(UNSUPPORTED)
    asked.allow(READ | HARMLESS | UNSUPPORTED.keys())
    included = asked.texts("include", 16)
    params = _params(asked, defaults)
    parallel = asked.truth("parallel_tool_calls", True)
    return Asked(
        request=ChatRequest(
            messages=_messages(asked, earlier),
            tools=_tools(asked),
            params=params,
            top_logprobs=asked.integer("top_logprobs", 0, 20) or 0,
            seed=asked.integer("seed", 0),
        ),
        model=asked.text("model", ""),
        stream=asked.truth("stream", False),
        form=_form(asked.inner("text").inner("format")),
        tool_choice=_tool_choice(asked),
        parallel_tool_calls=parallel,
        logprobs=LOGPROBS in included,
        token_ids=asked.truth("return_token_ids", False),
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


def _params(asked: Fields, defaults: SamplingParams) -> SamplingParams:
    temperature = asked.number("temperature", 0, 2)
    top_p = asked.number("top_p", 0, 1)
    most = asked.integer("max_output_tokens", 1)
    return replace(
        defaults,
        temperature=defaults.temperature if temperature is None else temperature,
        top_p=defaults.top_p if top_p is None else top_p,
        max_tokens=defaults.max_tokens if most is None else most,
    )


def _messages(asked: Fields, earlier: Earlier | None) -> tuple[Message, ...]:
    """Instructions, then what was said before, then the input.

    Instructions of the response before stay until a request brings others.
    """
    found: list[Message] = []
    if asked.has("instructions"):
        found.append(Message(role="system", content=asked.text("instructions")))
    name = asked.text("previous_response_id", "")
    if name:
        before = earlier(name.removeprefix("resp_")) if earlier else None
        if before is None:
            raise refuse(
                f"previous_response_id is {name!r:.80}, which this rollout did not answer; send "
                "the whole conversation as input",
                "previous_response_id",
            )
        found += before[1:] if found and before[0].role == "system" else before
    given = asked.values.get("input")
    if isinstance(given, str):
        found.append(Message(role="user", content=asked.text("input")))
    else:
        found += messages_of_items([one.values for one in asked.items("input")], earlier)
    if not any(message.role != "system" for message in found):
        raise refuse("input is empty; it must be a text or a list of items", "input")
    return tuple(found)


def _tools(asked: Fields) -> tuple[ToolSpec, ...]:
    found: list[ToolSpec] = []
    for tool in asked.items("tools"):
        kind = tool.text("type")
        if kind != "function":
            raise refuse(
                f"{tool.where} is {kind!r:.60}; only tools of type 'function' can be offered here",
                tool.named("type"),
            )
        found.append(
            ToolSpec(
                name=tool.text("name"),
                description=tool.text("description", ""),
                parameters=tool.schema("parameters"),
            )
        )
    return tuple(found)


def _tool_choice(asked: Fields) -> ToolChoice:
    value = asked.values.get("tool_choice")
    if value is None or isinstance(value, str):
        return ToolChoice(kind=asked.choice("tool_choice", ("none", "auto", "required"), "auto"))
    choice = asked.inner("tool_choice")
    kind = choice.text("type")
    if kind != "function":
        raise refuse(
            f"tool_choice is of type {kind!r:.60}; it must be none, auto, required or a function",
            "tool_choice",
        )
    return ToolChoice(kind="named", name=choice.text("name"))


def _form(format_: Fields) -> JsonForm | None:
    kind = format_.choice("type", ("text", "json_object", "json_schema"), "text")
    if kind == "text":
        return None
    return JsonForm(schema=format_.schema("schema") if kind == "json_schema" else None)
