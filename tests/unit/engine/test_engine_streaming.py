"""Listeners, stop texts, likeliest tokens and clients that go away, on the engine as a whole."""

import asyncio
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from tests.unit.engine.reference import (
    ACTIONS,
    ask,
    build_engine,
    build_policy,
    random_requests,
    recorded,
    row_logits,
    sample_all,
    stock_model,
)
from tests.unit.engine.sampling.test_engine import assert_no_slot_is_lost

from practicum.core.errors import UserError
from practicum.core.sampling import ActionForm, SamplingRequest
from practicum.engine.policy import TorchPolicy
from practicum.engine.sampling.completions import PendingCompletion
from practicum.engine.sampling.decode_run import LIVE_TOKENS, DeviceDraws
from practicum.engine.sampling.draw import RandomStream


@pytest.fixture(scope="module")
def policy() -> TorchPolicy:
    return build_policy()


class Listener:
    """Keeps what it is told, and where."""

    def __init__(self) -> None:
        self.pieces: list[tuple[int, ...]] = []
        self.threads: set[int] = set()

    def __call__(self, tokens: tuple[int, ...]) -> None:
        self.pieces.append(tokens)
        self.threads.add(threading.get_ident())

    @property
    def heard(self) -> tuple[int, ...]:
        return tuple(token for piece in self.pieces for token in piece)


@pytest.mark.parametrize("seed", range(3))
async def test_listeners_hear_every_token_once_and_change_nothing(
    policy: TorchPolicy, seed: int
) -> None:
    requests = [*random_requests(seed, count=8), ask(1, actions=(ActionForm(name="only"),))]
    quiet = await sample_all(build_engine(policy), requests)
    listeners = [Listener() for _ in requests]
    listened = [replace(r, on_tokens=one) for r, one in zip(requests, listeners, strict=True)]
    assert await sample_all(build_engine(policy), listened) == quiet
    assert [one.heard for one in listeners] == [c.token_ids for c in quiet]
    assert {t for one in listeners for t in one.threads} == {threading.get_ident()}


async def test_tokens_are_counted_also_of_who_went_away(policy: TorchPolicy) -> None:
    engine = build_engine(policy)
    requests = [*random_requests(3, count=6), ask(1, actions=(ActionForm(name="only"),))]
    counts = [0] * len(requests)

    def counted(number: int) -> SamplingRequest:
        def count(tokens: int) -> None:
            counts[number] += tokens

        return replace(requests[number], on_sampled=count)

    found = await sample_all(engine, [counted(number) for number in range(len(requests))])
    assert counts == [len(completion.token_ids) for completion in found]
    requests[0], listener = ask(1, 2, max_tokens=400), Listener()
    counts[0] = 0
    job = asyncio.create_task(engine.sample(replace(counted(0), on_tokens=listener)))
    while len(listener.heard) < 12:
        await asyncio.sleep(0)
    job.cancel()
    await sample_all(engine, [ask(3)])
    assert 12 <= len(listener.heard) <= counts[0] < 400


async def test_tokens_come_while_they_are_sampled(policy: TorchPolicy) -> None:
    engine, listener = build_engine(policy), Listener()
    job = asyncio.create_task(engine.sample(replace(ask(1, 2, max_tokens=40), on_tokens=listener)))
    while len(listener.heard) < 12:
        await asyncio.sleep(0)
    assert not job.done()
    completion = await job
    assert listener.heard == completion.token_ids
    assert max(map(len, listener.pieces)) <= LIVE_TOKENS


async def test_rows_that_are_put_back_are_not_told_twice(policy: TorchPolicy) -> None:
    requests = [ask(i, 7, 7, max_tokens=30, seed=i) for i in range(6)]
    listeners = [Listener() for _ in requests]
    small = build_engine(policy, max_slots=40)
    completions = await sample_all(
        small, [replace(r, on_tokens=one) for r, one in zip(requests, listeners, strict=True)]
    )
    assert small.computed_tokens > sum(3 + len(c.token_ids) for c in completions)
    assert [one.heard for one in listeners] == [c.token_ids for c in completions]


