"""OpenAI's chat completions: messages in, choices out."""

from typing import Any

from practicum.gateway.dialects.openai_chat.answer import whole_answer
from practicum.gateway.dialects.openai_chat.request import read_request
from practicum.gateway.dialects.openai_chat.stream import plain_event, stream_events
from practicum.gateway.dialects.openai_responses import error_body

__all__ = ["error_body", "read_request", "stream_error", "stream_events", "whole_answer"]


def stream_error(status: int, sentence: str, kind: str) -> str:
    """The event that ends a stream which failed after it had begun."""
    body: dict[str, Any] = error_body(status, sentence, kind)
    return plain_event(body)
