"""Refusals in the shape that all of OpenAI's services share."""

from typing import Any

from practicum.gateway.dialects.sse import typed_event

__all__ = ["error_body", "stream_error"]

ERROR_TYPES = frozenset(
    {"authentication_error", "permission_error", "not_found_error", "rate_limit_error", "api_error"}
)
"""Kinds of refusal that are types of error at OpenAI too; all others are invalid requests."""

CODES = {"authentication_error": "invalid_api_key", "rate_limit_error": "rate_limit_exceeded"}
"""Codes that clients look for; the other kinds are their own code."""


def error_body(status: int, sentence: str, kind: str, param: str = "") -> dict[str, Any]:
    """The body of a refusal, in the shape all of OpenAI's services share."""
    del status  # it is in the response's first line, and nowhere in the body
    return {
        "error": {
            "message": sentence,
            "type": kind if kind in ERROR_TYPES else "invalid_request_error",
            "param": param or None,
            "code": CODES.get(kind, kind),
        }
    }


def stream_error(status: int, sentence: str, kind: str) -> str:
    """The event that ends a stream which failed after it had begun."""
    error = error_body(status, sentence, kind)["error"]
    fields = {"code": error["code"], "message": sentence, "param": None}
    return typed_event({"type": "error", "sequence_number": 0, **fields})
