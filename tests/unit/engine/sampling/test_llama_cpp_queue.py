"""Whose turn it is at a model that computes one completion at a time."""

import asyncio
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from tests.unit.engine.reference import tiny

from practicum.core.sampling import SamplingParams, SamplingRequest
from practicum.engine.sampling.llama_cpp_sampler import MOST_PASSED_OVER, LlamaCppSampler

CHATTY, QUIET = 5, 6


class OneConversation:
    """A model that has one conversation in its cache, and answers with any token."""

    context_tokens = 64
    vocabulary = 300

    def overlap(self, tokens: Sequence[int]) -> int:
        return len(tokens) if tokens[0] == CHATTY else 0

    def logits(self, tokens: Sequence[int], count: int = 1) -> Any:
        return np.zeros((count, self.vocabulary), np.float32)


def request(first: int) -> SamplingRequest:
    return SamplingRequest(prompt_ids=(first, 7), params=SamplingParams(max_tokens=1))


def answered(waiting: int, asked: int) -> list[int]:
    """Who was answered, in order, where one client asks again whenever it is answered."""
    model: Any = OneConversation()
    order: list[int] = []

    async def ask(sampler: LlamaCppSampler, who: int, times: int) -> None:
        for _ in range(times):
            await sampler.sample(request(who))
            order.append(who)

    async def all_of_them() -> None:
        sampler = LlamaCppSampler(model, tiny().tokenizer, tiny().codec, "f")
        quiet = [ask(sampler, QUIET, 1) for _ in range(waiting)]
        await asyncio.gather(*quiet, ask(sampler, CHATTY, asked))

    asyncio.run(all_of_them())
    return order


@pytest.mark.parametrize("waiting", [1, 3])
def test_a_request_waits_for_a_bounded_number_of_completions_however_others_fit_the_cache(
    waiting: int,
) -> None:
    order = answered(waiting, asked=4 * MOST_PASSED_OVER)
    last = max(place for place, who in enumerate(order) if who == QUIET)
    assert last <= (MOST_PASSED_OVER + 1) * (waiting + 1)
    assert order[:MOST_PASSED_OVER].count(CHATTY) >= MOST_PASSED_OVER - 1  # mostly undisturbed
