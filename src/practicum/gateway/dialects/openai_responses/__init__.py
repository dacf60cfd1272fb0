"""OpenAI's Responses API: items in, items out, one event for each step of a stream."""

from practicum.gateway.dialects.openai_responses.answer import whole_answer
from practicum.gateway.dialects.openai_responses.errors import error_body, stream_error
from practicum.gateway.dialects.openai_responses.request import read_request
from practicum.gateway.dialects.openai_responses.stream import stream_events

__all__ = ["error_body", "read_request", "stream_error", "stream_events", "whole_answer"]
