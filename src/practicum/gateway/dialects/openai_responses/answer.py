"""A sampled turn as a Response: its items, its usage and what was asked."""

from collections.abc import Sequence
from typing import Any

from practicum.core.sampling import Completion
from practicum.gateway.dialects.openai_responses.output import items_of_message
from practicum.gateway.requests import AnswerFacts, Asked, ChatTurn

__all__ = ["complete_body", "status_of", "whole_answer", "without_output"]


def whole_answer(asked: Asked, turns: Sequence[ChatTurn], facts: AnswerFacts) -> dict[str, Any]:
    """The answer in one piece."""
    [turn] = turns
    items = items_of_message(turn.message, facts.id, status_of(turn))
    return complete_body(asked, facts, turn, items)


def status_of(turn: ChatTurn) -> str:
    """`incomplete` for a turn that the token limit cut off."""
    return "completed" if turn.completion.finished else "incomplete"


def complete_body(
    asked: Asked, facts: AnswerFacts, turn: ChatTurn, items: list[dict[str, Any]]
) -> dict[str, Any]:
    """A Response that is done."""
    status = status_of(turn)
    if asked.logprobs:
        shown = _logprobs(turn.completion, facts)
        for part in (part for item in items for part in item.get("content", ())):
            if part["type"] == "output_text":
                part["logprobs"] = shown
    body = without_output(asked, facts, status) | {"output": items, "usage": _usage(turn)}
    if status == "incomplete":
        body["incomplete_details"] = {"reason": "max_output_tokens"}
    if asked.token_ids:
        body["prompt_token_ids"] = list(turn.prompt_ids)
        body["token_ids"] = list(turn.completion.token_ids)
    return body


def without_output(asked: Asked, facts: AnswerFacts, status: str) -> dict[str, Any]:
    """A Response of which nothing is sampled yet; what was asked is said again in it."""
    return {
        "id": f"resp_{facts.id}",
        "object": "response",
        "created_at": facts.created,
        "model": facts.model,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "output": [],
        "usage": None,
        **asked.echo,
    }


def _usage(turn: ChatTurn) -> dict[str, Any]:
    sampled = len(turn.completion.token_ids)
    return {
        "input_tokens": turn.prompt_tokens,
        "input_tokens_details": {
            "cached_tokens": turn.completion.cached_tokens,
            "cache_write_tokens": 0,
        },
        "output_tokens": sampled,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": turn.prompt_tokens + sampled,
    }


def _logprobs(completion: Completion, facts: AnswerFacts) -> list[dict[str, Any]]:
    """Every sampled token, those of reasoning and markup too, with the likeliest beside it."""

    def shown(token: int, logprob: float) -> dict[str, Any]:
        text = facts.token_text(token)
        return {"token": text, "logprob": logprob, "bytes": list(text.encode())}

    beside = completion.top_logprobs or ((),) * len(completion.token_ids)
    pairs = zip(completion.token_ids, completion.logprobs, beside, strict=True)
    return [
        {**shown(token, logprob), "top_logprobs": [shown(*one) for one in likeliest]}
        for token, logprob, likeliest in pairs
    ]
