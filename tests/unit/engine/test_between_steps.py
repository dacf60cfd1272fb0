"""New weights between two steps of the sampler, while completions are under way."""

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.engine.reference import (
    ACTIONS,
    ask,
    build_policy,
    perturb,
    random_requests,
    row_logprobs,
    sample_all,
    stock_model,
)
from tests.unit.engine.sampling.test_engine import assert_no_slot_is_lost

from practicum.core.sampling import Completion, SamplingRequest
from practicum.engine.policy import TorchPolicy


async def interrupted(
    policy: TorchPolicy, requests: list[SamplingRequest], work: Callable[[], Any], after: int
) -> list[Completion]:
    """Sample them all, and do `work` once the model has been gone through `after` times."""
    engine = policy.sampler
    running = asyncio.ensure_future(sample_all(engine, requests))
    begin = engine.passes
    while engine.passes < begin + after:
        await asyncio.sleep(0)
    await policy.learner.beside_loop(work)
    return await running


def move(policy: TorchPolicy) -> Callable[[], None]:
    """An update of the weights, as the learner makes one."""

    def work() -> None:
        policy.decoder.release()
        perturb(policy.model, seed=9, size=0.1)
        policy.learner.publish()

    return work


def publish_the_same(policy: TorchPolicy) -> Callable[[], None]:
    """A version with another name, of the same weights."""
    return lambda: policy.learner._publish("the same weights again")


REQUESTS = [
    ask(*range(20), max_tokens=24, seed=1),
    ask(*range(20), 5, max_tokens=24, seed=2, temperature=1.3),
    ask(*range(7), max_tokens=24, seed=3, top_k=30),
    ask(*range(11), actions=ACTIONS, max_tokens=20, seed=4),
]


@pytest.mark.parametrize("after", [1, 2, 6])
async def test_each_tokens_logprob_is_that_of_the_weights_that_drew_it(after: int) -> None:
    policy = build_policy()
    before = stock_model(policy)
    first = policy.learner.fingerprint()
    found = await interrupted(policy, REQUESTS, move(policy), after)
    now = stock_model(policy)
    assert policy.learner.fingerprint() != first
    spanning = 0
    for request, completion in zip(REQUESTS, found, strict=True):
        kept = completion.log_kept or (0.0,) * len(completion.logprobs)
        recorded = [a + b for a, b in zip(completion.logprobs, kept, strict=True)]
        old, new = (row_logprobs(model, request, completion) for model in (before, now))
        by_old = [abs(a - b) < 1e-4 for a, b in zip(recorded, old, strict=True)]
        by_new = [abs(a - b) < 1e-4 for a, b in zip(recorded, new, strict=True)]
        switch = by_old.index(False) if False in by_old else len(by_old)
        assert all(by_new[switch:])  # from one token on all are the new weights' own
        spanning += 0 < switch < len(by_old)
        if completion.fingerprint != first:
            assert all(by_new)
    assert spanning >= 2
    assert_no_slot_is_lost(policy.sampler)


async def test_a_turn_is_recorded_with_the_weights_it_was_begun_with() -> None:
    policy = build_policy()
    first = policy.learner.fingerprint()
    found = await interrupted(policy, REQUESTS[:3], move(policy), after=3)
    assert {completion.fingerprint for completion in found} == {first}
    later = await sample_all(policy.sampler, REQUESTS[:3])
    assert {completion.fingerprint for completion in later} == {policy.learner.fingerprint()}


async def test_an_interruption_that_changes_nothing_changes_no_token() -> None:
    policy = build_policy()
    requests = random_requests(8, count=8)
    whole = await sample_all(policy.sampler, requests)
    policy.sampler.forget()
    parts = await interrupted(policy, requests, publish_the_same(policy), after=2)
    assert [c.token_ids for c in parts] == [c.token_ids for c in whole]
    for one, other in zip(parts, whole, strict=True):
        assert one.logprobs == pytest.approx(other.logprobs, abs=1e-4)
    assert_no_slot_is_lost(policy.sampler)


async def test_no_step_is_computed_meanwhile_and_the_event_loop_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    policy = build_policy()
    engine, inside, together = policy.sampler, threading.Event(), []
    step = engine._step

    def watched() -> bool:
        together.append(inside.is_set())
        return step()

    def work() -> int:
        inside.set()
        time.sleep(0.1)
        inside.clear()
        return 7

    monkeypatch.setattr(engine, "_step", watched)
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.001)
            ticks += inside.is_set()

    ticking = asyncio.create_task(tick())
    running = asyncio.ensure_future(sample_all(engine, random_requests(2, count=4)))
    await asyncio.sleep(0)
    assert await policy.learner.beside_loop(work) == 7
    await running
    ticking.cancel()
    assert together
    assert not any(together)
    assert ticks >= 20


async def test_work_that_fails_is_its_callers_alone() -> None:
    policy = build_policy()

    def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await policy.learner.beside_loop(fail)
    running = asyncio.ensure_future(sample_all(policy.sampler, REQUESTS))
    await asyncio.sleep(0)
    with pytest.raises(ValueError, match="no"):
        await policy.learner.beside_loop(fail)
    assert len(await running) == len(REQUESTS)
    assert_no_slot_is_lost(policy.sampler)


def test_an_engine_goes_from_event_loop_to_event_loop() -> None:
    policy = build_policy()
    for _ in range(2):
        asyncio.run(interrupted(policy, REQUESTS[:2], publish_the_same(policy), after=1))
