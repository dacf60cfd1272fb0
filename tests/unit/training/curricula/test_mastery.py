"""Success with its interval: by hand, against the evaluation's interval, and by coverage."""

import math

import numpy as np
import pytest
from tests.unit.training.curricula.simulated_groups import make_group, make_task

from practicum.stats.intervals import share_interval, wilson_interval
from practicum.training.curricula.mastery import (
    GroupResult,
    Mastery,
    read_result,
)

TASK = make_task("a")
FOREVER = 1e12
"""A memory in which nothing fades."""


def mastery(shares: list[float], memory: float = FOREVER, episodes: int = 8) -> Mastery:
    found = Mastery()
    for share in shares:
        found.observe(GroupResult(worth=1.0, success=share, episodes=episodes), memory)
    return found


@pytest.mark.parametrize(
    ("solved", "scores", "worth"),
    [
        ([True, False], [1.0, 0.0], 1.0),
        ([True, False], [1.0, 1.0], 0.0),
        ([True, True], [1.0, 0.5], 0.5),
        ([False, False], [0.2, 0.1], 0.5),
        ([False, False], [0.0, 0.0], 0.0),
        ([None, None], [0.2, 0.1], 1.0),
        ([True], [1.0], None),
    ],
)
def test_a_group_is_worth_what_its_variance_teaches(
    solved: list[bool | None], scores: list[float], worth: float | None
) -> None:
    assert read_result(make_group(TASK, solved, scores)).worth == worth


def test_a_group_without_a_usable_episode_taught_nothing_and_says_nothing_of_success() -> None:
    lost = read_result(make_group(TASK, []))
    assert (lost.worth, lost.success, lost.says_success) == (0.0, None, False)


def test_all_solved_counts_as_one_trial_a_group() -> None:
    """By hand: n = 9 groups, all solved; the lower end is n / (n + 1.96²) = 9 / 12.84 = 0.701."""
    bounds = mastery([1.0] * 9).bounds()
    assert bounds is not None
    assert bounds[0] == pytest.approx(9 / (9 + 1.959964**2), abs=1e-6)
    assert bounds[1] == 1.0


def test_the_interval_is_that_of_an_evaluation_of_the_same_groups() -> None:
    shares = [float(x) for x in np.random.default_rng(0).binomial(8, 0.7, size=300) / 8]
    expected = share_interval(shares, attempts=8)
    bounds = mastery(shares).bounds()
    assert bounds is not None
    # The evaluation widens a little by Student's t.
    assert bounds == pytest.approx((expected.low, expected.high), abs=1e-3)


def test_the_interval_covers_the_truth_where_groups_differ_and_recent_ones_count_more() -> None:
    rng = np.random.default_rng(1)
    covered, trials = 0, 600
    for _ in range(trials):
        chances = rng.beta(2.1, 0.9, size=60)  # mean 0.7, tasks of very different difficulty
        shares = [float(x) for x in rng.binomial(8, chances) / 8]
        bounds = mastery(shares, memory=8.0).bounds()
        assert bounds is not None
        covered += bounds[0] <= 0.7 <= bounds[1]
    assert 0.92 <= covered / trials <= 0.98


def test_a_group_counts_half_after_memory_groups() -> None:
    found = mastery([1.0, *[0.0] * 8], memory=8.0)
    weights = [0.5 ** (n / 8) for n in range(9)]
    assert found.estimate == pytest.approx(0.5 / sum(weights))
    assert found.groups**2 / found.squares == pytest.approx(
        sum(weights) ** 2 / sum(w * w for w in weights)
    )


def test_promoted_by_the_lower_end_and_demoted_by_the_upper() -> None:
    """By hand: nine solved groups give a lower end of 0.701, eight one of 0.676.

    With memory for all, k failed groups after n solved ones: the estimate is n / (n + k).
    """
    found = Mastery()
    for number in range(1, 10):
        found.observe(GroupResult(worth=0.0, success=1.0, episodes=8), FOREVER)
        found.judge(0.7, min_episodes=1)
        assert found.is_mastered == (number == 9)
    failed = 0
    while found.is_mastered:
        found.observe(GroupResult(worth=0.0, success=0.0, episodes=8), FOREVER)
        found.judge(0.7, min_episodes=1)
        failed += 1
    share = 9 / (9 + failed)
    # Groups are all or nothing, so a group is one trial: Wilson over 9 + failed of them.
    assert wilson_interval(share, 9 + failed)[1] < 0.7
    assert wilson_interval(9 / (8 + failed), 8 + failed)[1] >= 0.7
    assert found.is_forgotten


def test_nothing_is_mastered_before_the_least_number_of_episodes() -> None:
    found = mastery([1.0] * 20)
    found.judge(0.7, min_episodes=161)
    assert not found.is_mastered
    found.judge(0.7, min_episodes=160)
    assert found.is_mastered


def test_single_episodes_are_compared_with_those_before_them() -> None:
    found = Mastery()
    worth = []
    for success in (1.0, 1.0, 0.0):
        before = found.worth
        found.observe(GroupResult(worth=None, success=success, episodes=1), FOREVER)
        worth.append(found.worth - before)
    assert worth == pytest.approx([0.5, 0.0, 1.0], abs=1e-9)


def test_the_sums_survive_json() -> None:
    found = mastery([0.1, 0.7, 1.0], memory=3.0)
    assert Mastery.from_json(found.to_json()) == found
    assert not math.isnan(found.success)
