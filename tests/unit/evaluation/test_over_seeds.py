from itertools import product

import numpy as np
import pytest
from scipy import stats

from practicum.core.checkpoint import EvalReport, Interval, TaskResult
from practicum.core.errors import UserError
from practicum.evaluation.over_seeds import (
    bar_interval,
    crossed_variance,
    difference_interval,
    gather_scores,
    improvement_interval,
    interquartile_mean,
    iqm_interval,
    reward_interval,
    scores_by_level,
    stratified_bounds,
    success_interval,
    t_quantile,
)
from practicum.evaluation.report import build_report

STUDIES = 400


def draw(seeds: int, tasks: int, success: float, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return (rng.random((seeds, tasks)) < success).astype(np.float64)


def report(successes, level_of=lambda i: 1, env: str = "math", policy: str = "p") -> EvalReport:
    """`successes` holds one tuple of attempts a task."""
    tasks = [
        TaskResult(
            task_id=f"task-{i}",
            level=level_of(i),
            successes=tuple(s),
            rewards=tuple(None if one is None else 2.0 * one for one in s),
        )
        for i, s in enumerate(successes)
    ]
    return build_report(tasks, policy=policy, env=env, fingerprint="f", seed=0)


@pytest.mark.parametrize("freedom", [1.0, 1.3, 2.0, 2.5, 7.7, 30.0, 512.25, 1e4, 1e9])
def test_t_quantiles_are_scipys_for_any_freedom(freedom: float) -> None:
    assert t_quantile(freedom) == pytest.approx(stats.t.ppf(0.975, freedom), rel=1e-6)
    assert t_quantile(freedom, 0.9) == pytest.approx(stats.t.ppf(0.9, freedom), rel=1e-6) or (
        freedom > 1e6
    )


def test_the_variance_has_the_mean_squares_of_a_fitted_two_way_table() -> None:
    """The mean squares are found here by least squares with dummies, not by formulas."""
    rng = np.random.default_rng(3)
    scores = rng.normal(size=(4, 7)) + rng.normal(size=(4, 1)) + 2 * rng.normal(size=(1, 7))
    seed_of, task_of = np.divmod(np.arange(28), 7)
    one = np.ones((28, 1))
    of_seeds, of_tasks = np.eye(4)[seed_of][:, 1:], np.eye(7)[task_of][:, 1:]

    def left(*columns: np.ndarray) -> float:
        design = np.hstack([one, *columns])
        fitted = design @ np.linalg.lstsq(design, scores.ravel(), rcond=None)[0]
        return float(((scores.ravel() - fitted) ** 2).sum())

    seeds = (left(of_tasks) - left(of_seeds, of_tasks)) / 3
    tasks = (left(of_seeds) - left(of_seeds, of_tasks)) / 6
    rest = left(of_seeds, of_tasks) / 18
    assert min(seeds, tasks) > rest  # both parts count
    found = crossed_variance(scores)
    assert found.total == pytest.approx((seeds + tasks - rest) / 28)
    assert found.seeds == pytest.approx((seeds - rest) / 28)
    freedom = (seeds + tasks - rest) ** 2 / (seeds**2 / 3 + tasks**2 / 6 + rest**2 / 18)
    assert found.freedom == pytest.approx(freedom)


def test_where_only_seeds_vary_it_is_students_t_over_seeds() -> None:
    by_seed = np.array([1.0, 2.5, 2.0, 4.0])
    found = reward_interval(np.repeat(by_seed[:, None], 9, axis=1))
    expected = stats.ttest_1samp(by_seed, 0).confidence_interval()
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))


def test_where_only_tasks_vary_the_variance_is_that_of_the_mean_over_tasks() -> None:
    by_task = np.array([1.0, 2.5, 2.0, 4.0, 0.0])
    found = crossed_variance(np.repeat(by_task[None, :], 3, axis=0))
    assert found.total == pytest.approx(by_task.var(ddof=1) / 5)
    assert found.freedom == pytest.approx(4)


def test_a_difference_where_only_seeds_vary_is_welchs() -> None:
    ours, theirs = np.array([0.9, 0.7, 0.8, 0.6]), np.array([0.5, 0.1, 0.3])
    found = difference_interval(
        np.repeat(ours[:, None], 6, axis=1), np.repeat(theirs[:, None], 6, axis=1)
    )
    expected = stats.ttest_ind(ours, theirs, equal_var=False).confidence_interval()
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))


