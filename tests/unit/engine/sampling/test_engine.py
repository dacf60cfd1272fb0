import asyncio
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from tests.unit.engine.reference import (
    ACTIONS,
    END,
    ask,
    build_engine,
    build_policy,
    perturb,
    random_requests,
    recorded,
    row_logits,
    row_logprobs,
    sample_all,
    stock_model,
)

from practicum.core.errors import ContextFull, EnvironmentFailure, PracticumError, UserError
from practicum.core.sampling import (
    ActionForm,
    Completion,
    NextCharacters,
    SamplingParams,
    SamplingRequest,
)
from practicum.engine.policy import TorchPolicy
from practicum.engine.sampling import token_sampler
from practicum.engine.sampling.completions import PendingCompletion
from practicum.engine.sampling.draw import RandomStream
from practicum.engine.sampling.sampling_engine import TorchEngine

EXACT = 2e-5
"""Distance to the stock model that float32 rounding explains."""


@pytest.fixture(scope="module")
def policy() -> TorchPolicy:
    return build_policy()


@pytest.fixture(scope="module")
def stock(policy: TorchPolicy) -> Any:
    return stock_model(policy)


def assert_exact(
    stock: Any, requests: Sequence[SamplingRequest], completions: Sequence[Completion]
) -> None:
    for request, completion in zip(requests, completions, strict=True):
        expected = row_logprobs(stock, request, completion)
        np.testing.assert_allclose(recorded(completion), expected, rtol=0, atol=EXACT)


def assert_no_slot_is_lost(engine: TorchEngine) -> None:
    """Every slot is free or in the tree, once, and nobody holds anything."""
    cache = engine._cache
    runs = cache._runs()
    cached = [slot for run in runs for slot in run.slots.tolist()]
    assert sorted([*cached, *cache._free]) == list(range(cache.capacity))
    assert not any(run.holders for run in (*runs, cache._root))


@pytest.mark.parametrize("seed", range(10))
async def test_logprobs_are_the_stock_models(policy: TorchPolicy, stock: Any, seed: int) -> None:
    requests = random_requests(seed, count=10)
    assert_exact(stock, requests, await sample_all(policy.sampler, requests))
    assert_no_slot_is_lost(policy.sampler)


async def test_logprobs_are_those_of_eager_attention_too(policy: TorchPolicy) -> None:
    requests = random_requests(99, count=10)
    completions = await sample_all(policy.sampler, requests)
    assert_exact(stock_model(policy, "eager"), requests, completions)


@pytest.mark.parametrize("seed", range(6))
async def test_a_small_cache_gives_the_same_tokens(
    policy: TorchPolicy, stock: Any, seed: int
) -> None:
    requests = random_requests(seed, count=14)
    longest = max(len(r.prompt_ids) + r.params.max_tokens for r in requests)
    small = build_engine(policy, max_slots=longest)
    cramped = await sample_all(small, requests)
    roomy = await sample_all(build_engine(policy), requests)
    assert [c.token_ids for c in cramped] == [c.token_ids for c in roomy]
    assert_exact(stock, requests, cramped)
    assert_no_slot_is_lost(small)


async def test_rows_that_outgrow_the_cache_wait_and_end_as_they_would_have(
    policy: TorchPolicy, stock: Any
) -> None:
    requests = [ask(i, 7, 7, max_tokens=30, seed=i) for i in range(6)]
    small, big = build_engine(policy, max_slots=40), build_engine(policy)
    cramped, roomy = await sample_all(small, requests), await sample_all(big, requests)
    assert small.computed_tokens > big.computed_tokens  # rows were put back and computed again
    assert [c.token_ids for c in cramped] == [c.token_ids for c in roomy]
    assert_exact(stock, requests, cramped)
    assert_no_slot_is_lost(small)


async def test_slots_used_again_and_again_stay_exact(policy: TorchPolicy, stock: Any) -> None:
    """Prompts that end inside paths of before, in a cache that can keep only a few of those."""
    chance = random.Random(0)
    small = build_engine(policy, max_slots=60)
    paths: list[tuple[int, ...]] = [(1, 2, 3)]
    for seed in range(80):
        trunk = chance.choice(paths[-6:])
        prompt = trunk[: chance.randrange(1, min(len(trunk), 45) + 1)]
        prompt += tuple(chance.randrange(256) for _ in range(chance.randrange(3)))
        request = ask(*prompt, max_tokens=chance.randrange(1, 9), seed=seed)
        completion = await small.sample(request)
        assert_exact(stock, [request], [completion])
        assert_no_slot_is_lost(small)
        paths.append(prompt + completion.token_ids)


