from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.integration.learning_together import (
    Together,
    alone,
    config_of,
    distance,
    learned_state,
    learning_together,
    watch_gradients,
    whole_batch,
)
from tests.unit.engine.training_cases import sampled_batches

from practicum.core.errors import PolicyMismatch, PracticumError
from practicum.core.sample import Batch
from practicum.engine.learning.data_parallel import Order
from practicum.engine.learning.micro_batches import divide
from practicum.engine.models.lora import trainable
from practicum.training.algorithms.build_algorithms import build_algorithm
from practicum.training.algorithms.grpo import Grpo

# One worker runs them all: each would start processes of its own.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("learning_together")]


@pytest.fixture(scope="module")
def pair() -> Iterator[Together]:
    with learning_together(2) as together:
        yield together


def test_two_processes_have_the_gradients_of_one_that_adds_up_the_same_halves(
    pair: Together, tmp_path: Path
) -> None:
    one = alone(tmp_path / "start")
    pair.start_from(tmp_path / "start")
    batch = whole_batch(one)
    halves = [half for share in divide([batch], 2) for half in share]
    assert len(halves) == 2
    here, there = watch_gradients(one.learner), watch_gradients(pair.own)
    mine, theirs = one.learner.update(halves, Grpo()), pair.learner.update([batch], Grpo())
    assert len(here) == len(there) == 1
    adapter = len(list(trainable(one.model)))
    for a, b in zip(here[0], there[0], strict=True):
        assert (a is None and b is None) or torch.equal(a, b)
    assert sum(grad is not None for grad in there[0]) == adapter  # and not of the value head
    assert theirs.fingerprint == mine.fingerprint
    assert (theirs.loss, theirs.grad_norm) == (pytest.approx(mine.loss), mine.grad_norm)
    assert theirs.tokens == batch.token_ids.size
    assert learned_state(one.learner, tmp_path / "one") == learned_state(
        pair.learner, tmp_path / "two"
    )


def several_steps(policy_batches: list[Batch]) -> list[Batch]:
    """Two minibatches, with returns for a value head."""
    return [
        replace(
            batch,
            minibatch=number % 2,
            term_return=np.float32(np.cos(np.arange(batch.term_return.size))),
        )
        for number, batch in enumerate(policy_batches)
    ]


def test_epochs_minibatches_and_a_value_head_learn_as_in_one_process(
    pair: Together, tmp_path: Path
) -> None:
    one = alone(tmp_path / "start")
    pair.start_from(tmp_path / "start")
    batches = several_steps(sampled_batches(one, 70))
    assert len(batches) > 2
    words = ("algorithm.epochs=2", "algorithm.minibatches=2")
    stage = config_of(1, *words).all_stages[0]
    objective = build_algorithm(stage.algorithm, config_of(1).rollouts)
    here, there = watch_gradients(one.learner), watch_gradients(pair.own)
    mine, theirs = one.learner.update(batches, objective), pair.learner.update(batches, objective)
    assert len(here) == len(there) == 4
    assert distance(there[0], here[0]) <= 1e-6
    assert theirs.value_loss == pytest.approx(mine.value_loss, rel=1e-4)
    assert theirs.loss == pytest.approx(mine.loss, rel=1e-4, abs=1e-6)
    assert theirs.entropy == pytest.approx(mine.entropy, rel=1e-4)
    assert theirs.largest_gap == pytest.approx(mine.largest_gap, rel=0.5)


def test_what_is_measured_has_the_bits_of_one_process(pair: Together, tmp_path: Path) -> None:
    one = alone(tmp_path / "start")
    pair.start_from(tmp_path / "start")
    batches = sampled_batches(one, 70)
    needs = frozenset({"base", "values"})
    mine = one.learner.measure(batches, needs)
    theirs = pair.learner.measure(batches, needs)
    for a, b in zip(mine, theirs, strict=True):
        for name in ("logprobs", "base_logprobs", "values"):
            assert np.array_equal(getattr(a, name), getattr(b, name))


def test_tokens_of_other_weights_are_refused_by_all_and_learning_goes_on(
    pair: Together, tmp_path: Path
) -> None:
    one = alone(tmp_path / "start")
    pair.start_from(tmp_path / "start")
    batch, before = whole_batch(one), pair.learner.fingerprint()
    strange = replace(batch, term_old_logprob=batch.term_old_logprob - np.float32(1.0))
    with pytest.raises(PolicyMismatch, match="nothing was updated"):
        pair.learner.update([strange], Grpo())
    infinite = replace(batch, term_advantage=np.float32(np.inf) * batch.term_advantage)
    assert not pair.learner.update([infinite], Grpo()).applied
    assert pair.learner.fingerprint() == before
    assert pair.learner.update([batch], Grpo()).applied


def test_a_process_whose_weights_have_strayed_is_named(pair: Together, tmp_path: Path) -> None:
    one = alone(tmp_path / "start")
    pair.start_from(tmp_path / "start")
    batch = whole_batch(one)
    one.learner.update([batch], Grpo())
    learned_state(one.learner, tmp_path / "other")
    pair.group.send([Order("fingerprint"), Order("load", (tmp_path / "other",))])
    pair.group.gathered(pair.own.fingerprint)
    told = r"not hold the same weights after these were updated: .* process 1 has "
    with pytest.raises(PracticumError, match=told):
        pair.learner.update([replace(batch, term_checked=batch.term_weight < 0)], Grpo())
