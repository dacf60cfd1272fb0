"""Tokens of earlier weights are learned from; only those of the present ones are checked."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.unit.engine.reference import build_policy, perturb
from tests.unit.engine.training_cases import sampled_batches

from practicum.core.errors import PolicyMismatch
from practicum.core.sample import Batch
from practicum.engine.learning.micro_batches import split_micro_batch
from practicum.training.algorithms.grpo import Grpo


def marked(batches: list[Batch], checked: Any) -> list[Batch]:
    """The batches with the marks that `checked` makes of the number of their terms."""
    return [replace(b, term_checked=checked(b.term_decision.size)) for b in batches]


def none(count: int) -> Any:
    return np.zeros(count, np.bool_)


def one(count: int) -> Any:
    return np.arange(count) == count - 1


def every_second(count: int) -> Any:
    return np.arange(count) % 2 == 0


def test_stale_tokens_are_learned_from_where_none_is_marked() -> None:
    policy = build_policy()
    batches = sampled_batches(policy)
    perturb(policy.model, seed=3, size=0.05)
    policy.learner.publish()
    with pytest.raises(PolicyMismatch):
        policy.learner.update(batches, Grpo())
    with pytest.raises(PolicyMismatch):
        policy.learner.update(marked(batches, one), Grpo())
    before = policy.learner.fingerprint()
    report = policy.learner.update(marked(batches, none), Grpo(max_ratio=1.001))
    assert report.applied
    assert report.logprob_gap == 0.0
    assert report.fingerprint != before
    assert report.truncated_share is not None
    assert 0.0 < report.truncated_share < 1.0


def test_marked_tokens_of_the_present_weights_pass() -> None:
    policy = build_policy()
    report = policy.learner.update(marked(sampled_batches(policy), every_second), Grpo())
    assert 0.0 < report.largest_gap < 1e-4
    assert report.truncated_share is None


@pytest.mark.parametrize("whole", [False, True])
def test_marks_stay_with_their_terms_where_a_batch_is_halved(whole: bool) -> None:
    """Each term is marked by whether its target is an even id, which the halves can be asked."""
    batch = sampled_batches(build_policy())[0]
    even = batch.target[batch.term_decision] % 2 == 0
    halves = split_micro_batch(replace(batch, term_checked=even), whole_samples=whole)
    assert halves is not None
    for half in halves[:2]:
        targets = half.target[half.term_decision]
        assert half.term_checked is not None
        assert half.term_checked.tolist() == (targets % 2 == 0).tolist()
