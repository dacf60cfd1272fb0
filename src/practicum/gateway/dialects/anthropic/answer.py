"""A sampled turn as an Anthropic message."""

from collections.abc import Sequence
from typing import Any

from practicum.core.trace import Message
from practicum.gateway.dialects.call_ids import call_id
from practicum.gateway.requests import AnswerFacts, Asked, ChatTurn

__all__ = [
    "count_answer",
    "empty_message",
    "stop_of",
    "token_ids_of",
    "usage_of",
    "whole_answer",
]


def whole_answer(asked: Asked, turns: Sequence[ChatTurn], facts: AnswerFacts) -> dict[str, Any]:
    """The answer in one piece."""
    [turn] = turns
    return {
        **empty_message(facts),
        "content": _blocks(turn.message, facts.id),
        **stop_of(turn),
        "usage": usage_of(turn),
        **token_ids_of(asked, turn),
    }


def empty_message(facts: AnswerFacts) -> dict[str, Any]:
    """An answer of which nothing is sampled yet."""
    return {
        "id": f"msg_{facts.id}",
        "type": "message",
        "role": "assistant",
        "model": facts.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 0, "output_tokens": 0},
    }


def _blocks(said: Message, answer_id: str) -> list[dict[str, Any]]:
    """The content blocks of a turn, in the order they are written: thinking, text, calls."""
    blocks: list[dict[str, Any]] = []
    if said.reasoning:
        blocks.append({"type": "thinking", "thinking": said.reasoning, "signature": ""})
    if said.content:
        blocks.append({"type": "text", "text": said.content})
    for index, call in enumerate(said.tool_calls):
        name = {"id": call_id(answer_id, index), "name": call.name}
        blocks.append({"type": "tool_use", **name, "input": dict(call.arguments)})
    return blocks


def stop_of(turn: ChatTurn) -> dict[str, Any]:
    """Why the turn ended, and the stop sequence that ended it."""
    completion = turn.completion
    if not completion.finished:
        return {"stop_reason": "max_tokens", "stop_sequence": None}
    if turn.message.tool_calls:
        return {"stop_reason": "tool_use", "stop_sequence": None}
    if completion.stopped_by:
        return {"stop_reason": "stop_sequence", "stop_sequence": completion.stopped_by}
    return {"stop_reason": "end_turn", "stop_sequence": None}


def usage_of(turn: ChatTurn) -> dict[str, int]:
    """How many tokens went in and came out; those read from the cache are counted apart."""
    cached = turn.completion.cached_tokens
    return {
        "input_tokens": turn.prompt_tokens - cached,
        "cache_read_input_tokens": cached,
        "cache_creation_input_tokens": 0,
        "output_tokens": len(turn.completion.token_ids),
    }


def token_ids_of(asked: Asked, turn: ChatTurn) -> dict[str, list[int]]:
    """Prompt and sampled ids, where the client asks for them."""
    if not asked.token_ids:
        return {}
    return {
        "prompt_token_ids": list(turn.prompt_ids),
        "token_ids": list(turn.completion.token_ids),
    }


def count_answer(prompt_tokens: int) -> dict[str, int]:
    """How long a prompt is."""
    return {"input_tokens": prompt_tokens}