def test_a_difference_where_only_tasks_vary_is_the_paired_t() -> None:
    ours, theirs = np.array([0.9, 0.7, 0.8, 0.6]), np.array([0.5, 0.1, 0.3, 0.6])
    found = difference_interval(np.tile(ours, (3, 1)), np.tile(theirs, (4, 1)))
    expected = stats.ttest_rel(ours, theirs).confidence_interval()
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))


def test_bounds_of_success_solve_the_score_equation() -> None:
    scores = draw(5, 40, 0.8)
    scores[0, :25] = 0  # a seed that is worse
    found, parts = success_interval(scores), crossed_variance(scores)
    assert parts.seeds > 0
    share, cells = scores.mean(), scores.size
    rarer = cells * min(share, 1 - share)
    known = rarer**2 / (rarer**2 + 1)
    rest = known * parts.rest + (1 - known) * share * (1 - share) / 40
    for bound in (found.low, found.high):
        ratio = bound * (1 - bound) / (share * (1 - share))
        variance = parts.seeds * max(ratio, ratio**2) + rest * ratio
        reach = stats.t.ppf(0.975, parts.freedom)
        assert (bound - share) ** 2 == pytest.approx(reach**2 * variance)


def test_bounds_stay_within_0_and_1_and_a_perfect_score_has_a_width() -> None:
    perfect = success_interval(np.ones((5, 100)))
    assert perfect.high == 1.0
    assert 0.9 < perfect.low < 0.98
    one_failure = np.ones((5, 100))
    one_failure[0, 0] = 0
    assert success_interval(one_failure).low < perfect.low
    collapsed = np.ones((5, 100))
    collapsed[0] = 0
    found = success_interval(collapsed)
    assert 0 < found.low < 0.4
    assert 0.9 < found.high < 1
    assert success_interval(np.zeros((3, 20))).low == 0.0
    assert success_interval(np.full((3, 20), 0.5), attempts=4).low < 0.47


def test_differences_stay_within_1_and_no_difference_has_a_width() -> None:
    same = difference_interval(np.ones((5, 50)), np.ones((3, 50)))
    assert same.low == pytest.approx(-same.high)
    assert 0 < same.high < 0.1
    ours, theirs = draw(2, 5, 0.9), draw(2, 5, 0.1)
    wide = difference_interval(ours, theirs)
    assert -1 <= wide.low <= wide.value <= wide.high <= 1


def test_one_seed_has_the_interval_over_tasks_and_one_task_says_nothing() -> None:
    scores = draw(1, 30, 0.6)
    found = success_interval(scores)
    assert found.method == "wilson, one seed"
    assert (found.low, found.high) == pytest.approx(
        tuple(stats.binomtest(int(scores.sum()), 30).proportion_ci(method="wilson"))
    )
    alone = success_interval(np.array([[1.0], [0.0]]))
    assert (alone.low, alone.high) == (0.0, 1.0)
    assert difference_interval(np.ones((2, 1)), np.zeros((2, 1))).low == -1.0


def odds_study(rng: np.random.Generator, centre: float, spread: float, ease: np.ndarray):
    odds = centre + spread * rng.normal(size=(5, 1)) + 1.5 * ease[None, :]
    return (rng.random(odds.shape) < 1 / (1 + np.exp(-odds))).astype(float)


@pytest.mark.parametrize("spread", [0.3, 1.0])
def test_the_interval_covers_the_truth_and_equal_studies_seldom_differ(spread: float) -> None:
    """A short form of benchmarks/seed_coverage.py, with success around 0.5."""
    rng = np.random.default_rng(11)
    covered = called = naive = 0
    for _ in range(STUDIES):
        ease = rng.normal(size=50)
        ours = odds_study(rng, 0.0, spread, ease)
        found = success_interval(ours)
        covered += found.low <= 0.5 <= found.high
        difference = difference_interval(ours, odds_study(rng, 0.0, spread, ease))
        called += not difference.low <= 0 <= difference.high
        pooled = stats.binomtest(int(ours.sum()), ours.size).proportion_ci(method="wilson")
        naive += pooled.low <= 0.5 <= pooled.high
    assert 0.92 <= covered / STUDIES <= 0.985
    assert called / STUDIES <= 0.06
    assert naive < covered  # 250 attempts taken for independent ones


@pytest.mark.parametrize("size", [(1, 1), (3, 1), (5, 1), (5, 3), (10, 2)])
def test_the_interquartile_mean_is_scipys_trimmed_mean(size: tuple[int, int]) -> None:
    scores = np.random.default_rng(5).random(size)
    assert interquartile_mean(scores) == pytest.approx(stats.trim_mean(scores, 0.25, axis=None))


