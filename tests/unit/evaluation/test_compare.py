from fractions import Fraction

import numpy as np
import pytest
from scipy import optimize, stats

from practicum.core.checkpoint import EvalReport, TaskResult
from practicum.core.errors import UserError
from practicum.evaluation.compare import (
    compare_reports,
    is_difference,
    reward_difference,
    success_difference,
    tango_bounds,
)
from practicum.evaluation.report import (
    build_report,
    comparison_from_json,
    comparison_to_json,
    report_from_json,
    report_to_json,
)

EVALUATIONS = 2000


def make_report(policy: str, successes, rewards=None, env: str = "math") -> EvalReport:
    """`successes` holds one tuple of attempts a task."""
    rewards = rewards or [tuple(None if s is None else float(s) for s in t) for t in successes]
    tasks = [
        TaskResult(task_id=f"task-{i}", level=1, successes=tuple(s), rewards=tuple(r))
        for i, (s, r) in enumerate(zip(successes, rewards, strict=True))
    ]
    return build_report(tasks, policy=policy, env=env, fingerprint=policy, seed=0)


def test_tango_bounds_solve_the_score_equation_of_the_restricted_likelihood() -> None:
    """The nuisance share is found here by maximising the likelihood, not by a formula."""
    gained, lost, n = 9, 3, 44

    def score(difference: float) -> float:
        def minus_likelihood(losing: float) -> float:
            gaining = losing + difference
            return -stats.multinomial.logpmf(
                [gained, lost, n - gained - lost], n, [gaining, losing, 1 - gaining - losing]
            )

        floor, ceiling = max(0, -difference) + 1e-9, (1 - difference) / 2 - 1e-9
        losing = optimize.minimize_scalar(
            minus_likelihood, bounds=(floor, ceiling), method="bounded", options={"xatol": 1e-10}
        ).x
        variance = n * (2 * losing + difference * (1 - difference))
        return float((gained - lost - n * difference) / np.sqrt(variance))

    low, high = tango_bounds(gained, lost, n)

    assert score(low) == pytest.approx(1.959964, abs=1e-4)
    assert score(high) == pytest.approx(-1.959964, abs=1e-4)


@pytest.mark.parametrize(("gained", "lost", "n"), [(10, 0, 10), (0, 10, 10), (0, 0, 1), (5, 5, 10)])
def test_tango_bounds_stay_within_minus_1_and_1(gained: int, lost: int, n: int) -> None:
    low, high = tango_bounds(gained, lost, n)

    assert -1 <= low <= (gained - lost) / n <= high <= 1
    assert low < high


def test_the_difference_is_after_minus_before_over_the_same_tasks() -> None:
    before = make_report("base", [(False,)] * 8 + [(True,)] * 2)
    after = make_report("trained", [(True,)] * 9 + [(False,)])

    comparison = compare_reports(after, before)

    assert (comparison.policy, comparison.against, comparison.n_tasks) == ("trained", "base", 10)
    assert comparison.success_difference.value == pytest.approx(0.7)
    assert comparison.reward_difference.value == pytest.approx(0.7)
    assert comparison.success_difference.method == "tango"
    # 8 gained, 1 lost: 2 · (1 + 9) / 2⁹
    assert comparison.p_value == pytest.approx(20 / 512)
    assert is_difference(comparison)


def test_tasks_are_paired_by_id_not_by_order() -> None:
    before = make_report("base", [(False,), (True,), (True,)])
    mirrored = EvalReport(
        policy="again",
        env=before.env,
        fingerprint="",
        seed=0,
        attempts_per_task=1,
        success=before.success,
        reward=before.reward,
        tasks=before.tasks[::-1],
    )

    comparison = compare_reports(mirrored, before)

    assert comparison.p_value == 1.0
    assert comparison.success_difference.value == 0.0


def test_identical_reports_show_no_difference_but_no_certainty_either() -> None:
    report = make_report("base", [(True,)] * 60 + [(False,)] * 40)

    comparison = compare_reports(report, report)

    assert not is_difference(comparison)
    assert comparison.success_difference.low < 0 < comparison.success_difference.high


def test_an_interval_holds_zero_exactly_when_the_exact_test_does_not_reject() -> None:
    """5 gained and 0 lost of 30: Tango's interval alone leaves 0 out, the exact p is 0.0625."""
    assert tango_bounds(5, 0, 30)[0] > 0

    interval, p_value = success_difference([Fraction(1)] * 5 + [Fraction(0)] * 25)

    assert p_value == 0.0625
    assert interval.low == 0.0


def test_masked_attempts_are_left_out_of_the_pairs() -> None:
    before = make_report("base", [(False, None), (None, None), (True, False)])
    after = make_report("trained", [(True, True), (True, True), (None, False)])

    comparison = compare_reports(after, before)

    assert comparison.n_tasks == 2
    assert comparison.success_difference.value == pytest.approx((1.0 - 0.5) / 2)
    assert comparison.success_difference.method == "tango, clustered by task"


def test_different_tasks_are_refused_with_a_sentence() -> None:
    ten, nine = make_report("a", [(True,)] * 10), make_report("b", [(True,)] * 9)

    with pytest.raises(UserError, match=r"9 shared; 'task-9' .* same --env, --n and --seed"):
        compare_reports(ten, nine)


def test_different_environments_are_refused_with_a_sentence() -> None:
    math, shell = make_report("a", [(True,)]), make_report("b", [(True,)], env="shell")

    with pytest.raises(UserError, match="'math' and 'b' on 'shell'"):
        compare_reports(math, shell)


