"""Anthropic's messages API: content blocks in, content blocks out."""

from practicum.gateway.dialects.anthropic.answer import count_answer, whole_answer
from practicum.gateway.dialects.anthropic.errors import error_body, stream_error
from practicum.gateway.dialects.anthropic.request import read_count, read_request
from practicum.gateway.dialects.anthropic.stream import stream_events

__all__ = [
    "count_answer",
    "error_body",
    "read_count",
    "read_request",
    "stream_error",
    "stream_events",
    "whole_answer",
]
