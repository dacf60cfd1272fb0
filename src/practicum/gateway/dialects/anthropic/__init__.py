"""Anthropic's messages API: content blocks in, content blocks out."""

from typing import Any

from practicum.gateway.dialects.anthropic.answer import whole_answer
from practicum.gateway.dialects.anthropic.request import read_count, read_request
from practicum.gateway.dialects.anthropic.stream import stream_events
from practicum.gateway.dialects.sse import typed_event

__all__ = [
    "count_answer",
    "error_body",
    "read_count",
    "read_request",
    "stream_error",
    "stream_events",
    "whole_answer",
]

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
"""What Anthropic calls a refusal, by its status."""


def error_body(status: int, sentence: str, kind: str, param: str = "") -> dict[str, Any]:
    """The body of a refusal."""
    del param  # the shape has no place for it
    if kind == "context_length_exceeded":  # clients know it by these words only
        sentence = f"prompt is too long: {sentence}"
    usual = "api_error" if status >= 500 else "invalid_request_error"
    error = {"type": ERROR_TYPES.get(status, usual), "message": sentence}
    return {"type": "error", "error": error}


def stream_error(status: int, sentence: str, kind: str) -> str:
    """The event that ends a stream which failed after it had begun."""
    return typed_event(error_body(status, sentence, kind))


def count_answer(prompt_tokens: int) -> dict[str, int]:
    """How long a prompt is."""
    return {"input_tokens": prompt_tokens}