def test_a_task_given_twice_is_refused_with_a_sentence() -> None:
    once = make_report("a", [(True,), (False,)])
    task = once.tasks[0]
    twice = build_report([task, task], policy="b", env="math", fingerprint="", seed=0)

    with pytest.raises(UserError, match="'b' holds a task more than once"):
        compare_reports(once, twice)


def test_nothing_scored_on_both_sides_is_refused_with_a_sentence() -> None:
    left = make_report("a", [(True,), (None,)])
    right = make_report("b", [(None,), (True,)])

    with pytest.raises(UserError, match="no task has a scored reward from both"):
        compare_reports(left, right)


def draw_pairs(before: float, after: float, n: int, attempts: int, seed: int):
    """Integer differences of solved attempts; both policies find the same tasks hard."""
    rng = np.random.default_rng(seed)
    ease = rng.uniform(-0.3, 0.3, size=(EVALUATIONS, n))
    solved = [rng.binomial(attempts, np.clip(p + ease, 0, 1)) for p in (before, after)]
    grid = np.linspace(-0.3, 0.3, 100_001)
    truth = np.mean(np.clip(after + grid, 0, 1)) - np.mean(np.clip(before + grid, 0, 1))
    return solved[1] - solved[0], float(truth)


@pytest.mark.parametrize(
    ("before", "after", "n", "attempts"),
    [(0.2, 0.9, 100, 1), (0.5, 0.65, 50, 1), (0.4, 0.6, 30, 1), (0.3, 0.5, 50, 4)],
)
def test_success_differences_are_covered_93_to_97_percent(before, after, n, attempts) -> None:
    pairs, truth = draw_pairs(before, after, n, attempts, seed=5)

    intervals = [
        success_difference([Fraction(d, attempts) for d in row], attempts)[0]
        for row in pairs.tolist()
    ]

    assert 0.93 <= np.mean([i.low <= truth <= i.high for i in intervals]) <= 0.97


@pytest.mark.parametrize(("n", "attempts"), [pytest.param(100, 1, marks=pytest.mark.rare), (30, 4)])
def test_reward_differences_are_covered_93_to_97_percent(n: int, attempts: int) -> None:
    pairs, truth = draw_pairs(0.3, 0.7, n, attempts, seed=6)
    noise = np.random.default_rng(7).poisson(0.5, size=pairs.shape) * 0.5
    rewards = 8.5 * pairs / attempts - noise

    intervals = [reward_difference(row)[0] for row in rewards.tolist()]

    paid = 8.5 * truth - 0.25
    assert 0.93 <= np.mean([i.low <= paid <= i.high for i in intervals]) <= 0.97


@pytest.mark.parametrize(("n", "attempts", "p"), [(100, 1, 0.5), (30, 1, 0.85), (50, 4, 0.5)])
def test_equal_policies_are_called_different_at_most_5_percent_of_the_time(n, attempts, p) -> None:
    pairs, _ = draw_pairs(p, p, n, attempts, seed=8)

    found = [
        success_difference([Fraction(d, attempts) for d in row], attempts) for row in pairs.tolist()
    ]

    assert np.mean([p_value <= 0.05 for _, p_value in found]) <= 0.05
    assert np.mean([not i.low <= 0 <= i.high for i, _ in found]) <= 0.05


def test_equal_policies_rewards_are_told_apart_at_most_about_5_percent_of_the_time() -> None:
    """Few tasks differ, and by much: where a bootstrap alone is wrong 15 % of the time."""
    rng = np.random.default_rng(9)
    rewards = rng.choice([-9.0, 0.0, 8.5], p=[0.05, 0.9, 0.05], size=(EVALUATIONS, 60))
    rewards *= rng.choice([-1.0, 1.0], size=rewards.shape)

    intervals = [reward_difference(row)[0] for row in rewards.tolist()]

    assert np.mean([not i.low <= 0 <= i.high for i in intervals]) <= 0.055


def several(policy: str, by_env: dict[str, list[bool]]) -> EvalReport:
    tasks = [
        TaskResult(task_id=f"{env}-{at}", level=1, successes=(won,), rewards=(float(won),), env=env)
        for env, results in by_env.items()
        for at, won in enumerate(results)
    ]
    return build_report(tasks, policy=policy, env="mixed", fingerprint=policy, seed=0)


def test_of_several_environments_each_has_its_own_success_and_paired_gain() -> None:
    """Each is what a comparison of that environment alone gives."""
    before = several("base", {"math": [False] * 9 + [True], "shell": [True] * 6})
    after = several("new", {"math": [True] * 10, "shell": [True] * 3 + [False] * 3})
    comparison = compare_reports(after, before)
    assert list(after.success_by_env) == list(comparison.difference_by_env) == ["math", "shell"]
    for env, gain in (("math", 0.9), ("shell", -0.5)):
        alone = [
            several(one.policy, {env: [bool(t.successes[0]) for t in one.tasks if t.env == env]})
            for one in (after, before)
        ]
        assert alone[0].success_by_env == {}
        assert comparison.difference_by_env[env] == compare_reports(*alone).success_difference
        assert comparison.difference_by_env[env].value == pytest.approx(gain)
        assert after.success_by_env[env] == alone[0].success
    assert report_from_json(report_to_json(after)) == after
    assert comparison_from_json(comparison_to_json(comparison)) == comparison
