"""GRPO on recorded groups: against the formula on plain padded batches, and by hand."""

import asyncio
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from tests.unit.engine.reference import build_policy, stock_model
from tests.unit.engine.training_cases import relative_error
from tests.unit.training.recorded_rows import (
    make_row,
    padded,
    padded_logits,
    plain,
    steps_over,
    untrained_stock,
    watch_gradients,
)

from practicum.core.loss import LossTerms
from practicum.engine.learning.learner import LearnerSettings
from practicum.engine.policy import TorchPolicy
from practicum.training.algorithms.build_algorithms import objective_of
from practicum.training.algorithms.offline_grpo import OfflineGrpo
from practicum.training.example_steps import ExampleSteps, OfflineExample, share_in_order, units

SIZES = (3, 2, 4)
"""Answers of each group."""


def answers(known: Sequence[bool]) -> list[OfflineExample]:
    """Groups of scored answers; those that are `known` have recorded log-probabilities."""
    groups = [number for number, size in enumerate(SIZES) for _ in range(size)]
    rows = [
        make_row(n, pair=f"group {group}", reward=float(n % 4) - 0.5 * group)
        for n, group in enumerate(groups)
    ]
    return [_recorded(row, n) if known[n % len(known)] else row for n, row in enumerate(rows)]


def _recorded(row: OfflineExample, seed: int) -> OfflineExample:
    """As if by a policy somewhat other than the tiny model: up to a factor of 1.6 a token."""
    sample = row.sample
    own = token_logprobs(untrained_stock(), [row])[0].detach().numpy()
    noise = np.random.default_rng(seed).uniform(-0.5, 0.5, own.size)
    logprobs = np.zeros(sample.token_ids.size, np.float32)
    logprobs[sample.loss_mask] = (own + noise).astype(np.float32)
    return replace(row, sample=replace(sample, old_logprobs=logprobs))


def token_logprobs(model: Any, rows: Sequence[OfflineExample]) -> list[torch.Tensor]:
    """The log-probability of each loss token of each row, from one padded batch."""
    samples = [row.sample for row in rows]
    ids, _, mask = padded(samples)
    log_p = torch.log_softmax(padded_logits(model, samples)[:, :-1], -1)
    found = log_p.gather(2, ids[:, 1:, None])[:, :, 0]
    return [one[kept[1:]] for one, kept in zip(found, mask, strict=True)]


def by_the_formula(model: Any, rows: Sequence[OfflineExample], limit: float) -> torch.Tensor:
    """The mean over answers of the mean over tokens of the clipped objective."""
    with torch.no_grad():
        start = token_logprobs(untrained_stock(), rows)
    losses = []
    for row, now, at_start in zip(rows, token_logprobs(model, rows), start, strict=True):
        scores = torch.tensor([r.reward for r in rows if r.pair == row.pair], dtype=torch.float64)
        advantage = ((row.reward or 0.0) - scores.mean()) / (scores.std() + 1e-4)
        old = torch.from_numpy(row.sample.old_logprobs[row.sample.loss_mask])
        old = old if row.sample.old_logprobs.any() else at_start
        ratio = torch.exp(now - old)
        ratio = torch.where(ratio > limit, limit * torch.exp(now - now.detach()), ratio)
        bounded = ratio.clamp(0.8, 1.2)
        losses.append(-torch.minimum(ratio * advantage, bounded * advantage).mean())
    return torch.stack(losses).mean()


def held_policy() -> TorchPolicy:
    """As a stage of it has it: what it started from is kept."""
    policy = build_policy()
    policy.learner.retune(LearnerSettings(lr=1e-3, max_grad_norm=1e9, held_to_start=True))
    return policy


def steps_of(
    policy: Any, rows: Sequence[OfflineExample], budget: int, **options: Any
) -> ExampleSteps:
    method = OfflineGrpo(**options)
    steps = steps_over(policy, method, units(rows, "grpo"), budget_tokens=budget)
    steps.objective = objective_of(method)
    return steps


@pytest.mark.parametrize("budget", [10_000, 60, 1])
@pytest.mark.parametrize("known", [(True,), (False,), (True, False)])
def test_an_update_has_the_loss_and_gradient_of_the_formula(
    known: Sequence[bool], budget: int
) -> None:
    policy = held_policy()
    steps = steps_of(policy, answers(known), budget, max_ratio=1.3)
    gradients = watch_gradients(policy)
    [drawn] = asyncio.run(steps.gather(1))
    result = steps.learn(1, [drawn])
    loss, expected = plain(lambda model: by_the_formula(model, drawn, 1.3))
    assert result.metrics["loss"] == pytest.approx(loss, rel=1e-4, abs=1e-6)
    assert relative_error(gradients, expected) <= 1e-5
    assert result.metrics["groups"] == len(SIZES)
    assert (result.metrics["clip_share"] > 0.0) == (True in known)  # type: ignore[operator]


def test_answers_without_log_probabilities_are_weighed_against_the_start_of_the_stage() -> None:
    """After a step the ratio is no longer 1; it is to the policy as it was, adapter and all."""
    policy = held_policy()
    rows = answers((False,))
    steps = steps_of(policy, rows, 10_000)
    for step in (1, 2):
        [drawn] = asyncio.run(steps.gather(step))
        steps.learn(step, [drawn])
    with torch.no_grad():
        expected = by_the_formula(stock_model(policy), drawn, 2.0)
    again = steps.learn(3, [drawn])
    assert again.metrics["loss"] == pytest.approx(expected.item(), abs=1e-5)
    assert abs(expected.item()) > 1e-4


def test_what_one_answer_counts_by_hand() -> None:
    """Recorded with 1/2, now 3/4: ratio 1.5, clipped to 1.2 where it is to rise."""
    scores = {"a": 2.0, "b": 0.0}
    rows = [make_row(n, pair="g", reward=reward) for n, reward in enumerate(scores.values())]
    method = OfflineGrpo(scale="none", max_ratio=None)
    advantages, loss, figures = method.advantages(rows, None, None, None)
    assert advantages.tolist() == [1.0, -1.0]
    assert loss is None
    assert figures == {"groups": 1.0}
    terms = LossTerms(
        logprobs=torch.tensor([0.75, 0.75]).log(),
        old_logprobs=torch.tensor([0.5, 0.5]).log(),
        advantages=torch.tensor([1.0, -1.0]),
        weights=torch.tensor([0.5, 0.5]),
    )
    report = method.loss(terms)
    assert report.loss.item() == pytest.approx(0.5 * -1.2 + 0.5 * 1.5)
    assert report.clipped.item() == pytest.approx(0.5)
    limited = OfflineGrpo(max_ratio=1.25).loss(terms)
    assert limited.loss.item() == pytest.approx(0.5 * -1.2 + 0.5 * 1.25)


def test_a_group_without_scores_is_refused() -> None:
    rows = [make_row(0, pair="g", reward=1.0), make_row(1, pair="g")]
    with pytest.raises(ValueError, match="1 of 2 answers of a group have a score"):
        OfflineGrpo().advantages(rows, None, None, None)


def test_answers_of_a_group_are_in_order_by_their_scores() -> None:
    rows = [make_row(n, pair="ab"[n // 3], reward=float(n % 3)) for n in range(6)]
    share, count = share_in_order(rows, np.asarray([0.0, 1.0, 2.0, 5.0, 5.0, 4.0]))
    # All three pairs of a; of b a tie, and two the wrong way round.
    assert (share, count) == (pytest.approx((3 + 0.5) / 6), 6)
    assert math.isclose(share or 0.0, 3.5 / 6)
