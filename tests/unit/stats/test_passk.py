from itertools import combinations

import numpy as np
import pytest

from practicum.core.errors import UserError
from practicum.stats.intervals import pass_at_k, pass_at_k_interval, share_interval


@pytest.mark.parametrize("solved", range(6))
@pytest.mark.parametrize("k", range(1, 6))
def test_equals_the_share_of_subsets_that_hold_a_success(solved: int, k: int) -> None:
    attempts = [i < solved for i in range(5)]
    subsets = list(combinations(attempts, k))

    expected = sum(any(subset) for subset in subsets) / len(subsets)

    assert pass_at_k(5, solved, k) == pytest.approx(expected)


def test_is_unbiased() -> None:
    """The mean over all outcomes of 6 attempts at p = 0.3 is 1 - 0.7², for k = 2."""
    rng = np.random.default_rng(0)
    solved = rng.binomial(6, 0.3, size=20_000)

    mean = np.mean([pass_at_k(6, int(count), 2) for count in solved])

    assert mean == pytest.approx(1 - 0.7**2, abs=0.01)


def test_k_beyond_the_attempts_is_a_sentence_for_the_user() -> None:
    with pytest.raises(UserError, match=r"pass@8 .* 4 attempts .* --k 8"):
        pass_at_k(4, 2, 8)


def test_pass_at_1_is_the_success_share() -> None:
    successes = [(True, False), (True, True), (False, False)]

    interval = pass_at_k_interval(successes, 1)

    assert interval == share_interval([0.5, 1.0, 0.0], attempts=2)


def test_pass_at_all_attempts_is_one_trial_a_task() -> None:
    successes = [(True, False), (True, True), (False, False), (False, True)]

    assert pass_at_k_interval(successes, 2) == share_interval([1.0, 1.0, 0.0, 1.0])


def test_masked_attempts_are_left_out_and_tasks_with_too_few_do_not_count() -> None:
    successes = [(True, None, False), (None, None, True), (False, False, None)]

    interval = pass_at_k_interval(successes, 2)

    assert (interval.value, interval.n) == (0.5, 2)


def test_no_task_with_enough_attempts_is_a_sentence_for_the_user() -> None:
    with pytest.raises(UserError, match="the most is 1"):
        pass_at_k_interval([(True, None), (None, False)], 2)


def test_pass_at_2_of_8_is_covered_93_to_97_percent() -> None:
    rng = np.random.default_rng(4)
    chances = rng.beta(0.9, 2.1, size=(2000, 60))
    solved = rng.random((2000, 60, 8)) < chances[:, :, None]
    truth = 1 - np.mean((1 - rng.beta(0.9, 2.1, size=2_000_000)) ** 2)

    intervals = [pass_at_k_interval(tasks, 2) for tasks in solved.tolist()]

    assert 0.93 <= np.mean([i.low <= truth <= i.high for i in intervals]) <= 0.97
