"""OpenAI's chat completions: messages in, choices out."""

from practicum.gateway.dialects.openai_chat.answer import whole_answer
from practicum.gateway.dialects.openai_chat.request import read_request
from practicum.gateway.dialects.openai_chat.stream import stream_error, stream_events
from practicum.gateway.dialects.openai_responses import error_body

__all__ = ["error_body", "read_request", "stream_error", "stream_events", "whole_answer"]
