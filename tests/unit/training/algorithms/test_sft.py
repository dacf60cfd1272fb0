"""What examples count in supervised fine-tuning."""

import math

import numpy as np
import pytest
from tests.unit.training.algorithms.rows import Row

from practicum.training.algorithms.sft import Sft, WeightedSft, reward_weights


def test_every_example_counts_its_own_weight() -> None:
    rows = [Row(weight=2.0), Row(weight=0.5)]
    found, loss, figures = Sft().advantages(rows, None, None, None)
    assert found.tolist() == [2.0, 0.5]
    assert loss is None
    assert figures == {}
    assert not Sft().needs_measure
    assert not Sft().needs_mismatched


def test_rewards_count_by_their_exponential_with_mean_1() -> None:
    """Rewards 1 and 0, temperature 0.5: 1 and exp(-2), over their mean."""
    rows = [Row(reward=1.0), Row(reward=0.0)]
    found, _, figures = WeightedSft(weigh="exponential", temperature=0.5).advantages(
        rows, None, None, None
    )
    mean = (1 + math.exp(-2)) / 2
    assert found == pytest.approx(np.asarray([1 / mean, math.exp(-2) / mean]), rel=1e-6)
    expected = (1 + math.exp(-2)) ** 2 / (1 + math.exp(-4)) / 2
    assert figures["effective_share"] == pytest.approx(expected)


def test_huge_rewards_do_not_overflow() -> None:
    assert reward_weights([1e6, 0.0], "exponential", 1.0).tolist() == [2.0, 0.0]


def test_what_failed_teaches_nothing() -> None:
    """Rewards 3, -1, 1: 3, 0, 1 over 4/3; the third has a weight of its own."""
    rows = [Row(reward=3.0), Row(reward=-1.0), Row(reward=1.0, weight=2.0)]
    found, _, _ = WeightedSft(weigh="positive").advantages(rows, None, None, None)
    assert found == pytest.approx(np.asarray([2.25, 0.0, 1.5]))


def test_where_all_failed_nothing_counts() -> None:
    rows = [Row(reward=-3.0), Row(reward=0.0)]
    found, _, figures = WeightedSft(weigh="positive").advantages(rows, None, None, None)
    assert found.tolist() == [0.0, 0.0]
    assert figures["effective_share"] == 0.0


def test_rows_without_a_reward_cannot_be_weighted_by_it() -> None:
    with pytest.raises(ValueError, match="1 rows have no reward"):
        WeightedSft(weigh="exponential").advantages([Row(reward=1.0), Row()], None, None, None)
