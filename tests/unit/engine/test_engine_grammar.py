"""Completions under a grammar: what they say, what is recorded, and what a learner makes of it."""

import asyncio
import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from tests.unit.engine.reference import (
    END,
    ask,
    build_engine,
    build_policy,
    recorded,
    row_logits,
    sample_all,
    stock_model,
    tiny,
)
from tests.unit.engine.sampling.test_engine import assert_no_slot_is_lost
from tests.unit.engine.sampling.test_grammar import FORM
from tests.unit.engine.training_cases import batches_of, span_of

from practicum.core.errors import UserError
from practicum.core.sampling import Completion, SamplingRequest, TokenGrammar
from practicum.core.trace import Node, Trace
from practicum.engine.policy import TorchPolicy
from practicum.engine.sampling import token_sampler as choosing
from practicum.engine.sampling.json_grammar import JsonGrammars

HOW: dict[str, dict[str, Any]] = {
    "plain": {},
    "warm": {"temperature": 1.6},
    "cold, cut": {"temperature": 0.7, "top_k": 3, "top_p": 0.8},
}
every_way = pytest.mark.parametrize("how", HOW.values(), ids=HOW.keys())


@pytest.fixture(scope="module")
def policy() -> TorchPolicy:
    return build_policy()


@pytest.fixture(scope="module")
def grammar() -> TokenGrammar:
    return JsonGrammars(tiny().tokenizer).of(FORM)


def formed(grammar: TokenGrammar, count: int, **params: Any) -> list[SamplingRequest]:
    options = {"max_tokens": 300, **params}
    return [replace(ask(8, 8, i, seed=i, **options), grammar=grammar) for i in range(count)]


def masks_along(grammar: TokenGrammar, completion: Completion) -> list[Any]:
    """What was allowed before each token, by another walk through the same grammar."""
    walk, found = grammar.start(), []
    for token in completion.token_ids:
        mask = np.arange(320) == END if walk.done else walk.allowed()[:320].copy()
        found.append(mask)
        if token != END:
            walk.advance(token)
    return found


@every_way
async def test_a_completion_is_a_value_of_the_schema_and_then_the_end(
    policy: TorchPolicy, grammar: TokenGrammar, how: dict[str, Any]
) -> None:
    engine = build_engine(policy)
    requests = formed(grammar, 6, **how)
    completions = await sample_all(engine, requests)
    for completion in completions:
        value = json.loads(completion.text)
        assert value.keys() == {"answer", "count"}
        assert value["answer"] in ("yes", "no")
        assert value["count"] in range(100)
        assert completion.finished
        assert completion.ended_turn
        assert completion.token_ids[-1] == END
        allowed = [tuple(np.flatnonzero(m)) for m in masks_along(grammar, completion)]
        assert completion.choices == tuple(allowed)
    assert len({c.text for c in completions}) > 1
    assert_no_slot_is_lost(engine)
    again = await sample_all(build_engine(policy), requests)
    assert again == completions


