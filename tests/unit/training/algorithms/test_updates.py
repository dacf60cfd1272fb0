"""Every online method from scored episodes to new weights, over the tiny model."""

import asyncio
import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from tests.unit.engine.reference import build_policy
from tests.unit.engine.training_cases import play
from tests.unit.training.algorithms.cases import group, whole

from practicum.core.config.algorithm_config import PpoConfig
from practicum.core.interfaces import Algorithm
from practicum.core.sample import Batch, Episode, Floats, Group, Sample
from practicum.core.trace import StopReason
from practicum.engine.policy import TorchPolicy
from practicum.training.algorithms.cispo import Cispo
from practicum.training.algorithms.dapo import Dapo
from practicum.training.algorithms.distill import Distill
from practicum.training.algorithms.grpo import DrGrpo, Grpo
from practicum.training.algorithms.gspo import Gspo
from practicum.training.algorithms.ppo import Ppo
from practicum.training.algorithms.reinforce_pp import ReinforcePlusPlus
from practicum.training.algorithms.rloo import Rloo
from practicum.training.rollout_steps import credit_step, estimate, step_batches

SCORES = (1.0, 0.0, 0.5, 2.0, -1.0, 0.0)
VALUE_LR = 1e-2

METHODS: list[Any] = [
    Grpo(kl=0.01),
    Grpo(kl=0.05, kl_in="reward"),
    DrGrpo(),
    Dapo(filter_cut_off=True),
    Gspo(),
    Cispo(),
    Rloo(kl=0.05, kl_in="reward"),
    ReinforcePlusPlus(baseline=False, kl=0.05, kl_in="reward"),
    ReinforcePlusPlus(baseline=True, kl=0.01),
    Ppo(epochs=2, minibatches=2),
    Ppo(gae="token", epochs=1, minibatches=1, entropy=1e-3, kl=0.05, kl_in="reward"),
    Distill(teacher="tiny", reward_coef=0.5),
]


def name(method: Any) -> str:
    return " ".join([type(method).__name__, *sorted(method.config.model_fields_set)])


class Contrary:
    """A teacher that finds every other token likelier than the sampler did, and the rest less."""

    def logprobs(self, samples: Sequence[Sample]) -> list[Floats]:
        found = [s.old_logprobs[s.loss_mask] for s in samples]
        return [x + np.where(np.arange(x.size) % 2, 0.5, -0.5).astype(np.float32) for x in found]


def scored_groups(policy: TorchPolicy) -> list[Group]:
    """Six episodes of two turns in two groups; a limit cut the last one off."""
    traces = asyncio.run(play(policy, episodes=len(SCORES)))
    traces[-1] = dataclasses.replace(traces[-1], stop=StopReason.MAX_TURNS)
    episodes = [
        Episode(trace=trace, outcome=None, score=whole(score))
        for trace, score in zip(traces, SCORES, strict=True)
    ]
    return [group(*episodes[:3]), group(*episodes[3:])]


def moved_along(policy: TorchPolicy, batches: Sequence[Batch], before: Sequence[Floats]) -> float:
    """How much likelier good tokens became, and bad ones less."""
    after = policy.learner.measure(batches, frozenset())
    gains = (
        (b.term_weight * b.term_advantage * (new.logprobs - old)).sum()
        for b, new, old in zip(batches, after, before, strict=True)
    )
    return float(sum(gains))


@pytest.mark.parametrize("method", METHODS, ids=name)
def test_an_update_makes_good_tokens_likelier_and_bad_ones_less(method: Algorithm) -> None:
    value_lr = VALUE_LR if "values" in method.credit_needs else None
    policy = build_policy(value_lr=value_lr, lr=1e-4)
    groups = [g for g in scored_groups(policy) if method.is_informative(g)]
    assert len(groups) == 2
    estimates = estimate(groups, method.credit_needs, policy.learner, Contrary(), 10_000)
    credited = credit_step(groups, method, estimates)
    batches = step_batches(credited, method, budget_tokens=60, constant=16, seed=(0, 0))
    assert len(batches) > method.minibatches
    before = [m.logprobs for m in policy.learner.measure(batches, frozenset())]
    fingerprint = policy.learner.fingerprint()
    report = policy.learner.update(batches, method)
    assert report.applied
    assert report.fingerprint != fingerprint
    assert np.isfinite(report.loss)
    assert moved_along(policy, batches, before) > 0


@pytest.mark.parametrize("method", METHODS, ids=name)
def test_an_update_is_the_same_however_little_goes_through_the_model_at_once(
    method: Any,
) -> None:
    """Whole sequences at the least: the sum over micro-batches is the loss of the step."""
    found = []
    for budget in (10_000, 1):
        policy = build_policy(value_lr=VALUE_LR, lr=1e-4)
        groups = scored_groups(policy)
        estimates = estimate(groups, method.credit_needs, policy.learner, Contrary(), 10_000)
        credited = credit_step(groups, method, estimates)
        one_step = type(method)(method.config.model_copy(update={"epochs": 1, "minibatches": 1}))
        batches = step_batches(credited, one_step, budget_tokens=budget, constant=16, seed=(0, 0))
        found.append((len(batches), policy.learner.update(batches, one_step)))
    (few, together), (many, apart) = found
    assert few < many
    assert apart.loss == pytest.approx(together.loss, abs=1e-5)
    assert apart.grad_norm == pytest.approx(together.grad_norm, rel=1e-4)


@pytest.mark.parametrize("gae", ["turn", "token"])
def test_the_value_head_comes_to_predict_what_is_earned(gae: Any) -> None:
    """It starts at 0; after some updates from the same episodes its error is far smaller."""
    policy = build_policy(value_lr=VALUE_LR, lr=1e-6, max_logprob_gap=1.0)
    groups = scored_groups(policy)
    config = PpoConfig(gae=gae, value_clip=0.0, epochs=25, minibatches=1, gae_lambda=1.0)
    method, once = Ppo(config), Ppo(config.model_copy(update={"epochs": 1}))
    estimates = estimate(groups, method.credit_needs, policy.learner, None, 10_000)
    batches = step_batches(
        credit_step(groups, method, estimates),
        method,
        budget_tokens=10_000,
        constant=16,
        seed=(0, 0),
    )
    first = policy.learner.update(batches, once).value_loss
    policy.learner.update(batches, method)
    last = policy.learner.update(batches, once).value_loss
    assert first is not None
    assert last is not None
    assert last < 0.5 * first
