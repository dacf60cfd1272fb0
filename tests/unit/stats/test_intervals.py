import math

import numpy as np
import pytest
from scipy import stats

from practicum.core.errors import UserError
from practicum.stats.intervals import (
    RESAMPLES,
    mean_interval,
    share_interval,
    student_quantile,
    wilson_interval,
)

EVALUATIONS = 2000


@pytest.mark.parametrize(("solved", "n"), [(0, 10), (1, 1), (3, 7), (90, 100), (100, 100)])
def test_wilson_equals_scipy(solved: int, n: int) -> None:
    expected = stats.binomtest(solved, n).proportion_ci(method="wilson")

    interval = share_interval([1.0] * solved + [0.0] * (n - solved))

    assert interval.low == pytest.approx(expected.low, abs=1e-12)
    assert interval.high == pytest.approx(expected.high, abs=1e-12)
    assert (interval.value, interval.n, interval.method) == (solved / n, n, "wilson")


def test_wilson_by_hand() -> None:
    """With z = 1.96, p = 0.5, n = 4: 1 + z²/n = 1.9604; centre (0.5 + 0.4802) / 1.9604 = 0.5.

    Half: 1.96 · sqrt(0.25/4 + 3.8416/64) / 1.9604 = 1.96 · 0.35007 / 1.9604 = 0.3500.
    """
    low, high = wilson_interval(0.5, 4)

    assert (low, high) == (pytest.approx(0.15, abs=1e-4), pytest.approx(0.85, abs=1e-4))


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 9, 29, 30, 99, 500])
def test_student_quantile_equals_scipy(freedom: int) -> None:
    assert student_quantile(freedom) == pytest.approx(stats.t.ppf(0.975, freedom), rel=1e-9)


def test_attempts_that_always_agree_count_as_one_attempt_a_task() -> None:
    task_shares = [1.0] * 60 + [0.0] * 40

    repeated, single = share_interval(task_shares, attempts=8), share_interval(task_shares)

    assert (repeated.low, repeated.high) == (single.low, single.high)


def test_attempts_that_differ_within_tasks_narrow_the_interval_but_not_past_their_number() -> None:
    rng = np.random.default_rng(0)
    task_shares = list(rng.binomial(4, 0.5, size=100) / 4)

    interval = share_interval(task_shares, attempts=4)

    one_a_task = wilson_interval(interval.value, 100)
    all_independent = wilson_interval(interval.value, 400)
    assert one_a_task[0] < interval.low <= all_independent[0] + 1e-3
    assert interval.n == 100
    assert interval.method == "wilson, clustered by task"


def test_a_perfect_score_is_never_certain() -> None:
    interval = share_interval([1.0] * 50, attempts=8)

    assert interval.high == 1.0
    assert interval.low == pytest.approx(stats.binomtest(50, 50).proportion_ci(method="wilson").low)


def test_one_more_failure_never_raises_the_lower_bound() -> None:
    shares = [[1.0] * 99 + [1 - failures / 4] for failures in range(5)]

    lows = [share_interval(tasks, attempts=4).low for tasks in shares]

    assert lows == sorted(lows, reverse=True)


@pytest.mark.parametrize("make", [share_interval, mean_interval])
def test_no_scores_is_a_sentence_for_the_user(make) -> None:
    with pytest.raises(UserError, match="no scored attempt"):
        make([])


def test_a_score_that_is_not_a_number_is_refused() -> None:
    with pytest.raises(ValueError, match="finite"):
        mean_interval([1.0, math.nan])


def test_one_reward_has_no_interval() -> None:
    interval = mean_interval([3.0])

    assert (interval.value, interval.low, interval.high) == (3.0, -math.inf, math.inf)


def test_equal_rewards_are_named_as_such() -> None:
    interval = mean_interval([0.1] * 25)

    assert (interval.value, interval.low, interval.high) == (0.1, 0.1, 0.1)
    assert interval.method == "all equal"


def test_fewer_than_ten_rewards_get_students_interval() -> None:
    values = [1.0, 2.0, 4.0, 8.0]

    interval = mean_interval(values)

    expected = stats.t.interval(0.95, 3, loc=3.75, scale=stats.sem(values))
    assert (interval.low, interval.high) == pytest.approx(expected)
    assert interval.method == "student t"


def test_the_same_rewards_give_the_same_interval_in_any_order() -> None:
    values = list(np.random.default_rng(0).exponential(size=40))

    first, again = mean_interval(values), mean_interval(values)
    shuffled = mean_interval(values[::-1])

    assert first == again
    width = first.high - first.low
    assert shuffled.low == pytest.approx(first.low, abs=0.05 * width)
    assert shuffled.high == pytest.approx(first.high, abs=0.05 * width)


