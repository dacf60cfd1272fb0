"""Refusals in Anthropic's shape."""

from typing import Any

from practicum.gateway.dialects.sse import typed_event

__all__ = ["error_body", "stream_error"]

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
