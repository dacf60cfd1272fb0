import math
import random
from statistics import median

import pytest

from practicum.stats.differences import differ, mean_errors, share_errors, step_noise


def test_the_noise_is_the_deviation_from_step_to_step_whatever_the_trend() -> None:
    dice = random.Random(0)
    for slope in (0.0, 0.05):
        found = [
            step_noise([slope * n + dice.gauss(0.0, 0.5) for n in range(20)]) for _ in range(400)
        ]
        assert median(found) == pytest.approx(0.5, rel=0.05)


def test_fewer_than_two_values_have_no_noise() -> None:
    assert step_noise([]) == step_noise([3.0]) == 0.0


def test_the_difference_of_two_shares_is_in_pooled_standard_errors() -> None:
    # 10 of 100 and 0 of 200: pooled 1/30, error sqrt(1/30 * 29/30 * 3/200) = 0.02198.
    assert share_errors(0.1, 100, 0.0, 200) == pytest.approx(-4.549, abs=1e-3)


def test_shares_of_nothing_and_equal_shares_do_not_differ() -> None:
    assert share_errors(0.3, 0, 0.9, 10) == share_errors(1.0, 10, 1.0, 20) == 0.0


def test_the_difference_of_means_is_in_standard_errors_and_sure_without_noise() -> None:
    # 0.5 * sqrt(1/4 + 1/16) = 0.2795; 1 / 0.2795 = 3.578.
    assert mean_errors(1.0, 0.5, 4, 16) == pytest.approx(3.578, abs=1e-3)
    assert mean_errors(-0.1, 0.0, 4, 4) == -math.inf
    assert mean_errors(1e-12, 0.0, 4, 4) == 0.0


@pytest.mark.parametrize(
    ("values", "is_different"),
    [([0.1 + 0.2, 0.3], False), ([0.0, 1e-8], True), ([5.0], False), ([], False)],
)
def test_values_differ_by_more_than_rounding(values: list[float], is_different: bool) -> None:
    assert differ(values) is is_different
