import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from tests.unit.engine.training_cases import relative_error
from tests.unit.training.recorded_rows import (
    base_sums,
    make_row,
    padded,
    padded_logits,
    padded_sums,
    plain,
    steps_over,
    unclipped_policy,
    watch_gradients,
)

from practicum.training.algorithms.dpo import Dpo
from practicum.training.algorithms.kto import Kto
from practicum.training.algorithms.sft import Sft, WeightedSft
from practicum.training.example_steps import ExampleSteps, OfflineExample, units

SAME_GRADIENT = 1e-5
BUDGETS = [10_000, 60, 1]
"""All rows at once; a few; each alone."""


def gathered(steps: ExampleSteps, step: int) -> list[OfflineExample]:
    [drawn] = asyncio.run(steps.gather(step))
    return drawn


def kto_by_the_paper(
    model: Any, rows: Sequence[OfflineExample], *, beta: float, good: float, bad: float
) -> torch.Tensor:
    samples = [row.sample for row in rows]
    others = [*rows[1:], rows[0]]
    swapped = [row.with_completion_of(other) for row, other in zip(rows, others, strict=True)]
    with torch.no_grad():
        apart = padded_sums(model, swapped) - base_sums(model, swapped)
    z0 = torch.clamp(apart.mean(), min=0.0)
    reward = padded_sums(model, samples) - base_sums(model, samples)
    losses = []
    for row, r in zip(rows, reward, strict=True):
        value = torch.sigmoid(beta * (r - z0)) if row.label else torch.sigmoid(beta * (z0 - r))
        losses.append(row.weight * (good if row.label else bad) * (1 - value))
    return torch.stack(losses).mean()


@pytest.mark.parametrize("budget_tokens", BUDGETS)
def test_kto_has_the_gradient_of_its_loss_on_the_padded_batch(budget_tokens: int) -> None:
    rows = [make_row(n, label=n % 3 != 0, weight=1.0 + n / 5) for n in range(7)]
    policy = unclipped_policy()
    method = Kto(beta=0.3, desirable=1.2, undesirable=0.7)
    steps = steps_over(policy, method, units(rows, "kto"), budget_tokens=budget_tokens)
    gradients, drawn = watch_gradients(policy), gathered(steps, 1)
    result = steps.learn(1, [drawn])
    loss, expected = plain(lambda m: kto_by_the_paper(m, drawn, beta=0.3, good=1.2, bad=0.7))
    assert result.metrics["loss"] == pytest.approx(loss, rel=1e-5)
    assert relative_error(gradients, expected) <= SAME_GRADIENT
    assert result.metrics["examples"] == 7


def dpo_by_the_paper(model: Any, rows: Sequence[OfflineExample], beta: float) -> torch.Tensor:
    samples = [row.sample for row in rows]
    reward = beta * (padded_sums(model, samples) - base_sums(model, samples))
    margins = [
        reward[i] - reward[j]
        for i, one in enumerate(rows)
        for j, other in enumerate(rows)
        if one.pair == other.pair and one.chosen and not other.chosen
    ]
    return -torch.log(torch.sigmoid(torch.stack(margins))).mean()


def pairs(count: int) -> list[tuple[OfflineExample, ...]]:
    sides = [
        make_row(10 * pair + side, pair=f"pair {pair}", chosen=bool(side))
        for pair in range(count)
        for side in (0, 1)
    ]
    return units(sides, "dpo")


@pytest.mark.parametrize("budget_tokens", BUDGETS)
def test_dpo_has_the_gradient_of_its_loss_on_the_padded_batch(budget_tokens: int) -> None:
    policy = unclipped_policy()
    steps = steps_over(policy, Dpo(beta=0.4), pairs(3), budget_tokens=budget_tokens)
    gradients, drawn = watch_gradients(policy), gathered(steps, 1)
    result = steps.learn(1, [drawn])
    loss, expected = plain(lambda m: dpo_by_the_paper(m, drawn, 0.4))
    assert result.metrics["loss"] == pytest.approx(loss, rel=1e-5)
    assert relative_error(gradients, expected) <= SAME_GRADIENT


def cross_entropy(model: Any, rows: Sequence[OfflineExample]) -> torch.Tensor:
    samples = [row.sample for row in rows]
    ids, _, mask = padded(samples)
    labels = ids.masked_fill(~mask, -100)[:, 1:]
    logits = padded_logits(model, samples)[:, :-1]
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())


@pytest.mark.parametrize("budget_tokens", BUDGETS)
def test_sft_is_the_mean_cross_entropy_of_the_tokens_learned_from(budget_tokens: int) -> None:
    policy = unclipped_policy()
    rows = [make_row(n) for n in range(5)]
    steps = steps_over(policy, Sft(), units(rows, "sft"), budget_tokens=budget_tokens)
    gradients, drawn = watch_gradients(policy), gathered(steps, 1)
    result = steps.learn(1, [drawn])
    loss, expected = plain(lambda m: cross_entropy(m, drawn))
    assert result.metrics["loss"] == pytest.approx(loss, rel=1e-5)
    assert relative_error(gradients, expected) <= SAME_GRADIENT


