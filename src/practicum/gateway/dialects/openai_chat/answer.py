"""Sampled turns as chat completions."""

import json
from collections.abc import Sequence
from typing import Any

from practicum.core.trace import Message
from practicum.gateway.dialects.call_ids import call_id
from practicum.gateway.requests import AnswerFacts, Asked, ChatTurn

__all__ = ["call_name", "finish_reason", "logprobs_of", "usage_of", "whole_answer"]


def whole_answer(asked: Asked, turns: Sequence[ChatTurn], facts: AnswerFacts) -> dict[str, Any]:
    """The answer in one piece; one turn for each choice."""
    answer: dict[str, Any] = {
        "id": f"chatcmpl-{facts.id}",
        "object": "chat.completion",
        "created": facts.created,
        "model": facts.model,
        "choices": [_choice(asked, turn, facts, number) for number, turn in enumerate(turns)],
        "usage": usage_of(turns),
        "system_fingerprint": turns[0].completion.fingerprint,
    }
    if asked.token_ids:
        answer["prompt_token_ids"] = list(turns[0].prompt_ids)
    return answer


def _choice(asked: Asked, turn: ChatTurn, facts: AnswerFacts, number: int) -> dict[str, Any]:
    choice: dict[str, Any] = {
        "index": number,
        "message": _said(turn.message, facts, number),
        "logprobs": logprobs_of(turn, facts) if asked.logprobs else None,
        "finish_reason": finish_reason(turn),
        "practicum_turn": turn.node,  # names the captured turn to whoever opened the rollout
    }
    if asked.token_ids:
        choice["token_ids"] = list(turn.completion.token_ids)
    return choice


def _said(message: Message, facts: AnswerFacts, number: int) -> dict[str, Any]:
    calls = [
        {
            "id": call_name(facts, number, index),
            "type": "function",
            "function": {
                "name": call.name,
                "arguments": json.dumps(dict(call.arguments), ensure_ascii=False),
            },
        }
        for index, call in enumerate(message.tool_calls)
    ]
    said: dict[str, Any] = {
        "role": "assistant",
        "content": message.content if message.content or not calls else None,
        "refusal": None,
    }
    if message.reasoning:
        said["reasoning_content"] = message.reasoning
    if calls:
        said["tool_calls"] = calls
    return said


def call_name(facts: AnswerFacts, number: int, index: int) -> str:
    """The id of one choice's call."""
    return call_id(f"{facts.id}_{number}" if number else facts.id, index)


def finish_reason(turn: ChatTurn) -> str:
    """Why a turn ended."""
    if turn.message.tool_calls:
        return "tool_calls"
    return "stop" if turn.completion.finished else "length"


def usage_of(turns: Sequence[ChatTurn]) -> dict[str, Any]:
    """How many tokens went in and came out; the prompt counts once, however many choices."""
    prompt = turns[0].prompt_tokens
    sampled = sum(len(turn.completion.token_ids) for turn in turns)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": sampled,
        "total_tokens": prompt + sampled,
        "prompt_tokens_details": {"cached_tokens": turns[0].completion.cached_tokens},
    }


def logprobs_of(turn: ChatTurn, facts: AnswerFacts) -> dict[str, Any]:
    """Every sampled token, those of reasoning and markup too, with the likeliest beside it."""

    def shown(token: int, logprob: float) -> dict[str, Any]:
        text = facts.token_text(token)
        return {"token": text, "logprob": logprob, "bytes": list(text.encode())}

    sampled = turn.completion
    beside = sampled.top_logprobs or ((),) * len(sampled.token_ids)
    content = [
        {**shown(token, logprob), "top_logprobs": [shown(*one) for one in likeliest]}
        for token, logprob, likeliest in zip(
            sampled.token_ids, sampled.logprobs, beside, strict=True
        )
    ]
    return {"content": content, "refusal": None}
