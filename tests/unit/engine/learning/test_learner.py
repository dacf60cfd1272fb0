import asyncio
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.unit.engine.reference import (
    build_fresh_policy,
    build_policy,
    perturb,
    random_requests,
    recorded,
    row_logprobs,
    sample_all,
    stock_model,
)
from tests.unit.engine.training_cases import (
    WatchedGrpo,
    batches_of,
    every_way,
    plain_gradients,
    plain_loss,
    play,
    relative_error,
    row_log_distributions,
    row_logprob,
    sampled_batches,
    samples_of,
)

from practicum.core.config.config_sections import LoraConfig
from practicum.core.errors import PolicyMismatch
from practicum.core.interfaces import Need
from practicum.core.loss import LossReport, LossTerms
from practicum.core.sample import Batch, Sample
from practicum.engine.learning.learner import LearnerSettings
from practicum.engine.models.lora import trainable
from practicum.engine.policy import TorchPolicy
from practicum.training.algorithms.grpo import Grpo
from practicum.training.prefix_tree import build_batches

SAME_GRADIENT = 1e-5
DROPOUT = LoraConfig.model_validate({"preset": "attention"})


def saved(policy: TorchPolicy, folder: Path) -> dict[str, bytes]:
    """Everything a checkpoint keeps of a learner, as bytes."""
    folder.mkdir(exist_ok=True)
    policy.learner.save(folder)
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir())}


def weights(policy: TorchPolicy) -> list[torch.Tensor]:
    return [parameter.detach().clone() for _, parameter in trainable(policy.model)]


def drifted(samples: Sequence[Sample]) -> list[Sample]:
    """As if sampled a little earlier: ratios leave 1, and some are clipped."""
    return [
        replace(
            s,
            old_logprobs=np.float32(s.old_logprobs + 0.3 * np.sin(np.arange(s.token_ids.size))),
        )
        for s in samples
    ]


@every_way
@pytest.mark.parametrize(("kl", "budget_tokens"), [(0.0, 10_000), (0.1, 70)])
async def test_loss_and_gradients_are_those_of_plain_rows(
    how: dict[str, Any], kl: float, budget_tokens: int
) -> None:
    policy = build_policy(max_logprob_gap=1.0)
    samples = drifted(samples_of(await play(policy, **how)))
    batches = build_batches(samples, budget_tokens)
    assert (len(batches) > 1) == (budget_tokens == 70)
    stock = stock_model(policy)
    loss = plain_loss(stock, samples, clip=0.2, kl=kl)
    algorithm = WatchedGrpo(model=policy.model, inner=Grpo(clip=0.2, kl=kl))
    report = policy.learner.update(batches, algorithm)
    expected = plain_gradients(stock, loss)
    assert report.loss == pytest.approx(loss.item(), abs=2e-6)
    assert report.clip_share > 0
    assert relative_error(algorithm.gradients, expected) <= SAME_GRADIENT
    norm = math.sqrt(sum(float(g.square().sum()) for g in expected.values()))
    assert report.grad_norm == pytest.approx(norm, rel=1e-4)


async def test_tokens_that_samples_share_are_computed_once_and_count_for_each() -> None:
    policy = build_policy()
    samples = samples_of(await play(policy, episodes=2))
    doubled = [*samples, *(replace(s, trace_id=f"{s.trace_id} again") for s in samples)]
    once = WatchedGrpo(model=policy.model, inner=Grpo())
    twice = WatchedGrpo(model=(other := build_policy()).model, inner=Grpo())
    one = policy.learner.update(build_batches(samples, 10_000), once)
    two = other.learner.update(build_batches(doubled, 10_000), twice)
    assert two.tokens == one.tokens < one.row_tokens == two.row_tokens // 2
    assert two.loss == pytest.approx(2 * one.loss, abs=5e-7)
    halved = {name: gradient / 2 for name, gradient in twice.gradients.items()}
    assert relative_error(halved, once.gradients) <= SAME_GRADIENT


@every_way
def test_right_after_sampling_the_learner_agrees_with_the_sampler(how: dict[str, Any]) -> None:
    policy = build_policy()
    for step in range(2):
        report = policy.learner.update(sampled_batches(policy, 70, **how), Grpo())
        assert report.largest_gap <= 3e-5, step  # the sampler adds weights, the learner products
        assert report.applied
        assert report.clip_share == 0.0


def test_the_next_token_comes_from_the_updated_weights() -> None:
    policy = build_policy(lr=0.05)
    before = weights(policy)
    report = policy.learner.update(sampled_batches(policy), Grpo())
    assert not any(torch.equal(a, b) for a, b in zip(before, weights(policy), strict=True))
    requests = random_requests(5, count=6)
    completions = asyncio.run(sample_all(policy.sampler, requests))
    stock = stock_model(policy)
    for request, completion in zip(requests, completions, strict=True):
        assert completion.fingerprint == report.fingerprint == policy.learner.fingerprint()
        expected = row_logprobs(stock, request, completion)
        np.testing.assert_allclose(recorded(completion), expected, rtol=0, atol=2e-5)


