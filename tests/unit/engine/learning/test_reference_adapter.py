"""A learner that compares with the policy as it was when its settings were taken."""

import copy
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.unit.engine.reference import build_fresh_policy, build_policy, perturb, stock_model
from tests.unit.engine.training_cases import play, row_logprob, sampled_batches, samples_of

from practicum.core.errors import CheckpointError
from practicum.engine.learning.learner import LearnerSettings
from practicum.training.algorithms.grpo import Grpo
from practicum.training.prefix_tree import build_batches

HELD = LearnerSettings(lr=1e-3, held_to_start=True)
BASE = frozenset({"base"})


async def test_what_it_is_compared_with_is_the_policy_of_that_moment() -> None:
    policy = build_policy()
    samples = samples_of(await play(policy))
    batches = build_batches(samples, 70)
    policy.learner.retune(HELD)
    was = copy.deepcopy(stock_model(policy))
    perturb(policy.model, seed=9)
    now = policy.learner.fingerprint()
    found = policy.learner.measure(batches, BASE)
    assert policy.learner.fingerprint() == now
    by_id = {s.id: s for s in samples}
    for batch, measured in zip(batches, found, strict=True):
        for number, key in enumerate(batch.sample_ids):
            with torch.no_grad():
                then = row_logprob(was, by_id[key]).numpy()
                mine = row_logprob(stock_model(policy), by_id[key]).numpy()
            own = batch.term_sample == number
            np.testing.assert_allclose(measured.base_logprobs[own], then, rtol=0, atol=2e-5)
            np.testing.assert_allclose(measured.logprobs[own], mine, rtol=0, atol=2e-5)
            assert np.abs(mine - then).max() > 0.01


def test_where_it_starts_the_distance_is_zero_and_then_it_grows() -> None:
    policy = build_policy()
    batches = sampled_batches(policy)
    policy.learner.retune(HELD)
    first = policy.learner.update(batches, Grpo(kl=0.1, epochs=1))
    assert first.kl_to_base == pytest.approx(0.0, abs=1e-9)
    policy.learner.retune(LearnerSettings(lr=1e-3, max_logprob_gap=1e9))
    to_base = policy.learner.update(batches, Grpo(kl=0.1)).kl_to_base
    assert to_base is not None
    assert to_base > 1e-3


def test_held_to_an_adapter_that_adds_nothing_is_held_to_the_base_model() -> None:
    apart = {"lr": 1e-3, "max_logprob_gap": 1e9}  # the weights move after the tokens were sampled
    held = build_fresh_policy(**apart, held_to_start=True)
    plain = build_fresh_policy(**apart)
    batches = sampled_batches(plain)
    for policy in (held, plain):
        perturb(policy.model, seed=1)
    for _ in range(2):
        mine = held.learner.update(batches, Grpo(kl=0.5, epochs=2))
        other = plain.learner.update(batches, Grpo(kl=0.5, epochs=2))
        assert mine.grad_norm == pytest.approx(other.grad_norm, rel=1e-5)
        assert mine.kl_to_base == pytest.approx(other.kl_to_base, rel=1e-5)


def test_a_resumed_learner_compares_with_what_was_saved(tmp_path: Path) -> None:
    policy, resumed = build_policy(), build_policy(seed=5)
    batches = sampled_batches(policy)
    policy.learner.retune(HELD)
    policy.learner.update(batches, Grpo(kl=0.1))
    policy.learner.save(tmp_path)
    resumed.learner.retune(HELD)
    resumed.learner.load(tmp_path)
    later = sampled_batches(policy)
    assert resumed.learner.update(later, Grpo(kl=0.1)) == policy.learner.update(later, Grpo(kl=0.1))


def test_a_checkpoint_without_the_reference_is_refused(tmp_path: Path) -> None:
    policy = build_policy()
    policy.learner.save(tmp_path)
    policy.learner.retune(HELD)
    with pytest.raises(CheckpointError, match=r"reference\.safetensors.*algorithm\.reference=base"):
        policy.learner.load(tmp_path)