def test_stratified_bounds_are_those_of_all_resamples() -> None:
    scores = np.array([[0.1, 0.9], [0.4, 0.6], [0.8, 0.95]])
    every = []
    for first in product(range(3), repeat=3):
        for second in product(range(3), repeat=3):
            drawn = np.stack([scores[list(first), 0], scores[list(second), 1]], axis=1)
            every.append(interquartile_mean(drawn))
    low, high = stratified_bounds(scores, interquartile_mean, 20_000)
    expected = np.quantile(every, (0.025, 0.975))
    assert (low, high) == pytest.approx(tuple(expected), abs=0.03)
    assert iqm_interval(scores).n == 3
    assert iqm_interval(scores[:1]).method == "one seed"


def test_levels_are_strata() -> None:
    levels = report([(1,), (0,), (1,), (1,)], level_of=lambda i: 1 + i // 2)
    found = scores_by_level(gather_scores([levels, levels]))
    assert found.tolist() == [[0.5, 1.0], [0.5, 1.0]]


def test_the_probability_of_improvement_is_mann_whitneys() -> None:
    ours, theirs = [0.9, 0.8, 0.8, 1.0], [0.8, 0.3, 0.95]
    found = improvement_interval(ours, theirs)
    assert found.value == pytest.approx(stats.mannwhitneyu(ours, theirs).statistic / 12)
    grid = np.linspace(0, 1, 200_001)[1:-1]
    shared = (1 - grid) / (2 - grid) + grid / (1 + grid)
    variance = grid * (1 - grid) * (1 + (3.5 - 1) * shared) / 12
    held = grid[(grid - found.value) ** 2 <= stats.norm.ppf(0.975) ** 2 * variance]
    assert (found.low, found.high) == pytest.approx((held[0], held[-1]), abs=1e-4)


def test_the_interval_of_improvement_covers_the_truth_with_few_seeds() -> None:
    rng = np.random.default_rng(2)
    truth = stats.norm.cdf(1 / np.sqrt(2))
    held = 0
    for _ in range(STUDIES):
        found = improvement_interval(rng.normal(size=5) + 1, rng.normal(size=5))
        held += found.low <= truth <= found.high
    assert held / STUDIES > 0.93


def test_seeds_that_do_not_overlap_leave_room_for_doubt() -> None:
    found = improvement_interval([0.9, 0.8, 1.0], [0.1, 0.2, 0.3])
    assert (found.value, found.high) == (1.0, 1.0)
    assert found.low < 0.75


def test_a_seed_is_at_the_bar_by_its_lower_bound() -> None:
    def seed(low: float) -> Interval:
        return Interval(value=0.95, low=low, high=1.0, n=100, method="wilson")

    found = bar_interval([seed(0.8), seed(0.79), seed(0.9), seed(0.2)], 0.8)
    assert found.value == 0.5
    expected = stats.binomtest(2, 4).proportion_ci(method="wilson")
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))


def test_tasks_without_a_score_by_every_seed_are_left_out_unless_they_are_many() -> None:
    seeds = [report([(1, 0), (1, 1), (None, None)]), report([(0, 0), (None, 1), (1, 1)])]
    found = gather_scores(seeds, is_baseline=True)
    assert found.success.tolist() == [[0.5, 1.0], [0.0, 1.0]]
    assert found.reward.tolist() == [[1.0, 2.0], [0.0, 2.0]]
    assert (found.left_out, found.attempts, found.n_seeds, found.n_tasks) == (1, 2, 2, 2)
    counted = gather_scores(seeds)
    assert counted.success.tolist() == [[0.5, 1.0, 0.0], [0.0, 0.5, 1.0]]
    assert counted.reward.tolist() == found.reward.tolist()
    assert (counted.left_out, counted.masked, counted.n_tasks) == (0, 3, 3)


def test_seeds_on_different_tasks_are_refused() -> None:
    with pytest.raises(UserError, match="different tasks"):
        gather_scores([report([(1,), (0,)]), report([(1,)])])
    with pytest.raises(UserError, match="different tasks"):
        gather_scores([report([(1,)]), report([(1,)], env="shell")])
    with pytest.raises(UserError, match="no task has a scored attempt from every seed"):
        gather_scores([report([(1,), (None,)]), report([(None,), (1,)])])
    with pytest.raises(UserError, match="no seed has an evaluation"):
        gather_scores([])
