"""Turns as chunks of a chat completion, while they are sampled."""

import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

from practicum.core.conversing import TurnDelta
from practicum.gateway.dialects.deltas import deltas_of
from practicum.gateway.dialects.openai_chat.answer import (
    call_name,
    finish_reason,
    logprobs_of,
    usage_of,
)
from practicum.gateway.dialects.openai_responses import error_body
from practicum.gateway.requests import AnswerFacts, Asked, ChatTurn, Happening

__all__ = ["stream_error", "stream_events"]

END = "data: [DONE]\n\n"


def plain_event(event: Mapping[str, Any]) -> str:
    r"""One event with its blank line.

    >>> plain_event({"a": 1})
    'data: {"a":1}\n\n'
    """
    return f"data: {json.dumps(event, ensure_ascii=False, separators=(',', ':'))}\n\n"


def stream_error(status: int, sentence: str, kind: str) -> str:
    """The event that ends a stream which failed after it had begun."""
    return plain_event(error_body(status, sentence, kind))


async def stream_events(
    asked: Asked, facts: AnswerFacts, happenings: AsyncIterator[Happening]
) -> AsyncIterator[str]:
    """The answer as server-sent events.

    Log-probabilities and token ids come with a choice's last chunk but one, when all are known.
    """
    told: set[int] = set()
    turns: dict[int, ChatTurn] = {}
    for number in range(asked.n):
        yield _chunk(facts, number, {"role": "assistant", "content": ""})
    async for happening in happenings:
        number = happening.choice
        if happening.delta is not None:
            told.add(number)
            yield _chunk(facts, number, _delta(happening.delta, facts, number))
        if happening.turn is not None:
            turns[number] = happening.turn
            for event in _ending(asked, facts, number, happening.turn, number in told):
                yield event
    if asked.stream_usage and turns:
        usage = usage_of([turns[number] for number in sorted(turns)])
        yield plain_event({**_head(facts), "choices": [], "usage": usage})
    yield END


def _ending(
    asked: Asked, facts: AnswerFacts, number: int, turn: ChatTurn, was_told: bool
) -> list[str]:
    """What is sent when a choice is complete."""
    events: list[str] = []
    if not was_told:
        events += [
            _chunk(facts, number, _delta(delta, facts, number)) for delta in deltas_of(turn.message)
        ]
    more: dict[str, Any] = {}
    if asked.logprobs:
        more["logprobs"] = logprobs_of(turn, facts)
    if asked.token_ids:
        more["token_ids"] = list(turn.completion.token_ids)
        more["prompt_token_ids"] = list(turn.prompt_ids)
    if more:
        events.append(_chunk(facts, number, {}, more))
    events.append(_chunk(facts, number, {}, {"finish_reason": finish_reason(turn)}))
    return events


def _delta(delta: TurnDelta, facts: AnswerFacts, number: int) -> dict[str, Any]:
    if delta.kind == "content":
        return {"content": delta.text}
    if delta.kind == "reasoning":
        return {"reasoning_content": delta.text}
    call: dict[str, Any] = {"index": delta.index}
    if delta.kind == "call":
        call["id"] = call_name(facts, number, delta.index)
        call["type"] = "function"
        call["function"] = {"name": delta.text, "arguments": ""}
    else:
        call["function"] = {"arguments": delta.text}
    return {"tool_calls": [call]}


def _chunk(
    facts: AnswerFacts,
    number: int,
    delta: Mapping[str, Any],
    more: Mapping[str, Any] | None = None,
) -> str:
    choice = {"index": number, "delta": delta, "finish_reason": None, **(more or {})}
    ids = choice.pop("prompt_token_ids", None)
    beside = {} if ids is None else {"prompt_token_ids": ids}
    return plain_event({**_head(facts), "choices": [choice], **beside})


def _head(facts: AnswerFacts) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{facts.id}",
        "object": "chat.completion.chunk",
        "created": facts.created,
        "model": facts.model,
    }
