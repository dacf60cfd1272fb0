"""Examples that are held out: their loss and their order, against plain rows and scipy."""

import asyncio
import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats
from tests.unit.training.recorded_rows import (
    base_sums,
    make_row,
    padded_sums,
    unclipped_policy,
    untrained_stock,
)

from practicum.core.interfaces import OfflineMethod
from practicum.training.algorithms.dpo import Dpo
from practicum.training.algorithms.kto import Kto
from practicum.training.algorithms.losses import Likelihood
from practicum.training.algorithms.sft import Sft
from practicum.training.example_steps import HeldOutSteps, OfflineExample, share_in_order, units


def steps_with(
    method: OfflineMethod,
    train: Sequence[OfflineExample],
    heldout: Sequence[OfflineExample],
    *,
    before: bool = True,
) -> HeldOutSteps:
    async def load_train() -> list[tuple[OfflineExample, ...]]:
        return units(train, method.kind)

    async def load_heldout() -> list[tuple[OfflineExample, ...]]:
        return units(heldout, method.kind)

    return HeldOutSteps(
        load=load_train,
        load_heldout=load_heldout,
        is_reported=lambda step: step == 4,
        is_reported_before=before,
        method=method,
        objective=Likelihood(),
        learner=unclipped_policy().learner,
        batch=100,
        first=3,
        seed=0,
        micro_batch_tokens=60,
    )


def metrics(steps: HeldOutSteps, step: int) -> dict[str, object]:
    return dict(steps.learn(step, asyncio.run(steps.gather(step))).metrics)


def test_the_loss_of_imitation_is_the_mean_over_held_out_tokens() -> None:
    train, heldout = [make_row(n) for n in range(4)], [make_row(n) for n in range(10, 15)]
    found = metrics(steps_with(Sft(), train, heldout), 3)
    samples = [row.sample for row in heldout]
    with torch.no_grad():
        total = padded_sums(untrained_stock(), samples).sum().item()
    tokens = sum(int(s.loss_mask.sum()) for s in samples)
    assert found["heldout_loss_before"] == pytest.approx(-total / tokens, rel=1e-5)
    assert "heldout_loss" not in found
    assert "heldout_in_order_before" not in found


def test_the_loss_of_preferences_is_their_own_over_held_out_pairs() -> None:
    def pair(name: int) -> list[OfflineExample]:
        known = {"pair": f"p{name}"}
        return [
            make_row(name, chosen=True, **known),
            make_row(name + 100, chosen=False, **known),
        ]

    train, heldout = pair(1), [*pair(2), *pair(3), *pair(4)]
    found = metrics(steps_with(Dpo(beta=0.5), train, heldout), 3)
    samples, model = [row.sample for row in heldout], untrained_stock()
    with torch.no_grad():
        gained = (padded_sums(model, samples) - base_sums(model, samples)).tolist()
    margins = [good - bad for good, bad in zip(gained[::2], gained[1::2], strict=True)]
    losses = [math.log(1 + math.exp(-0.5 * margin)) for margin in margins]
    assert found["heldout_loss_before"] == pytest.approx(sum(losses) / 3, rel=1e-5)
    assert found["heldout_in_order_before"] == pytest.approx(sum(m > 0 for m in margins) / 3)


def test_held_out_examples_are_looked_at_when_they_are_due() -> None:
    rows = [make_row(n, label=n % 2 == 0) for n in range(8)]
    steps = steps_with(Kto(), rows[:4], rows[4:])
    first, second, third = (metrics(steps, step) for step in (3, 4, 5))
    assert {"heldout_loss_before", "heldout_in_order_before"} <= first.keys()
    assert "heldout_loss" not in first
    assert {"heldout_loss", "heldout_in_order"} <= second.keys()
    assert second["heldout_loss"] != first["heldout_loss_before"]
    assert not any(name.startswith("heldout") for name in third)


def test_nothing_is_said_of_examples_that_are_not_there() -> None:
    rows = [make_row(n, label=n % 2 == 0) for n in range(4)]
    assert not any(name.startswith("heldout") for name in metrics(steps_with(Kto(), rows, []), 3))
    later = steps_with(Kto(), rows[:2], rows[2:], before=False)
    assert not any(name.startswith("heldout") for name in metrics(later, 3))


def test_looking_at_held_out_examples_changes_nothing_that_is_learned() -> None:
    rows = [make_row(n, label=n % 2 == 0) for n in range(8)]
    with_them, without = steps_with(Kto(), rows[:4], rows[4:]), steps_with(Kto(), rows[:4], [])
    for step in (3, 4, 5):
        assert metrics(with_them, step)["fingerprint"] == metrics(without, step)["fingerprint"]


def test_the_share_in_order_is_the_area_under_the_curve() -> None:
    chance = np.random.default_rng(0)
    gained = chance.integers(0, 6, 40).astype(np.float32)  # some are equal
    rows = [replace(make_row(n), label=bool(chance.random() < 0.4)) for n in range(40)]
    labels = np.asarray([row.label for row in rows])
    found = stats.mannwhitneyu(gained[labels], gained[~labels]).statistic
    assert share_in_order(rows, gained)[0] == pytest.approx(
        found / (labels.sum() * (~labels).sum()), abs=1e-6
    )


def test_without_both_there_is_no_order() -> None:
    rows = [make_row(n, label=True) for n in range(3)]
    assert share_in_order(rows, np.ones(3, np.float32)) == (None, 0)
    assert share_in_order([make_row(1)], np.ones(1, np.float32)) == (None, 0)