async def test_later_turns_compute_only_what_is_new(policy: TorchPolicy, stock: Any) -> None:
    engine = build_engine(policy)
    path: tuple[int, ...] = tuple(range(40))
    for turn in range(4):
        before = engine.computed_tokens
        request = ask(*path, max_tokens=6, seed=turn)
        completion = await engine.sample(request)
        assert_exact(stock, [request], [completion])
        if turn:
            new = 3 + 1 + len(completion.token_ids) - 1  # given, the last of before, sampled
            assert completion.cached_tokens == len(path) - 4
            assert engine.computed_tokens - before == new
        path += (*completion.token_ids, 60 + turn, 61, 62)


async def test_requests_that_begin_alike_share_the_computation(policy: TorchPolicy) -> None:
    engine = build_engine(policy)
    prompt = tuple(range(100))
    await sample_all(engine, [ask(*prompt, max_tokens=1, seed=i) for i in range(8)])
    assert engine.computed_tokens == len(prompt)


@pytest.mark.parametrize("seed", range(3))
async def test_a_draw_does_not_depend_on_the_company(policy: TorchPolicy, seed: int) -> None:
    requests = random_requests(seed + 50, count=12)
    together = await sample_all(build_engine(policy), requests)
    alone = [await build_engine(policy).sample(request) for request in requests]
    assert [c.token_ids for c in together] == [c.token_ids for c in alone]


async def test_the_same_seed_gives_the_same_bits_in_a_fresh_policy(policy: TorchPolicy) -> None:
    requests = random_requests(7, count=10)
    first = await sample_all(build_policy().sampler, requests)
    second = await sample_all(build_policy().sampler, requests)
    assert first == second
    other_weights = await sample_all(build_policy(seed=1).sampler, requests)
    assert [c.token_ids for c in other_weights] != [c.token_ids for c in first]


async def test_another_seed_gives_other_tokens(policy: TorchPolicy) -> None:
    completions = await sample_all(policy.sampler, [ask(1, 2, seed=s) for s in range(5)])
    assert len({c.token_ids for c in completions}) == 5


async def test_temperature_zero_takes_the_most_likely_token(
    policy: TorchPolicy, stock: Any
) -> None:
    request = ask(5, 6, 7, temperature=0.0, max_tokens=12)
    completion = await policy.sampler.sample(request)
    logits = row_logits(stock, [*request.prompt_ids, *completion.token_ids])
    assert completion.token_ids == tuple(logits.argmax(-1)[2:-1].tolist())
    assert set(completion.logprobs) == {0.0}
    assert not any(completion.loss_mask)


async def test_cuts_change_nothing_at_temperature_zero(policy: TorchPolicy) -> None:
    greedy = ask(5, 6, 7, temperature=0.0, max_tokens=12)
    cut = ask(5, 6, 7, temperature=0.0, max_tokens=12, top_p=0.5, top_k=3)
    warm = ask(5, 6, 7, temperature=0.1, max_tokens=12, top_p=0.5, top_k=3)
    completions = await sample_all(policy.sampler, [greedy, cut])
    assert completions[0].token_ids == completions[1].token_ids
    future: asyncio.Future[Completion] = asyncio.get_running_loop().create_future()
    plain = [
        PendingCompletion(request, future, RandomStream(0), walk=None, tokens=[]).is_plain
        for request in (greedy, cut, warm)
    ]
    assert plain == [True, True, False]


async def test_what_is_cached_does_not_change_the_answer(policy: TorchPolicy) -> None:
    requests = random_requests(3, count=8)
    engine = build_engine(policy)
    cold = await sample_all(engine, requests)
    warm = await sample_all(engine, requests)
    assert [c.token_ids for c in warm] == [c.token_ids for c in cold]
    engine.forget()
    assert await sample_all(engine, requests) == cold


async def test_cached_tokens_count_no_more_than_the_prompt(policy: TorchPolicy) -> None:
    only = (ActionForm(name="abcdef"), ActionForm(name="abcxyz"))
    engine = build_engine(policy)
    for _ in range(3):
        completion = await engine.sample(ask(1, 2, 3, actions=only, max_tokens=20))
        assert completion.cached_tokens <= 3


async def test_a_stop_text_ends_the_completion_and_is_left_out_of_the_text(
    policy: TorchPolicy,
) -> None:
    whole = await policy.sampler.sample(ask(9, 9, max_tokens=40, seed=3))
    stop = next(c for c in whole.text[5:] if c.isascii() and c.isprintable())
    cut = await policy.sampler.sample(ask(9, 9, max_tokens=40, seed=3, stop=(stop, "\x00\x00")))
    assert cut.text == whole.text.split(stop)[0]
    assert cut.token_ids == whole.token_ids[: len(cut.token_ids)]
    assert cut.finished
    assert not cut.ended_turn


