"""What OpenAI's APIs share: errors, lists of log-probabilities, and which tools may be called."""

from collections.abc import Sequence
from typing import Any

from practicum.core.sampling import Completion
from practicum.gateway.dialects.dialect import Fields, refuse
from practicum.gateway.requests import AnswerFacts, ToolChoice

ERROR_TYPES = frozenset(
    f"{kind}_error"
    for kind in ("authentication", "permission", "not_found", "rate_limit", "overloaded", "api")
)
"""Kinds of refusal that OpenAI has as types; all others are `invalid_request_error`."""

CODES = {"authentication_error": "invalid_api_key", "rate_limit_error": "rate_limit_exceeded"}
"""Codes that clients look for; for other kinds the code is the kind."""


def error_body(status: int, sentence: str, kind: str, param: str = "") -> dict[str, Any]:
    """The JSON of a refusal, as in all of OpenAI's APIs."""
    del status  # it is in the status line only
    return {
        "error": {
            "message": sentence,
            "type": kind if kind in ERROR_TYPES else "invalid_request_error",
            "param": param or None,
            "code": CODES.get(kind, kind),
        }
    }


def token_logprobs(completion: Completion, facts: AnswerFacts) -> list[dict[str, Any]]:
    """Every sampled token (of reasoning and markup too) with its top log-probabilities."""

    def shown(token: int, logprob: float) -> dict[str, Any]:
        text = facts.token_text(token)
        return {"token": text, "logprob": logprob, "bytes": list(text.encode())}

    extra = completion.top_logprobs or ((),) * len(completion.token_ids)
    pairs = zip(completion.token_ids, completion.logprobs, extra, strict=True)
    return [
        {**shown(token, logprob), "top_logprobs": [shown(*one) for one in likeliest]}
        for token, logprob, likeliest in pairs
    ]


def read_tool_choice(fields: Fields, names: Sequence[str], inside: str) -> ToolChoice:
    """Which tools may, must or must not be called.

    Args:
        fields: The request.
        names: The tools that are offered.
        inside: What the API puts a tool's name and allowed tools into: the kind's name, or nothing.
    """
    value = fields.values.get("tool_choice")
    if value is None or isinstance(value, str):
        return ToolChoice(kind=fields.choice("tool_choice", ("none", "auto", "required"), "auto"))
    choice = fields.inner("tool_choice")
    kind = choice.text("type", "function")
    if kind == "allowed_tools":
        given = choice.inner("allowed_tools") if inside else choice
        allowed = [_name_in(tool, inside) for tool in given.items("tools")]
        mode = given.choice("mode", ("auto", "required"), "auto")
        found = ToolChoice(kind=mode, allowed=tuple(allowed))
    elif kind in ("function", "custom"):
        found = ToolChoice(kind="named", name=_name_in(choice, inside))
    else:
        raise refuse(
            f"tool_choice is of type {kind!r:.60}; it must be none, auto, required, a function, a "
            "custom tool or allowed_tools",
            "tool_choice",
        )
    for name in (found.name, *found.allowed):
        if name and name not in names:
            sentence = f"tool_choice names {name!r:.80}, which is not among the tools"
            raise refuse(sentence, "tool_choice")
    return found


def _name_in(tool: Fields, inside: str) -> str:
    kind = tool.text("type", "function")
    return (tool.inner(kind) if inside else tool).text("name")
