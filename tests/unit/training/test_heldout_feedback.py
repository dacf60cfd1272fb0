"""Held-out feedback: what gained, and which of two conversations gained more."""

from fractions import Fraction

import numpy as np
import pytest
from tests.unit.engine.reference import build_fresh_policy
from tests.unit.training.recorded_rows import make_row

from practicum.engine.models.lora import trainable
from practicum.training.example_steps import OfflineExample
from practicum.training.heldout_feedback import mean_gain, measure_gains, preferences


def row(number: int, *, task: str = "", **known: object) -> OfflineExample:
    return make_row(number, task_id=task or f"t{number}", **known)


def test_the_preferred_side_of_a_pair_is_compared_with_the_other() -> None:
    pairs = [
        (row(2 * n, task=f"p{n}", pair=f"p{n}", chosen=True),
         row(2 * n + 1, task=f"p{n}", pair=f"p{n}", chosen=False))
        for n in range(3)
    ]  # fmt: skip
    gains = {"row 0": 1.0, "row 1": 0.0, "row 2": -1.0, "row 3": 0.5, "row 4": 2.0, "row 5": 2.0}
    assert sorted(one.sign for one in preferences(pairs, gains, 0)) == [
        Fraction(-1),
        Fraction(0),
        Fraction(1),
    ]
    assert mean_gain(pairs, gains) == pytest.approx(2 / 3)


def test_good_and_bad_conversations_are_paired_and_no_task_is_in_two_pairs() -> None:
    good = [(row(n, label=True),) for n in range(6)]
    bad = [(row(n, label=False),) for n in range(10, 14)]
    again = [(row(n, task="t1", label=True),) for n in range(20, 30)]
    gains = {f"row {n}": float(n < 10 or n >= 20) for n in range(30)}
    found = [one.sign for one in preferences([*good, *bad, *again], gains, 0)]
    assert found == [Fraction(1)] * 4
    assert preferences(good, gains, 0) == []
    assert mean_gain(bad, gains) is None


def test_gains_are_over_the_policy_as_it_was_at_the_start() -> None:
    policy = build_fresh_policy(held_to_start=True)
    units = [(row(n, label=True),) for n in range(4)]
    before = measure_gains(units, policy.learner, 64)
    assert list(before.values()) == pytest.approx([0.0] * 4, abs=1e-5)
    for _, tensor in trainable(policy.model):
        tensor.data += 0.05
    after = measure_gains(units, policy.learner, 64)
    assert np.abs(list(after.values())).min() > 1e-3
    assert after.keys() == {f"row {n}" for n in range(4)}
