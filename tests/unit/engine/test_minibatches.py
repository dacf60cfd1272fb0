"""Several optimizer steps in one update: all of them or none, and all compared before the first."""

import asyncio
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.unit.engine.reference import build_policy
from tests.unit.engine.training_cases import play, samples_of

from practicum.core.config.config_sections import LoraConfig
from practicum.core.errors import PolicyMismatch
from practicum.core.sample import Batch
from practicum.engine.policy import TorchPolicy
from practicum.training.algorithms.grpo import Grpo
from practicum.training.algorithms.ppo import Ppo
from practicum.training.prefix_tree import build_batches

DROPOUT = LoraConfig.model_validate({"preset": "attention"})


def saved(policy: TorchPolicy, folder: Path) -> dict[str, bytes]:
    """Everything a checkpoint keeps of a learner, as bytes."""
    policy.learner.save(folder)
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir())}


def minibatches_of(policy: TorchPolicy) -> list[Batch]:
    """Fresh episodes of a policy in three minibatches, with something for a value head to learn."""
    samples = samples_of(asyncio.run(play(policy)))
    batches = [build_batches(samples[n::3], 10_000)[0] for n in range(3)]
    return [
        replace(batch, minibatch=n, term_return=np.ones_like(batch.term_return))
        for n, batch in enumerate(batches)
    ]


@pytest.mark.parametrize("epochs", [1, 2])
def test_minibatches_are_updates_one_after_the_other(epochs: int) -> None:
    at_once, by_hand = build_policy(), build_policy(max_logprob_gap=10.0)
    samples = samples_of(asyncio.run(play(at_once)))
    parts = [build_batches(samples[number::3], 70) for number in range(3)]
    numbered = [replace(b, minibatch=n) for n, part in enumerate(parts) for b in part]
    report = at_once.learner.update(numbered[::-1], Grpo(epochs=epochs))
    unmoved = build_policy(lr=0.0)
    gaps = [unmoved.learner.update(part[::-1], Grpo()).largest_gap for part in parts]
    reports = [by_hand.learner.update(part[::-1], Grpo()) for part in parts * epochs]
    assert report.fingerprint == reports[-1].fingerprint
    assert report.loss == pytest.approx(sum(r.loss for r in reports) / len(reports), abs=1e-6)
    assert report.grad_norm == reports[-1].grad_norm
    assert report.largest_gap == max(gaps) < reports[1].largest_gap


@pytest.mark.parametrize("lora", [None, DROPOUT], ids=["plain", "dropout"])
@pytest.mark.parametrize("wrong", [0, 1, 2])
def test_every_minibatch_is_compared_with_the_sampler_before_the_first_step(
    tmp_path: Path, lora: LoraConfig | None, wrong: int
) -> None:
    policy = build_policy(lora) if lora else build_policy()
    assert policy.learner.update(minibatches_of(policy), Grpo()).applied
    batches = minibatches_of(policy)
    moved = batches[wrong].term_old_logprob.copy()
    moved[-1] += 0.01
    batches[wrong] = replace(batches[wrong], term_old_logprob=moved)
    before = saved(policy, tmp_path)
    with pytest.raises(PolicyMismatch, match="nothing was updated"):
        policy.learner.update(batches, Grpo(epochs=2))
    without_random = {k: v for k, v in saved(policy, tmp_path).items() if "random" not in k}
    assert without_random.items() <= before.items()


@pytest.mark.parametrize("updates", [0, 1], ids=["first update", "second update"])
def test_an_update_with_a_minibatch_that_is_not_finite_leaves_nothing_behind(
    tmp_path: Path, updates: int
) -> None:
    policy = build_policy(value_lr=1e-2)
    method = Ppo(epochs=2)
    for _ in range(updates):
        assert policy.learner.update(minibatches_of(policy), method).applied
    before, fingerprint = saved(policy, tmp_path), policy.learner.fingerprint()
    assert "value_head.safetensors" in before
    batches = minibatches_of(policy)
    spoiled = batches[-1].term_advantage * np.float32(np.nan)
    report = policy.learner.update(
        [*batches[:-1], replace(batches[-1], term_advantage=spoiled)], method
    )
    assert not report.applied
    assert report.fingerprint == fingerprint == policy.sampler.fingerprint()
    assert saved(policy, tmp_path) == before
    after = policy.learner.update(minibatches_of(policy), method)  # sampled from those weights
    assert after.applied
    assert after.fingerprint != fingerprint