@pytest.mark.parametrize("patience", [1, 2, 5, 9])
async def test_a_listener_that_fails_ends_its_own_request_alone(
    policy: TorchPolicy, patience: int
) -> None:
    heard: list[int] = []

    def fails(tokens: tuple[int, ...]) -> None:
        heard.extend(tokens)
        if len(heard) >= patience:
            raise KeyError("gone")

    engine = build_engine(policy)
    others = [ask(3, i, max_tokens=20, seed=i) for i in range(3)]
    outcomes = await asyncio.gather(
        engine.sample(replace(ask(3, 9, max_tokens=20), on_tokens=fails)),
        *map(engine.sample, others),
        return_exceptions=True,
    )
    assert isinstance(outcomes[0], KeyError)
    assert len(heard) == patience
    undisturbed = await sample_all(build_engine(policy), others)
    assert [c.token_ids for c in outcomes[1:]] == [c.token_ids for c in undisturbed]
    assert_no_slot_is_lost(engine)


async def test_a_hundred_clients_that_go_away_leave_no_slot_taken(policy: TorchPolicy) -> None:
    engine = build_engine(policy, max_slots=4096)
    stays = Listener()
    kept = asyncio.create_task(
        engine.sample(replace(ask(1, 2, 3, max_tokens=60, seed=5), on_tokens=stays))
    )
    jobs: list[asyncio.Task[Any]] = []
    heard = [0] * 100

    def leave_after(number: int) -> Callable[[tuple[int, ...]], None]:
        def listen(tokens: tuple[int, ...]) -> None:
            heard[number] += len(tokens)
            if heard[number] >= number % 7:
                jobs[number].cancel()

        return listen

    for number in range(100):
        request = ask(1, 2, number, max_tokens=200, seed=number)
        jobs.append(
            asyncio.create_task(engine.sample(replace(request, on_tokens=leave_after(number))))
        )
    outcomes = await asyncio.gather(*jobs, return_exceptions=True)
    gone = [isinstance(outcome, asyncio.CancelledError) for outcome in outcomes]
    assert sum(gone) > 95  # a few may end by themselves before they are cancelled
    assert max(heard) <= 7
    completion = await kept
    assert stays.heard == completion.token_ids
    alone = await build_engine(policy).sample(ask(1, 2, 3, max_tokens=60, seed=5))
    assert completion.token_ids == alone.token_ids
    assert not engine._active
    assert not engine._waiting
    assert_no_slot_is_lost(engine)
    engine.forget()


async def test_five_turns_of_a_rollout_compute_only_new_tokens(policy: TorchPolicy) -> None:
    """Beside another rollout that goes on, and with a listener, as over a gateway."""
    engine = build_engine(policy)
    path: tuple[int, ...] = tuple(range(50))
    for turn in range(5):
        before, listener = engine.computed_tokens, Listener()
        completion = await engine.sample(
            replace(ask(*path, max_tokens=6, seed=turn), on_tokens=listener)
        )
        new = len(path) - completion.cached_tokens
        assert new == (50 if not turn else 4)  # what was given, and the last token of before
        assert engine.computed_tokens - before == new + len(completion.token_ids) - 1
        path += (*completion.token_ids, 60 + turn, 61, 62)


class StubBurst:
    """A device's decode_run that draws nothing but keeps the random numbers it is given."""

    at_once = 32

    def __init__(self) -> None:
        self.given: list[Any] = []

    def begin(self, tokens: Any, temperature: Any) -> None:
        pass

    def advance(self, uniforms: Any) -> tuple[Any, Any]:
        self.given.append(uniforms)
        shape = uniforms.T.shape
        return np.zeros(shape, np.int64), np.zeros(shape)


def test_a_device_draws_in_short_pieces_while_somebody_listens() -> None:
    def given(
        listener: Callable[[tuple[int, ...]], None] | None, usual: float = 100.0
    ) -> list[Any]:
        rows: list[PendingCompletion] = [
            PendingCompletion(
                request=replace(ask(1, seed=seed), on_tokens=listener if seed else None),
                future=None,  # type: ignore[arg-type]
                stream=RandomStream(seed),
                walk=None,
                tokens=[1],
            )
            for seed in range(2)
        ]
        decode_run = StubBurst()
        draws, left = DeviceDraws(decode_run, rows, usual), 40
        while left:
            left -= draws.advance(rows, left).tokens.shape[1]
        return decode_run.given

    quiet, live = given(None), given(Listener())
    assert [len(piece) for piece in quiet] == [32, 8]
    assert [len(piece) for piece in given(None, usual=6.3)] == [6] * 6 + [4]
    assert [len(piece) for piece in given(None, usual=1.0)] == [4] * 10
    assert [len(piece) for piece in live] == [8, 8, 8, 8, 8]
    np.testing.assert_array_equal(np.concatenate(quiet), np.concatenate(live))


