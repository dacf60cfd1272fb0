"""Requests of the Anthropic messages API as records of the gateway."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from practicum.core.sampling import SamplingParams
from practicum.gateway.dialects.anthropic.conversation import messages_of, tools_of
from practicum.gateway.dialects.dialect import Earlier
from practicum.gateway.dialects.fields import Fields, refuse
from practicum.gateway.requests import Asked, ChatRequest, JsonForm, ToolChoice

__all__ = ["read_count", "read_request"]

UNSUPPORTED = {
    "context_management": "conversations are never shortened on the way to the model",
    "container": "there is no code execution behind this server",
    "mcp_servers": "offer the servers' tools in tools",
}
"""Fields that change what a request means, and what to do instead."""

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
"""Fields that say nothing the model could follow."""

CHOICES = {"auto": "auto", "any": "required", "none": "none"}
MOST_STOPS = 16


def read_request(
    body: Mapping[str, Any], defaults: SamplingParams, earlier: Earlier | None = None
) -> Asked:
    """A request's body, checked."""
    del earlier  # every request holds the whole conversation
    asked = Fields(body)
    most = asked.integer("max_tokens", 1)
    if most is None:
        raise refuse("max_tokens is missing; it must be a whole number from 1", "max_tokens")
    return _read(asked, replace(_params(asked, defaults), max_tokens=most))


def read_count(body: Mapping[str, Any], defaults: SamplingParams) -> Asked:
    """A request that only asks how long its prompt is: nothing says how much to sample."""
    return _read(Fields(body), defaults)


def _read(asked: Fields, params: SamplingParams) -> Asked:
    asked.forbid(UNSUPPORTED)
    asked.allow(READ | HARMLESS | UNSUPPORTED.keys())
    choice = asked.inner("tool_choice")
    return Asked(
        request=ChatRequest(
            messages=messages_of(asked),
            tools=tools_of(asked),
            params=params,
            seed=asked.integer("seed", 0),
        ),
        model=asked.text("model", ""),
        stream=asked.truth("stream", False),
        form=_form(asked),
        tool_choice=_tool_choice(choice),
        parallel_tool_calls=not choice.truth("disable_parallel_tool_use", False),
        token_ids=asked.truth("return_token_ids", False),
    )


def _params(asked: Fields, defaults: SamplingParams) -> SamplingParams:
    temperature = asked.number("temperature", 0, 1)
    top_p = asked.number("top_p", 0, 1)
    top_k = asked.integer("top_k", 0)
    return replace(
        defaults,
        temperature=defaults.temperature if temperature is None else temperature,
        top_p=defaults.top_p if top_p is None else top_p,
        top_k=defaults.top_k if top_k is None else top_k,
        stop=asked.texts("stop_sequences", MOST_STOPS) or defaults.stop,
    )


def _tool_choice(choice: Fields) -> ToolChoice:
    kind = choice.choice("type", (*CHOICES, "tool"), "auto")
    if kind == "tool":
        return ToolChoice(kind="named", name=choice.text("name"))
    return ToolChoice(kind=CHOICES[kind])


def _form(asked: Fields) -> JsonForm | None:
    """The schema an answer must follow, in either of the two places where clients put it."""
    stated = asked.inner("output_config").inner("format")
    if not stated.values:
        stated = asked.inner("output_format")
    if not stated.values:
        return None
    stated.choice("type", ("json_schema",), "json_schema")
    return JsonForm(schema=stated.schema("schema"))
