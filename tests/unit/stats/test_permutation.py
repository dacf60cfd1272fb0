from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy import stats

from practicum.stats.intervals import exact_sign_flip_p, sampled_sign_flip_p


@pytest.mark.parametrize(("gained", "lost", "same"), [(5, 0, 3), (9, 2, 20), (3, 3, 0), (0, 0, 4)])
def test_for_yes_or_no_it_is_mcnemars_exact_test(gained: int, lost: int, same: int) -> None:
    differences = [Fraction(1)] * gained + [Fraction(-1)] * lost + [Fraction(0)] * same
    expected = stats.binomtest(gained, gained + lost).pvalue if gained + lost else 1.0

    assert exact_sign_flip_p(differences) == pytest.approx(expected, abs=1e-12)


def test_for_averaged_attempts_it_equals_counting_every_sign_pattern() -> None:
    differences = [Fraction(n, 12) for n in (3, -4, 6, 9, 0, 12, -1, 8)]
    seen = abs(sum(differences))
    patterns = list(product((-1, 1), repeat=len(differences)))
    extreme = sum(
        abs(sum(s * d for s, d in zip(signs, differences, strict=True))) >= seen
        for signs in patterns
    )

    assert exact_sign_flip_p(differences) == pytest.approx(extreme / len(patterns))


def test_the_sampled_test_agrees_with_the_exact_one() -> None:
    differences = [Fraction(n, 4) for n in (3, -1, 2, 4, 0, 1, -2, 1, 3, 1, -1, 2)]

    sampled = sampled_sign_flip_p(np.array([float(d) for d in differences]))

    assert sampled == pytest.approx(exact_sign_flip_p(differences), abs=0.01)


def test_denominators_too_many_to_count_are_sampled() -> None:
    differences = [Fraction(1, prime) for prime in (2, 3, 5, 7, 11, 13, 17, 19, 23, 29)]

    assert exact_sign_flip_p(differences) == pytest.approx(2 / 2**10, abs=0.002)


def test_differences_that_are_all_zero_say_nothing() -> None:
    assert sampled_sign_flip_p(np.zeros(7)) == 1.0


def test_the_p_value_is_never_zero() -> None:
    assert 0 < sampled_sign_flip_p(np.ones(200)) < 0.001
