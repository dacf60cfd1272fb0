"""The distance between sampler and learner: what is measured, and what stops an update."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from tests.unit.engine.reference import FULL, build_policy
from tests.unit.engine.training_cases import sampled_batches

from practicum.core.errors import PolicyMismatch
from practicum.core.sample import Batch
from practicum.engine.decoder.head import Predictions
from practicum.engine.learning.learner import LearnerSettings
from practicum.engine.learning.micro_batches import BatchTensors, Gap, measure_gap
from practicum.engine.policy import TorchPolicy, load_for_policy
from practicum.training.algorithms.grpo import Grpo

SPREAD = 3e-5
"""What rounding leaves in a model of hundreds of millions of weights, root mean square."""


def gap_between(learner: list[float], sampler: list[float], checked: Any = None) -> Gap:
    [batch] = sampled_batches(build_policy(), 10_000)[:1]
    tensors = replace(
        BatchTensors.of(batch, torch.device("cpu")),
        term_decision=torch.arange(len(learner)),
        old_logprobs=torch.tensor(sampler),
        checked=checked,
    )
    logprobs = torch.tensor(learner)
    return measure_gap(Predictions(logprobs=logprobs, entropies=logprobs * 0.0), tensors)


def test_the_gap_by_hand() -> None:
    found = gap_between([-1.0, -2.0, -3.0], [-1.5, -2.0, -2.75])
    assert (found.tokens, found.squares, found.largest) == (3, 0.3125, 0.5)
    assert found.root_mean_square == pytest.approx(math.sqrt(0.3125 / 3), rel=1e-12)


def test_gaps_of_parts_add_up_to_the_gap_of_the_whole() -> None:
    learner, sampler = [-1.0, -2.0, -3.0, -0.5], [-1.5, -2.0, -2.75, -0.75]
    parts = gap_between(learner[:1], sampler[:1]) + gap_between(learner[1:], sampler[1:])
    assert parts == gap_between(learner, sampler)


def test_only_marked_tokens_are_compared() -> None:
    marks = torch.tensor([True, False])
    assert gap_between([-1.0, -9.0], [-1.25, -2.0], marks) == Gap(1, 0.0625, 0.25)
    assert gap_between([-1.0], [-2.0], torch.tensor([False])) == Gap()
    assert Gap().root_mean_square == 0.0


def test_one_token_among_many_may_be_ten_times_as_far_off() -> None:
    among = 100_000
    assert Gap(among, 1e-6, 1e-3).is_within(1e-4)
    assert not Gap(among, 1.0001e-6, 1.0001e-3).is_within(1e-4)
    assert not Gap(among, 1.0001e-3, 1e-4).is_within(1e-4)


@pytest.mark.parametrize("broken", [math.nan, math.inf])
def test_what_is_not_a_number_is_infinitely_far(broken: float) -> None:
    found = gap_between([-1.0, broken], [-1.0, -1.0]) + gap_between([-1.0], [-1.0])
    assert found.root_mean_square == found.largest == math.inf


def moved(batches: list[Batch], by: Any) -> list[Batch]:
    """The batches as if the sampler had recorded something else."""
    found = []
    for batch in batches:
        old = batch.term_old_logprob
        found.append(replace(batch, term_old_logprob=(old + by(old.size)).astype(old.dtype)))
    return found


def test_rounding_does_not_stop_an_update_even_where_its_largest_is_above_the_limit() -> None:
    policy, rng = build_policy(), np.random.default_rng(0)

    def rounding(count: int) -> Any:
        noise = rng.standard_normal(count) * SPREAD
        noise[0] = 5 * SPREAD
        return noise

    report = policy.learner.update(moved(sampled_batches(policy), rounding), Grpo())
    assert report.applied
    assert report.logprob_gap < 1e-4 < report.largest_gap


def small_everywhere(count: int) -> Any:
    return np.full(count, 2e-4)


def one_token(count: int) -> Any:
    return np.where(np.arange(count), 0.0, 2e-3)


@pytest.mark.parametrize("fault", [small_everywhere, one_token])
def test_other_weights_and_one_wrong_token_stop_it(fault: Any) -> None:
    policy = build_policy()
    before = policy.learner.fingerprint()
    wrong = moved(sampled_batches(policy), fault)
    with pytest.raises(PolicyMismatch, match=r"root mean square; limit 1e-04.* \(limit 1e-03\)"):
        policy.learner.update(wrong, Grpo())
    assert policy.learner.fingerprint() == before


def rounded_policy() -> TorchPolicy:
    loaded = load_for_policy("tiny", "bfloat16", "cpu")
    return TorchPolicy.build(loaded, FULL, LearnerSettings(lr=1e-2, max_logprob_gap=0.5), 0)


def few_far_away(count: int) -> Any:
    return np.where(np.arange(count) % 5 == 0, 7.0, 0.0)


def test_in_low_precision_a_few_unlucky_tokens_stop_nothing_and_other_weights_do() -> None:
    batches = sampled_batches(rounded_policy(), 10_000)
    report = rounded_policy().learner.update(moved(batches, few_far_away), Grpo())
    assert report.applied
    assert report.logprob_gap < 0.5 < 7.0 == pytest.approx(report.largest_gap, abs=0.1)
    wrong = moved(batches, lambda count: np.where(np.arange(count) % 2, 1.2, 0.0))
    with pytest.raises(PolicyMismatch, match="limit 5e-01"):
        rounded_policy().learner.update(wrong, Grpo())


@pytest.mark.parametrize("epochs", [1, 2])
def test_in_low_precision_rounding_is_no_change_of_the_policy(epochs: int) -> None:
    batches = sampled_batches(rounded_policy(), 10_000)
    rng = np.random.default_rng(0)
    noisy = moved(batches, lambda count: rng.choice([-0.3, 0.3], count))
    prints = [rounded_policy().learner.update(b, Grpo(epochs=epochs)) for b in (batches, noisy)]
    assert prints[0].fingerprint == prints[1].fingerprint
    assert prints[1].logprob_gap == pytest.approx(0.3, abs=0.02)
    assert prints[1].clip_share == prints[0].clip_share


@pytest.mark.parametrize("epochs", [1, 2])
def test_other_weights_are_noticed_in_low_precision_too(epochs: int) -> None:
    batches = moved(sampled_batches(rounded_policy(), 10_000), lambda count: np.full(count, 0.6))
    with pytest.raises(PolicyMismatch, match="limit 5e-01"):
        rounded_policy().learner.update(batches, Grpo(epochs=epochs))


@pytest.mark.parametrize("epochs", [1, 2])
def test_one_far_token_among_many_is_rounding_in_low_precision(epochs: int) -> None:
    policy = rounded_policy()
    batches = sampled_batches(policy, 10_000) * 3
    among = sum(batch.term_old_logprob.size for batch in batches)
    far = 0.4 * math.sqrt(among)  # the root mean square stays below the limit of 0.5
    assert far > 5.0
    first = moved(batches[:1], lambda count: np.where(np.arange(count), 0.0, far))
    report = policy.learner.update([*first, *batches[1:]], Grpo(epochs=epochs))
    assert report.applied
    assert report.largest_gap == pytest.approx(far, abs=0.5)