def raise_one_logprob(batches: list[Batch]) -> list[Batch]:
    shifted = batches[0].term_old_logprob.copy()
    shifted[-1] += 2e-3
    return [replace(batches[0], term_old_logprob=shifted), *batches[1:]]


def lose_one_logprob(batches: list[Batch]) -> list[Batch]:
    lost = batches[-1].term_old_logprob.copy()
    lost[0] = np.nan
    return [*batches[:-1], replace(batches[-1], term_old_logprob=lost)]


@pytest.mark.parametrize("lora", [None, DROPOUT], ids=["plain", "dropout"])
@pytest.mark.parametrize("fault", ["other weights", raise_one_logprob, lose_one_logprob])
def test_tokens_of_another_policy_stop_the_update_and_touch_nothing(
    tmp_path: Path, lora: LoraConfig | None, fault: Any
) -> None:
    policy = build_policy(lora) if lora else build_policy()
    policy.learner.update(sampled_batches(policy), Grpo())  # so that there are moments to lose
    batches = sampled_batches(policy, 70)
    if callable(fault):
        batches = fault(batches)
    else:
        perturb(policy.model, seed=3, size=0.01)
    before = saved(policy, tmp_path)
    with pytest.raises(PolicyMismatch, match="nothing was updated"):
        policy.learner.update(batches, Grpo())
    after = saved(policy, tmp_path)
    if lora:  # dropout may have been drawn
        del before["random.safetensors"], after["random.safetensors"]
    assert after == before
    assert all(parameter.grad is None for _, parameter in trainable(policy.model))


@dataclass(frozen=True)
class Spoiled:
    """GRPO whose loss is spoiled after it was computed."""

    spoil: Callable[[LossTerms, torch.Tensor], torch.Tensor]
    epochs: int = 1
    loss_needs: frozenset[Need] = frozenset()
    by_sequence: bool = False
    from_policy: bool = True

    def loss(self, terms: LossTerms) -> LossReport:
        report = Grpo().loss(terms)
        return replace(report, loss=self.spoil(terms, report.loss))


def infinite_gradient(terms: LossTerms, loss: torch.Tensor) -> torch.Tensor:
    """Adds the square root of 0, which is 0 and infinitely steep."""
    return loss + (terms.logprobs - terms.logprobs.detach()).sqrt().sum()


@pytest.mark.parametrize(
    ("spoil", "loss_is_finite"),
    [
        (lambda terms, loss: loss * float("nan"), False),
        (lambda terms, loss: loss + float("inf"), False),
        (infinite_gradient, True),
    ],
    ids=["nan loss", "infinite loss", "infinite gradient"],
)
def test_what_is_not_finite_never_reaches_the_weights(
    tmp_path: Path, spoil: Any, loss_is_finite: bool
) -> None:
    policy = build_policy()
    policy.learner.update(sampled_batches(policy), Grpo())
    before, fingerprint = saved(policy, tmp_path), policy.learner.fingerprint()
    report = policy.learner.update(sampled_batches(policy), Spoiled(spoil))
    assert not report.applied
    assert math.isfinite(report.loss) == loss_is_finite
    assert report.fingerprint == fingerprint
    assert saved(policy, tmp_path) == before
    assert policy.learner.update(sampled_batches(policy), Grpo()).applied


def test_advantages_that_are_no_numbers_are_not_applied(tmp_path: Path) -> None:
    policy = build_policy()
    before = saved(policy, tmp_path)
    batches = sampled_batches(policy)
    spoiled = replace(batches[0], term_advantage=batches[0].term_advantage * np.nan)
    assert not policy.learner.update([spoiled], Grpo()).applied
    assert saved(policy, tmp_path) == before


def test_a_fresh_adapter_is_at_no_distance_from_the_base() -> None:
    policy = build_fresh_policy()
    assert policy.learner.update(sampled_batches(policy), Grpo()).kl_to_base == 0.0


@every_way
async def test_distance_to_the_base_and_entropy_are_those_of_plain_rows(
    how: dict[str, Any],
) -> None:
    policy = build_policy()
    samples = samples_of(await play(policy, **how))
    stock = stock_model(policy)
    distance = entropy = weight = 0.0
    with torch.no_grad():
        for s in samples:
            mine = row_logprob(stock, s)
            spread = -sum((p.exp() * p).nansum() for p in row_log_distributions(stock, s))
            with stock.disable_adapter():
                d = row_logprob(stock, s) - mine
            distance += s.weight * float((d.exp() - d - 1).sum())
            entropy += s.weight * float(spread)
            weight += s.weight * len(mine)
    report = policy.learner.update(build_batches(samples, 10_000), Grpo())
    assert distance / weight > 0.01
    assert report.kl_to_base == pytest.approx(distance / weight, rel=1e-4)
    assert report.entropy == pytest.approx(entropy / weight, rel=1e-5)