@pytest.fixture(params=[choosing.MOST_CHOICES, 9])
def most_choices(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Up to how many choices are listed: all of the tiny model's, or few."""
    monkeypatch.setattr(choosing, "MOST_CHOICES", request.param)
    return int(request.param)


@every_way
async def test_what_is_recorded_is_a_brute_force_softmax(
    policy: TorchPolicy, grammar: TokenGrammar, how: dict[str, Any], most_choices: int
) -> None:
    stock = stock_model(policy)
    found = set()
    requests = formed(grammar, 3, **how)
    for request, completion in zip(
        requests, await sample_all(policy.sampler, requests), strict=True
    ):
        heat = request.params.temperature
        path, begin = [*request.prompt_ids, *completion.token_ids], len(request.prompt_ids)
        with torch.no_grad():
            logits = row_logits(stock, path).double() / heat
        for i, mask in enumerate(masks_along(grammar, completion)):
            token, scores = completion.token_ids[i], logits[begin + i - 1]
            whole = torch.log_softmax(scores, -1)
            assert mask[token]
            assert completion.loss_mask[i] == (mask.sum() > 1)
            if i and mask.sum() == 1:  # added without asking the model
                assert (completion.logprobs[i], recorded(completion)[i]) == (0.0, 0.0)
                continue
            among = torch.where(torch.from_numpy(mask), scores, float("-inf"))
            inside = float(torch.log_softmax(among, -1)[token])
            listed = mask.sum() <= most_choices
            assert completion.choices[i] == (tuple(np.flatnonzero(mask)) if listed else ())
            before_cut = inside if listed else float(whole[token])
            assert recorded(completion)[i] == pytest.approx(before_cut, abs=2e-5)
            found.add(bool(listed))
            if how.get("top_k"):
                assert token in among.topk(3).indices.tolist()
                assert completion.logprobs[i] >= inside - 2e-5
            else:
                assert completion.logprobs[i] == pytest.approx(inside, abs=2e-5)
    assert found == ({True} if most_choices > 9 else {True, False})


@every_way
@pytest.mark.usefixtures("most_choices")
async def test_the_learner_computes_the_same_log_probabilities(
    policy: TorchPolicy, grammar: TokenGrammar, how: dict[str, Any]
) -> None:
    async def episode(number: int) -> Trace:
        nodes: list[Node] = []
        path: tuple[int, ...] = ()
        for turn in range(2):
            given = tuple(range(20)) if not turn else (100 + turn, 7)
            params = {"max_tokens": 300, "seed": 10 * number + turn, **how}
            request = replace(ask(*path, *given, **params), grammar=grammar)
            completion = await policy.sampler.sample(request)
            path += given + completion.token_ids
            for ids, span in ((given, None), (completion.token_ids, span_of(completion))):
                parent = len(nodes) - 1 if nodes else None
                nodes.append(Node(parent=parent, messages=(), token_ids=ids, sampled=span))
        return Trace(id=f"episode {number}", task_id="t", env="e", nodes=tuple(nodes))

    batches = batches_of(await asyncio.gather(*map(episode, range(3))))
    terms = 0
    for batch, measured in zip(batches, policy.learner.measure(batches, frozenset()), strict=True):
        np.testing.assert_allclose(measured.logprobs, batch.term_old_logprob, rtol=0, atol=1e-4)
        terms += measured.logprobs.size
    assert terms > 30


async def test_rows_with_and_without_a_grammar_do_not_disturb_each_other(
    policy: TorchPolicy, grammar: TokenGrammar
) -> None:
    bound = formed(grammar, 3)
    free = [ask(8, 8, i, seed=i, max_tokens=40) for i in range(3)]
    mixed = [one for pair in zip(bound, free, strict=True) for one in pair]
    together = await sample_all(build_engine(policy), mixed)
    apart = [await build_engine(policy).sample(request) for request in mixed]
    assert [c.token_ids for c in together] == [c.token_ids for c in apart]


async def test_temperature_zero_takes_the_likeliest_allowed_token(
    policy: TorchPolicy, grammar: TokenGrammar
) -> None:
    [request] = formed(grammar, 1, temperature=0.0)
    completion = await policy.sampler.sample(request)
    with torch.no_grad():
        logits = row_logits(stock_model(policy), [*request.prompt_ids, *completion.token_ids])
    for i, mask in enumerate(masks_along(grammar, completion)):
        scores = torch.where(torch.from_numpy(mask), logits[2 + i], float("-inf"))
        assert completion.token_ids[i] == int(scores.argmax())
    assert not any(completion.loss_mask)


async def test_a_value_cut_off_is_not_finished_and_one_that_just_fits_is(
    policy: TorchPolicy,
) -> None:
    grammar = JsonGrammars(tiny().tokenizer).of({"const": "yes"})
    for limit, text in ((3, '"ye'), (5, '"yes"'), (6, '"yes"'), (9, '"yes"')):
        [request] = formed(grammar, 1, max_tokens=limit)
        completion = await policy.sampler.sample(request)
        assert completion.text == text
        assert completion.finished == (limit >= 5)
        assert completion.ended_turn == (limit >= 6)


async def test_stops_listeners_and_likeliest_tokens_go_with_a_grammar(
    policy: TorchPolicy, grammar: TokenGrammar
) -> None:
    [request] = formed(grammar, 1)
    whole = await policy.sampler.sample(request)
    heard: list[int] = []
    stopping = replace(
        request,
        params=replace(request.params, stop=('"count',)),
        on_tokens=heard.extend,
        top_logprobs=2,
    )
    cut = await policy.sampler.sample(stopping)
    assert cut.text == whole.text.split('"count')[0]
    assert (cut.stopped_by, cut.finished, cut.ended_turn) == ('"count', True, False)
    assert tuple(heard) == cut.token_ids == whole.token_ids[: len(heard)]
    # What has no alternative has no other token beside it.
    assert [len(tops) for tops in cut.top_logprobs] == [1 + choice for choice in cut.loss_mask]
    for allowed, tops in zip(cut.choices, cut.top_logprobs, strict=True):
        assert {token for token, _ in tops} <= set(allowed)
    own = [dict(tops).get(token) for token, tops in zip(heard, cut.top_logprobs, strict=True)]
    assert any(cut.loss_mask[i] for i, value in enumerate(own) if value is not None)
    for value, logprob in zip(own, recorded(cut), strict=True):
        assert value is None or value == pytest.approx(logprob, abs=1e-5)


@pytest.mark.parametrize("count", [1, 5])
async def test_what_has_no_alternative_costs_no_step(
    policy: TorchPolicy, grammar: TokenGrammar, count: int
) -> None:
    engine = build_engine(policy)
    completions = await sample_all(engine, formed(grammar, count))
    choices = [sum(c.loss_mask) for c in completions]
    # The first token is drawn whatever the grammar says, so that the prompt is computed.
    assert max(choices) <= engine.passes <= 1 + sum(choices)
    assert engine.passes < min(len(c.token_ids) for c in completions) or count > 1
    assert_no_slot_is_lost(engine)


async def test_a_completion_begun_before_an_update_goes_on_in_its_form(
    policy: TorchPolicy, grammar: TokenGrammar
) -> None:
    versions, heard = ["0"], list[int]()
    engine = build_engine(policy, fingerprint=lambda: versions[-1])
    [request] = formed(grammar, 1)
    job = asyncio.create_task(engine.sample(replace(request, on_tokens=heard.extend)))
    for count in (3, 8, 13):
        while len(heard) < count:
            await asyncio.sleep(0)
        versions.append(str(count))
    completion = await job
    assert tuple(heard) == completion.token_ids
    undisturbed = await build_engine(policy).sample(request)
    assert completion.token_ids == undisturbed.token_ids
    assert_no_slot_is_lost(engine)


class Broken:
    """A grammar that allows `x` and falls apart in one of several ways after a few of them."""

    def __init__(self, how: str) -> None:
        self.how, self.left, self.done = how, 3, False

    def start(self) -> "Broken":
        return Broken(self.how)

    def allowed(self) -> Any:
        if not self.left and self.how == "mask":
            raise RuntimeError("no mask")
        return np.arange(400) == (ord("x") if self.left or self.how == "step" else 390)

    def advance(self, token: int) -> None:
        self.left -= 1
        if self.left < 0:
            raise RuntimeError("no step")


@pytest.mark.parametrize(
    ("how", "error"), [("mask", RuntimeError), ("step", RuntimeError), ("nothing", UserError)]
)
async def test_a_grammar_that_fails_fails_its_own_caller_alone(
    policy: TorchPolicy, grammar: TokenGrammar, how: str, error: type[Exception]
) -> None:
    engine = build_engine(policy)
    others = [ask(1, 2, seed=1, max_tokens=20), *formed(grammar, 1)]
    broken = replace(ask(4, 4, max_tokens=20), grammar=Broken(how))
    outcomes = await asyncio.gather(*map(engine.sample, [broken, *others]), return_exceptions=True)
    assert isinstance(outcomes[0], error)
    expected = await sample_all(build_engine(policy), others)
    assert [c.token_ids for c in outcomes[1:]] == [c.token_ids for c in expected]
    assert_no_slot_is_lost(engine)