def test_weights_by_reward_count_as_so_many_copies() -> None:
    """Rewards of 3 and 1 teach as the first row three times and the second once."""
    rows = [make_row(0, reward=3.0), make_row(1, reward=1.0), make_row(2, reward=-1.0)]
    policy = unclipped_policy()
    steps = steps_over(policy, WeightedSft(weigh="positive"), units(rows, "sft"))
    gradients, drawn = watch_gradients(policy), gathered(steps, 1)
    steps.learn(1, [drawn])
    counts = torch.tensor([max(row.reward or 0.0, 0.0) for row in drawn])
    tokens = sum(int(row.sample.loss_mask.sum()) for row in drawn)

    def loss_of(model: Any) -> torch.Tensor:
        sums = padded_sums(model, [row.sample for row in drawn])
        return -(counts / counts.mean() * sums).sum() / tokens

    assert relative_error(gradients, plain(loss_of)[1]) <= SAME_GRADIENT


@pytest.mark.parametrize(("count", "batch"), [(7, 3), (6, 3), (5, 8), (4, 1)])
def test_an_epoch_has_each_row_once_and_the_next_another_order(count: int, batch: int) -> None:
    rows = [make_row(n) for n in range(count)]
    steps = steps_over(unclipped_policy(), Sft(), units(rows, "sft"), batch=batch, first=4)
    updates = -(-count // batch)
    epochs = []
    for epoch in range(3):
        drawn = [gathered(steps, 4 + epoch * updates + n) for n in range(updates)]
        sizes = {len(part) for part in drawn}
        assert max(sizes) <= batch
        assert max(sizes) - min(sizes) <= 1
        epochs.append([row.id for part in drawn for row in part])
        assert sorted(epochs[-1]) == [f"row {n}" for n in range(count)]
    assert len({tuple(order) for order in epochs}) > 1


def test_a_step_draws_the_same_whatever_was_drawn_before_it() -> None:
    rows = units([make_row(n) for n in range(9)], "sft")
    policy = unclipped_policy()
    whole, resumed = (steps_over(policy, Sft(), rows, batch=2) for _ in range(2))
    drawn = [[row.id for row in gathered(whole, step)] for step in range(1, 8)]
    assert [row.id for row in gathered(resumed, 7)] == drawn[6]
    other = steps_over(policy, Sft(), rows, batch=2, seed=1)
    assert [[row.id for row in gathered(other, step)] for step in range(1, 8)] != drawn


def test_the_two_sides_of_a_pair_stay_together_and_no_pair_comes_twice() -> None:
    steps = steps_over(unclipped_policy(), Dpo(), pairs(5), batch=2)
    for step in range(1, 10):
        drawn = gathered(steps, step)
        assert [row.chosen for row in drawn] == [True, False] * (len(drawn) // 2)
        names = [row.pair for row in drawn]
        assert names[::2] == names[1::2]
        assert len(set(names)) == len(drawn) // 2


def test_the_base_model_is_asked_in_each_step_and_about_its_rows_alone() -> None:
    """What a resumed run measures must not depend on steps that another process has made."""
    policy = unclipped_policy()
    asked: list[tuple[int, frozenset[str]]] = []
    measure = policy.learner.measure

    def counting(batches: Any, needs: Any) -> Any:
        asked.append((sum(len(b.sample_ids) for b in batches), needs))
        return measure(batches, needs)

    policy.learner.measure = counting  # type: ignore[method-assign]
    steps = steps_over(policy, Dpo(), pairs(2))
    for step in (1, 2):
        steps.learn(step, [gathered(steps, step)])
    assert asked == [(4, frozenset({"base"}))] * 2


def test_epochs_are_counted() -> None:
    rows = units([make_row(n) for n in range(4)], "sft")
    steps = steps_over(unclipped_policy(), Sft(), rows, batch=2, first=3)
    found = [steps.learn(step, [gathered(steps, step)]).metrics["epoch"] for step in (3, 4, 5)]
    assert found == [0.5, 1.0, 1.5]
    assert steps.episodes_expected == 0


def test_kto_alone_in_its_update_is_compared_with_another_row() -> None:
    rows = [make_row(n, label=bool(n)) for n in range(3)]
    policy = unclipped_policy()
    steps = steps_over(policy, Kto(beta=0.3), units(rows, "kto"), batch=2)
    [alone] = next(d for step in (1, 2) if len(d := gathered(steps, step)) == 1)
    other = next(row for row in rows if row.id != alone.id)
    swapped = [alone.with_completion_of(other)]
    result = steps.learn(1, [[alone]])

    def apart(model: Any) -> torch.Tensor:
        return (padded_sums(model, swapped) - base_sums(model, swapped)).sum()

    assert result.metrics["kl_z0"] == pytest.approx(max(0.0, plain(apart)[0]), abs=1e-4)


def test_a_step_of_two_updates_does_what_two_steps_do() -> None:
    rows = units([make_row(n) for n in range(6)], "sft")
    one, two = unclipped_policy(), unclipped_policy()
    single, double = (steps_over(policy, Sft(), rows, batch=2) for policy in (one, two))
    double.updates = 2
    found = [single.learn(step, [gathered(single, step)]).metrics for step in (1, 2)]
    both = double.learn(1, asyncio.run(double.gather(1))).metrics
    assert one.learner.fingerprint() == two.learner.fingerprint()
    assert both["loss"] == pytest.approx(sum(m["loss"] for m in found) / 2)
    for name in ("update_tokens", "examples"):
        assert both[name] == sum(m[name] for m in found)
    assert both["epoch"] == found[-1]["epoch"]
