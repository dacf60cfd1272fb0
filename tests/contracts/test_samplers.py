"""What every sampler promises, whatever stands behind it."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial

import pytest
from tests.unit.samplers.remote_policies import remote_policy
from tests.unit.samplers.replica_servers import replica_app, served, tiny_base
from tests.unit.samplers.vllm_stub import VllmStub

from practicum.core.capabilities import context_length
from practicum.core.errors import ContextFull
from practicum.core.interfaces import Sampler
from practicum.core.sampling import ActionForm, Completion, SamplingParams, SamplingRequest
from practicum.engine.policy import load_adapted_sampler, load_for_policy
from practicum.engine.sampling.scripted_sampler import ScriptedSampler

ACTIONS = (ActionForm(name="add"), ActionForm(name="subtract"), ActionForm(name="simplify"))


def build_torch() -> Sampler:
    return load_adapted_sampler(load_for_policy("tiny", "float32", "cpu"), None)


def build_scripted() -> Sampler:
    return ScriptedSampler(
        lambda request: (
            request.actions[request.params.seed % 3].name if request.actions else "hello"
        )
    )


@contextmanager
def in_this_process(build: Callable[[], Sampler]) -> Iterator[Sampler]:
    yield build()


@contextmanager
def on_replicas() -> Iterator[Sampler]:
    base = tiny_base()
    with (
        served(lambda: replica_app(base), lambda: replica_app(base)) as apps,
        remote_policy("practicum", [app.url for app in apps]) as policy,
    ):
        yield policy.sampler


@contextmanager
def on_vllm() -> Iterator[Sampler]:
    stub = VllmStub()
    with served(stub.app) as [app], remote_policy("vllm", [app.url]) as policy:
        yield policy.sampler


SAMPLERS: dict[str, Callable[[], AbstractContextManager[Sampler]]] = {
    "torch": partial(in_this_process, build_torch),
    "scripted": partial(in_this_process, build_scripted),
    "practicum": on_replicas,
    "vllm": on_vllm,
}


@pytest.fixture(params=SAMPLERS.values(), ids=SAMPLERS.keys(), scope="module")
def sampler(request: pytest.FixtureRequest) -> Iterator[Sampler]:
    with request.param() as opened:
        opened.forget()
        yield opened


def make_requests(count: int = 6) -> list[SamplingRequest]:
    """Free and constrained in turn, some prompts shared."""
    return [
        SamplingRequest(
            prompt_ids=(1, 2, 3, i // 2),
            params=SamplingParams(seed=i, max_tokens=12, temperature=(1.0, 0.7, 0.0)[i % 3]),
            actions=ACTIONS if i % 2 else (),
        )
        for i in range(count)
    ]


async def sample_all(sampler: Sampler, requests: list[SamplingRequest]) -> list[Completion]:
    return list(await asyncio.gather(*(sampler.sample(r) for r in requests)))


async def test_parallel_fields_have_one_entry_a_token(sampler: Sampler) -> None:
    for completion in await sample_all(sampler, make_requests()):
        n = len(completion.token_ids)
        assert n > 0
        assert len(completion.logprobs) == len(completion.loss_mask) == n
        assert len(completion.log_kept) in (0, n)
        assert len(completion.choices) in (0, n)
        assert all(p <= 1e-9 for p in completion.logprobs)


async def test_a_forced_token_has_log_probability_0_and_no_loss(sampler: Sampler) -> None:
    for completion in await sample_all(sampler, make_requests()):
        for i, allowed in enumerate(completion.choices):
            assert not allowed or completion.token_ids[i] in allowed
            if len(allowed) == 1:
                assert completion.logprobs[i] == 0.0
                assert not completion.loss_mask[i]


async def test_completions_answer_their_own_request(sampler: Sampler) -> None:
    requests = make_requests()
    for request, completion in zip(requests, await sample_all(sampler, requests), strict=True):
        assert completion.temperature == request.params.temperature
        assert completion.fingerprint == sampler.fingerprint()
        if request.actions:
            assert completion.text in {form.name for form in ACTIONS}
            assert completion.finished
            assert completion.ended_turn


async def test_together_or_alone_the_answer_is_the_same(sampler: Sampler) -> None:
    requests = make_requests()
    together = await sample_all(sampler, requests)
    alone = [await sampler.sample(request) for request in requests]
    assert [c.token_ids for c in together] == [c.token_ids for c in alone]


async def test_forgetting_changes_no_answer(sampler: Sampler) -> None:
    requests = make_requests()
    before = await sample_all(sampler, requests)
    sampler.forget()
    after = await sample_all(sampler, requests)
    # Over a network they arrive in other batches, and then the last digits differ.
    assert [(c.token_ids, c.text) for c in after] == [(c.token_ids, c.text) for c in before]
    for one, other in zip(after, before, strict=True):
        assert one.logprobs == pytest.approx(other.logprobs, abs=1e-5)


async def test_a_caller_who_leaves_does_not_disturb_the_others(sampler: Sampler) -> None:
    requests = make_requests()
    expected = await sample_all(sampler, requests)
    sampler.forget()
    jobs = [asyncio.create_task(sampler.sample(r)) for r in requests]
    await asyncio.sleep(0)
    jobs[0].cancel()
    found = await asyncio.gather(*jobs[1:])
    assert [c.token_ids for c in found] == [c.token_ids for c in expected[1:]]
    await asyncio.gather(jobs[0], return_exceptions=True)


async def test_what_a_model_says_it_reads_is_what_it_reads() -> None:
    sampler = build_torch()
    most = context_length(sampler)
    assert most > 0
    params = SamplingParams(seed=1, max_tokens=1)
    whole = SamplingRequest(prompt_ids=(5,) * (most - 1), params=params)
    assert len((await sampler.sample(whole)).token_ids) == 1
    with pytest.raises(ContextFull):
        await sampler.sample(SamplingRequest(prompt_ids=(5,) * most, params=params))