async def test_the_end_of_turn_token_ends_the_completion(policy: TorchPolicy) -> None:
    completions = await sample_all(
        policy.sampler, [ask(1, 2, max_tokens=120, seed=s) for s in range(24)]
    )
    ended = [c for c in completions if c.ended_turn]
    assert ended
    for completion in completions:
        assert completion.ended_turn == (completion.token_ids[-1] == END)
        assert completion.finished == completion.ended_turn
        assert END not in completion.token_ids[:-1]
        assert completion.finished or len(completion.token_ids) == 120


async def test_a_completion_is_never_longer_than_asked_for(policy: TorchPolicy) -> None:
    forms = (ActionForm(name="abcdefgh"), ActionForm(name="abcdefxyz"))
    for limit in (1, 3, 6, 7, 9, 10):
        completion = await policy.sampler.sample(ask(1, actions=forms, max_tokens=limit))
        assert len(completion.token_ids) <= limit
        assert completion.finished == completion.ended_turn == (completion.token_ids[-1] == END)
    only = await policy.sampler.sample(ask(1, actions=forms[:1], max_tokens=4))
    assert only.text == "abcd"
    assert not only.finished


@pytest.mark.parametrize("decode_run", [2, 3, 64])
async def test_a_cancelled_request_gives_its_slots_back(
    policy: TorchPolicy, monkeypatch: pytest.MonkeyPatch, decode_run: int
) -> None:
    monkeypatch.setattr("practicum.engine.sampling.sampling_engine.BURST_STEPS", decode_run)
    undisturbed = await build_engine(policy).sample(ask(3, 2, 3, max_tokens=20, seed=3))
    for patience in range(0, 12):
        engine = build_engine(policy, max_slots=200)
        jobs = [
            asyncio.create_task(engine.sample(ask(i, 2, 3, max_tokens=20, seed=i)))
            for i in range(4)
        ]
        for _ in range(patience):
            await asyncio.sleep(0)
        for job in jobs[:3]:
            job.cancel()
        kept = await jobs[3]
        assert all(isinstance(e, asyncio.CancelledError) for e in await _outcomes(jobs[:3]))
        assert kept.token_ids == undisturbed.token_ids
        assert_no_slot_is_lost(engine)


async def _outcomes(jobs: Sequence[asyncio.Task[Completion]]) -> list[Any]:
    return await asyncio.gather(*jobs, return_exceptions=True)


async def test_the_cache_can_be_dropped_right_after_a_cancellation(policy: TorchPolicy) -> None:
    for patience in range(12):
        engine = build_engine(policy)
        job = asyncio.create_task(engine.sample(ask(1, 2, max_tokens=60)))
        for _ in range(patience):
            await asyncio.sleep(0)
        job.cancel()
        await _outcomes([job])
        engine.forget()
        assert_no_slot_is_lost(engine)


async def test_the_cache_cannot_be_dropped_under_a_completion(policy: TorchPolicy) -> None:
    engine = build_engine(policy)
    job = asyncio.create_task(engine.sample(ask(1, 2, max_tokens=60)))
    await asyncio.sleep(0)
    with pytest.raises(RuntimeError, match="under way"):
        engine.forget()
    await job


async def test_a_request_that_cannot_fit_is_told_so_in_a_sentence(policy: TorchPolicy) -> None:
    engine = build_engine(policy, max_slots=64)
    fits = asyncio.create_task(engine.sample(ask(1, 2, 3)))
    with pytest.raises(
        ContextFull, match=r"is 64 tokens; a prompt of 60 and 8 new ones do not fit"
    ):
        await engine.sample(ask(*range(60)))
    with pytest.raises(ContextFull, match=r"is 4096 tokens; a prompt of 5000 and 8 new"):
        await build_engine(policy).sample(ask(*[1] * 5000))
    assert len((await fits).token_ids) == 8
    with pytest.raises(UserError, match="empty"):
        await engine.sample(ask())
    with pytest.raises(UserError, match="stop text is empty"):
        await engine.sample(ask(1, stop=("",)))