def expected_stop(texts: list[str], stops: tuple[str, ...]) -> tuple[int, str, str]:
    """After which token the text has a stop, which one comes first, and the text before it."""
    for number, text in enumerate(texts):
        found = [(text.index(stop), i, stop) for i, stop in enumerate(stops) if stop in text]
        if found:
            at, _, stop = min(found)
            return number + 1, stop, text[:at]
    return len(texts), "", texts[-1]


@pytest.mark.parametrize("seed", range(8))
async def test_stop_texts_across_tokens_end_the_completion(policy: TorchPolicy, seed: int) -> None:
    chance, codec = np.random.default_rng(seed), policy.codec
    request = ask(9, 9, max_tokens=60, seed=seed)
    whole = await build_engine(policy).sample(request)
    ids = whole.token_ids[:-1] if whole.ended_turn else whole.token_ids
    texts = [codec.decode(ids[: i + 1]) for i in range(len(ids))]
    stops = []
    for _ in range(3):
        at = int(chance.integers(0, max(len(whole.text) - 5, 1)))
        stops.append(whole.text[at : at + int(chance.integers(1, 6))] or "none")
    stopping = replace(request, params=replace(request.params, stop=tuple(stops)))
    cut = await build_engine(policy).sample(stopping)
    count, stop, text = expected_stop(texts, tuple(stops))
    assert stop
    assert cut.token_ids == whole.token_ids[:count]
    assert (cut.stopped_by, cut.text) == (stop, text)
    assert cut.finished
    assert not cut.ended_turn


async def test_without_its_stop_text_a_completion_is_stopped_by_nothing(
    policy: TorchPolicy,
) -> None:
    completions = await sample_all(
        policy.sampler, [ask(1, s, max_tokens=50, seed=s, stop=("never that",)) for s in range(5)]
    )
    assert {c.stopped_by for c in completions} == {""}
    assert [c.finished for c in completions] == [c.ended_turn for c in completions]


@pytest.mark.parametrize("temperature", [0.0, 0.7, 1.4])
async def test_the_likeliest_tokens_are_the_stock_models(
    policy: TorchPolicy, temperature: float
) -> None:
    request = ask(5, 6, 7, temperature=temperature, top_p=0.9, max_tokens=12)
    stock, plain = stock_model(policy), ask(5, 6, max_tokens=20, seed=4)
    completion, beside = await sample_all(
        build_engine(policy), [replace(request, top_logprobs=4), plain]
    )
    unasked = await sample_all(build_engine(policy), [request, plain])
    assert [replace(completion, top_logprobs=()), beside] == unasked
    with torch.no_grad():
        logits = row_logits(stock, [*request.prompt_ids, *completion.token_ids])[2:-1].double()
    expected = torch.log_softmax(logits / (temperature or 1.0), -1).topk(4)
    assert [[t for t, _ in tops] for tops in completion.top_logprobs] == expected.indices.tolist()
    values = [[value for _, value in tops] for tops in completion.top_logprobs]
    np.testing.assert_allclose(values, expected.values, rtol=0, atol=1e-5)
    if temperature:
        for token, tops, own in zip(
            completion.token_ids, completion.top_logprobs, recorded(completion), strict=True
        ):
            assert dict(tops).get(token, own) == pytest.approx(own, abs=1e-5)


async def test_among_actions_the_likeliest_are_actions(policy: TorchPolicy) -> None:
    request = ask(4, actions=ACTIONS, max_tokens=20, top_p=0.8, seed=2)
    completion = await policy.sampler.sample(replace(request, top_logprobs=20))
    own = recorded(completion)
    for i, (allowed, tops) in enumerate(
        zip(completion.choices, completion.top_logprobs, strict=True)
    ):
        assert sorted(token for token, _ in tops) == list(allowed)
        assert sum(np.exp(value) for _, value in tops) == pytest.approx(1.0, abs=1e-6)
        assert dict(tops)[completion.token_ids[i]] == pytest.approx(own[i], abs=1e-5)


async def test_requests_that_make_no_sense_are_refused(policy: TorchPolicy) -> None:
    with pytest.raises(UserError, match="top_logprobs is -1"):
        await policy.sampler.sample(replace(ask(1), top_logprobs=-1))
    both = SamplingRequest(
        prompt_ids=(1,),
        params=ask().params,
        actions=ACTIONS,
        grammar=object(),  # type: ignore[arg-type]
    )
    with pytest.raises(UserError, match="actions or a grammar"):
        await policy.sampler.sample(both)