def test_with_a_penalty_every_batch_is_compared_with_the_base() -> None:
    whole, parts = build_policy(), build_policy()
    one = whole.learner.update(sampled_batches(whole), Grpo(kl=0.1))
    many = parts.learner.update(sampled_batches(parts, 70), Grpo(kl=0.1))
    assert many.kl_to_base == pytest.approx(one.kl_to_base, rel=1e-5)
    assert many.loss == pytest.approx(one.loss, abs=1e-6)


def test_dropout_is_on_while_learning_and_off_while_checking_and_sampling() -> None:
    policy = build_policy(DROPOUT)
    batches = sampled_batches(policy)
    dropping = WatchedGrpo(model=policy.model, inner=Grpo())
    report = policy.learner.update(batches, dropping)
    assert report.applied
    assert report.largest_gap <= 2e-5
    without = build_policy(DROPOUT.model_copy(update={"dropout": 0.0}))
    plain = WatchedGrpo(model=without.model, inner=Grpo())
    without.learner.update(batches, plain)
    assert relative_error(dropping.gradients, plain.gradients) > 0.01
    assert not policy.model.training
    assert policy.learner.update(sampled_batches(policy), Grpo()).largest_gap <= 2e-5


def test_dropout_draws_the_same_in_every_policy_of_a_seed() -> None:
    prints = []
    for _ in range(2):
        policy = build_policy(DROPOUT)
        policy.learner.update(sampled_batches(policy), Grpo())
        prints.append(policy.learner.fingerprint())
    assert prints[0] == prints[1]


def test_two_epochs_are_two_updates_from_the_same_episodes() -> None:
    at_once, by_hand = build_policy(), build_policy(max_logprob_gap=10.0)
    batches = sampled_batches(at_once, 70)
    both = at_once.learner.update(batches, Grpo(epochs=2))
    first = by_hand.learner.update(batches, Grpo())
    second = by_hand.learner.update(batches, Grpo())
    assert first.fingerprint != second.fingerprint == both.fingerprint
    assert both.loss == pytest.approx((first.loss + second.loss) / 2, abs=1e-7)
    assert both.logprob_gap == first.logprob_gap <= 2e-5 < second.logprob_gap
    assert both.grad_norm == second.grad_norm
    assert both.tokens == first.tokens


@pytest.mark.parametrize("lora", [None, DROPOUT], ids=["plain", "dropout"])
def test_a_learner_goes_on_from_its_files_bit_for_bit(
    tmp_path: Path, lora: LoraConfig | None
) -> None:
    policy = build_policy(lora) if lora else build_policy()
    for _ in range(2):
        policy.learner.update(sampled_batches(policy), Grpo())
    files = saved(policy, tmp_path / "a")
    assert {"adapter_model.safetensors", "optimizer.safetensors"} <= files.keys()
    other = build_policy(lora, seed=9) if lora else build_policy(seed=9)
    sampled_batches(other)  # leaves a cache that must not outlive the load
    other.learner.load(tmp_path / "a")
    assert other.learner.fingerprint() == other.sampler.fingerprint()
    assert other.learner.fingerprint() == policy.learner.fingerprint()
    assert saved(other, tmp_path / "b") == files
    random_state = torch.get_rng_state()
    reports = []
    for one in (policy, other):
        torch.set_rng_state(random_state)
        reports.append(one.learner.update(sampled_batches(one), Grpo()))
    assert reports[0] == reports[1]
    assert saved(other, tmp_path / "b") == saved(policy, tmp_path / "a")


def test_learning_raises_what_was_rewarded() -> None:
    policy = build_policy(lr=3e-3)
    traces = asyncio.run(play(policy, turns=1))
    samples = [replace(s, advantages=np.abs(s.advantages)) for s in samples_of(traces)]
    before = plain_loss(stock_model(policy), samples, clip=1e9, kl=0.0).item()
    policy.learner.update(build_batches(samples, 10_000), Grpo())
    after = plain_loss(stock_model(policy), samples, clip=1e9, kl=0.0).item()
    assert after < before


def test_retuned_a_learner_is_one_that_was_built_so() -> None:
    retuned, built = build_policy(lr=0.1, weight_decay=0.5), build_policy(lr=1e-3)
    batches = sampled_batches(built)
    retuned.learner.update(batches, Grpo())  # leaves moments that must not count any more
    for (_, mine), (_, other) in zip(trainable(retuned.model), trainable(built.model), strict=True):
        mine.data.copy_(other.data)
    retuned.learner.retune(LearnerSettings(lr=1e-3))
    assert retuned.learner.update(batches, Grpo()) == built.learner.update(batches, Grpo())


def test_episodes_without_a_decision_make_no_batches() -> None:
    policy = build_policy()
    assert batches_of(asyncio.run(play(policy, temperature=0.0))) == []