async def test_a_failed_step_leaves_nothing_half_computed_in_the_cache(
    policy: TorchPolicy, stock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = build_engine(policy)
    await engine.sample(ask(1, 2, 3))

    def out_of_memory(*_: Any) -> None:
        raise MemoryError("no memory for this layer")

    monkeypatch.setattr("practicum.engine.decoder.layers.PackedProducts.down", out_of_memory)
    both = [ask(9, 8, 7, 6, seed=1), ask(1, 2, 3, 4, seed=2)]
    outcomes = await asyncio.gather(*map(engine.sample, both), return_exceptions=True)
    monkeypatch.undo()
    assert [type(e) for e in outcomes] == [MemoryError, MemoryError]
    assert_no_slot_is_lost(engine)
    assert_exact(stock, both, await sample_all(engine, both))


def raises(written: str) -> NextCharacters:
    raise KeyError(written)


def leads_nowhere(written: str) -> NextCharacters:
    return NextCharacters(allowed="1" if not written else "", may_end=False)


def is_no_character(written: str) -> NextCharacters:
    return NextCharacters(allowed="\ud800", may_end=True)


@pytest.mark.parametrize("syntax", [raises, leads_nowhere, is_no_character])
async def test_actions_that_fail_fail_their_own_caller_alone(
    policy: TorchPolicy, syntax: Any
) -> None:
    engine = build_engine(policy)
    broken = ask(1, 2, actions=(ActionForm(name="go", argument=syntax), ActionForm(name="gone")))
    mixed = [ask(1, 2, seed=1), ask(3, actions=ACTIONS)]
    failures = 0
    for seed in range(6):
        hurt = SamplingRequest(
            prompt_ids=broken.prompt_ids, params=ask(seed=seed).params, actions=broken.actions
        )
        outcomes = await asyncio.gather(*map(engine.sample, [*mixed, hurt]), return_exceptions=True)
        assert [c.token_ids for c in outcomes[:2]] == [
            c.token_ids for c in await sample_all(build_engine(policy), mixed)
        ]
        failures += isinstance(outcomes[2], EnvironmentFailure)
    assert failures
    assert_no_slot_is_lost(engine)


def spoil(monkeypatch: pytest.MonkeyPatch) -> None:
    """Logits that are no numbers for rows of temperature 1.5, as an overflow gives them."""
    for name in ("draw_rows", "draw_among"):
        genuine = getattr(token_sampler, name)

        def spoiled(logits: Any, *more: Any, genuine: Any = genuine) -> Any:
            params = next(one for one in more if isinstance(one[0], SamplingParams))
            hurt = torch.tensor([one.temperature == 1.5 for one in params])
            return genuine(logits.masked_fill(hurt[:, None], torch.nan), *more)

        monkeypatch.setattr(token_sampler, name, spoiled)


@pytest.mark.parametrize("actions", [(), ACTIONS])
async def test_a_row_whose_logits_are_no_numbers_fails_alone(
    policy: TorchPolicy, monkeypatch: pytest.MonkeyPatch, actions: tuple[ActionForm, ...]
) -> None:
    engine = build_engine(policy)
    others = [ask(1, 2, seed=1), ask(1, 2, 5, seed=2), ask(3, actions=ACTIONS)]
    expected = [one.token_ids for one in await sample_all(build_engine(policy), others)]
    spoil(monkeypatch)
    hurt = ask(1, 2, 4, temperature=1.5, actions=actions)
    *told, failure = await asyncio.gather(
        *map(engine.sample, [*others, hurt]), return_exceptions=True
    )
    assert [one.token_ids for one in told] == expected
    assert isinstance(failure, PracticumError)
    assert "not a number" in str(failure)
    assert_no_slot_is_lost(engine)


@pytest.mark.parametrize(
    ("wrong", "why"), [(ask(1, seed=-1), "the seed is -1"), (ask(1, 10**6), "does not know")]
)
async def test_what_no_step_could_compute_is_refused_before_it_joins_one(
    policy: TorchPolicy, wrong: SamplingRequest, why: str
) -> None:
    engine = build_engine(policy)
    outcomes = await asyncio.gather(
        engine.sample(ask(1, 2, seed=1)), engine.sample(wrong), return_exceptions=True
    )
    assert isinstance(outcomes[0], Completion)
    assert isinstance(outcomes[1], UserError)
    assert why in str(outcomes[1])


async def test_new_weights_are_used_after_forgetting(policy: TorchPolicy) -> None:
    mine = build_policy(seed=3)
    await sample_all(mine.sampler, random_requests(1, count=6))
    perturb(mine.model, seed=9)
    mine.sampler.forget()
    requests = random_requests(1, count=6)
    assert_exact(stock_model(mine), requests, await sample_all(mine.sampler, requests))


def test_one_engine_serves_one_event_loop_after_another(policy: TorchPolicy) -> None:
    engine = build_engine(policy)
    first = asyncio.run(engine.sample(ask(1, 2, 3)))
    assert asyncio.run(engine.sample(ask(1, 2, 3))).token_ids == first.token_ids


def test_an_event_loop_that_ends_early_leaves_a_usable_engine(policy: TorchPolicy) -> None:
    engine = build_engine(policy)

    async def leave() -> None:
        job = asyncio.create_task(engine.sample(ask(1, 2, 3, max_tokens=100)))
        for _ in range(8):
            await asyncio.sleep(0)
        assert not job.done()

    asyncio.run(leave())
    engine.forget()
    assert len(asyncio.run(engine.sample(ask(1, 2, 3))).token_ids) == 8
    assert_no_slot_is_lost(engine)