def test_the_interval_moves_and_stretches_with_the_rewards() -> None:
    values = np.random.default_rng(1).exponential(size=40)
    plain, moved = mean_interval(list(values)), mean_interval(list(10 * values - 3))

    assert moved.low == pytest.approx(10 * plain.low - 3)
    assert moved.high == pytest.approx(10 * plain.high - 3)


def test_bootstrap_is_close_to_scipys_bca_and_slightly_wider() -> None:
    values = np.random.default_rng(2).exponential(size=60)
    expected = stats.bootstrap(
        (values,), np.mean, n_resamples=20_000, method="BCa", rng=np.random.default_rng(0)
    ).confidence_interval

    interval = mean_interval(list(values))

    width = expected.high - expected.low
    assert interval.low == pytest.approx(expected.low, abs=0.05 * width)
    assert interval.high == pytest.approx(expected.high, abs=0.05 * width)
    assert interval.high - interval.low > width


def test_thousands_of_tasks_are_resampled_in_blocks() -> None:
    values = np.random.default_rng(3).normal(size=1200)

    interval = mean_interval(list(values))

    half = 1.96 * values.std() / math.sqrt(1200)
    assert RESAMPLES * 1200 > 2_000_000
    assert interval.low == pytest.approx(values.mean() - half, abs=0.1 * half)
    assert interval.high == pytest.approx(values.mean() + half, abs=0.1 * half)


def test_wilson_covers_the_truth_exactly_as_often_as_it_should_at_every_share() -> None:
    """Not simulated: the chance of each number of successes is known."""
    bounds = [wilson_interval(solved / 100, 100) for solved in range(101)]
    shares = np.arange(0.1, 0.901, 0.01)
    covered = [
        sum(
            stats.binom.pmf(solved, 100, p)
            for solved, (low, high) in enumerate(bounds)
            if low <= p <= high
        )
        for p in shares
    ]

    assert min(covered) >= 0.925
    assert max(covered) <= 0.975
    assert 0.945 <= float(np.mean(covered)) <= 0.955


def covered_share(samples: np.ndarray, truth: float, make) -> float:
    intervals = [make(row) for row in samples.tolist()]
    return sum(i.low <= truth <= i.high for i in intervals) / len(intervals)


@pytest.mark.parametrize("p", [0.1, 0.3, 0.5, 0.7, 0.9])
def test_success_is_covered_93_to_97_percent_with_one_attempt(p: float) -> None:
    samples = np.random.default_rng(1).random((EVALUATIONS, 100)) < p

    assert 0.93 <= covered_share(samples.astype(float), p, share_interval) <= 0.97


@pytest.mark.parametrize(("n", "p", "agreement"), [(30, 0.6, 0.5), (50, 0.8, 0.5), (100, 0.3, 0.2)])
def test_success_is_covered_93_to_97_percent_with_four_attempts(n, p, agreement) -> None:
    rng = np.random.default_rng(2)
    scale = 1 / agreement - 1
    chances = rng.beta(p * scale, (1 - p) * scale, size=(EVALUATIONS, n))
    samples = rng.binomial(4, chances) / 4

    share = covered_share(samples, p, lambda row: share_interval(row, attempts=4))

    assert 0.93 <= share <= 0.97


def skewed(rng: np.random.Generator, shape: tuple[int, int]) -> tuple[np.ndarray, float]:
    return rng.exponential(size=shape), 1.0


def discrete(rng: np.random.Generator, shape: tuple[int, int]) -> tuple[np.ndarray, float]:
    levels, chances = [0.0, 0.25, 0.5, 1.0], [0.5, 0.2, 0.1, 0.2]
    return rng.choice(levels, p=chances, size=shape), float(np.dot(levels, chances))


def mostly_solved(rng: np.random.Generator, shape: tuple[int, int]) -> tuple[np.ndarray, float]:
    """Four attempts at each task: 8.5 when solved, with chances that differ between tasks."""
    chances = rng.beta(2.4, 0.8, size=shape)
    solved = rng.binomial(4, chances)
    return (8.5 * solved - 0.5 * (4 - solved)) / 4, 8.5 * 0.75 - 0.5 * 0.25


@pytest.mark.parametrize("n", [30, pytest.param(100, marks=pytest.mark.rare)])
@pytest.mark.parametrize("draw", [skewed, discrete, mostly_solved])
def test_mean_reward_is_covered_93_to_97_percent(draw, n: int) -> None:
    """Small evaluations are quick, so there are more of them: the share is then known better."""
    samples, truth = draw(np.random.default_rng(11), (EVALUATIONS * (2 if n < 50 else 1), n))

    assert 0.93 <= covered_share(samples, truth, mean_interval) <= 0.97
