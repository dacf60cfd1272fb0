"""Paired comparison of two policies on the same tasks."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from practicum.core.checkpoint import Comparison, EvalReport, Interval, TaskResult
from practicum.core.errors import UserError
from practicum.stats.intervals import (
    Z,
    exact_sign_flip_p,
    mean_interval,
    sampled_sign_flip_p,
    small_sample_factor,
)

N = TypeVar("N", Fraction, float)

ALPHA = 0.05
"""Significance level: how often equal policies may be called different."""


def compare_reports(report: EvalReport, against: EvalReport) -> Comparison:
    """The gains of `report`'s policy over `against`'s, with 95 % intervals.

    Tasks on which either policy has no scored attempt are left out. Where many of the policy's own
    are masked, its success counts them as failed, as in its report; those of the baseline never
    are, for that would be a gain that nobody made. An interval includes 0 unless the sign-flip test
    of the same differences rejects 0, so the two never contradict each other.
    """
    pairs = _pair_tasks(report, against)
    attempts = max(report.attempts_per_task, against.attempts_per_task)
    reward, p_value = _reward_gain(pairs, attempts)
    gain, by_env = None, {}
    if report.success and against.success:
        counted = _pair_tasks(replace(report, tasks=report.counted), against)
        successes = _differences([(_share(a), _share(b)) for a, b in counted], "success")
        gain, p_value = success_difference(successes, attempts)
        by_env = _gain_by_env(counted, attempts)
    return Comparison(
        policy=report.policy,
        against=against.policy,
        n_tasks=(gain or reward).n,
        success_difference=gain,
        reward_difference=reward,
        p_value=p_value,
        difference_by_env=by_env,
    )


def _gain_by_env(
    pairs: Sequence[tuple[TaskResult, TaskResult]], attempts: int
) -> dict[str, Interval]:
    """The gain in each environment that has a scored pair, where there are several."""
    by_env: dict[str, list[Fraction]] = {}
    for ours, theirs in pairs:
        one, other = _share(ours), _share(theirs)
        if one is not None and other is not None:
            by_env.setdefault(ours.env, []).append(one - other)
    if len(by_env) < 2:
        return {}
    return {env: success_difference(found, attempts)[0] for env, found in by_env.items()}


def _reward_gain(
    pairs: Sequence[tuple[TaskResult, TaskResult]], attempts: int
) -> tuple[Interval, float]:
    """The difference in mean reward; that of rewards of 0 and 1 stays between -1 and 1."""
    if is_zero_or_one([task for pair in pairs for task in pair]):
        whole = [(_whole_share(a), _whole_share(b)) for a, b in pairs]
        return success_difference(_differences(whole, "reward"), attempts)
    rewards = _differences([(_reward(a), _reward(b)) for a, b in pairs], "reward")
    return reward_difference(rewards)


def is_zero_or_one(tasks: Sequence[TaskResult]) -> bool:
    """Whether the rewards are shares of a whole: each is 0 or 1, and both occur."""
    return {r for task in tasks for r in task.rewards if r is not None} == {0.0, 1.0}


def _whole_share(task: TaskResult) -> Fraction | None:
    scored = [int(reward) for reward in task.rewards if reward is not None]
    return Fraction(sum(scored), len(scored)) if scored else None


def success_difference(
    differences: Sequence[Fraction], attempts: int = 1
) -> tuple[Interval, float]:
    """Mean of the tasks' differences in success rate, and the p-value of "it is 0"."""
    p_value = exact_sign_flip_p(differences)
    interval = _success_interval(np.array([float(d) for d in differences]), attempts)
    return _hold_zero(interval, p_value), p_value


def reward_difference(differences: Sequence[float]) -> tuple[Interval, float]:
    """Mean of the tasks' differences in mean reward, and the p-value of "it is 0"."""
    p_value = sampled_sign_flip_p(np.asarray(differences, dtype=np.float64))
    return _hold_zero(mean_interval(differences), p_value), p_value


def is_difference(comparison: Comparison) -> bool:
    """Whether one policy does these tasks significantly better than the other."""
    return comparison.p_value <= ALPHA


def _pair_tasks(report: EvalReport, against: EvalReport) -> list[tuple[TaskResult, TaskResult]]:
    if report.env != against.env:
        raise UserError(
            f"{report.policy!r} was evaluated on {report.env!r} and {against.policy!r} on "
            f"{against.env!r}, and a comparison needs the same tasks; evaluate both with the same "
            "--env"
        )
    ours = {task.task_id: task for task in report.tasks}
    theirs = {task.task_id: task for task in against.tasks}
    for side, by_id in ((report, ours), (against, theirs)):
        if len(by_id) != len(side.tasks):
            raise UserError(
                f"the evaluation of {side.policy!r} holds a task more than once "
                f"({len(side.tasks)} results for {len(by_id)} tasks); evaluate it again"
            )
    if ours.keys() != theirs.keys():
        odd = min(ours.keys() ^ theirs.keys())
        raise UserError(
            f"{report.policy!r} and {against.policy!r} were evaluated on different tasks "
            f"({len(ours.keys() & theirs.keys())} shared; {odd!r} is in one only), and a "
            "comparison needs the same ones; evaluate both with the same --env, --n and --seed"
        )
    return [(ours[name], theirs[name]) for name in ours]


def _share(task: TaskResult) -> Fraction | None:
    scored = [success for success in task.successes if success is not None]
    return Fraction(sum(scored), len(scored)) if scored else None


def _reward(task: TaskResult) -> float | None:
    scored = [reward for reward in task.rewards if reward is not None]
    return sum(scored) / len(scored) if scored else None


def _differences(pairs: Sequence[tuple[N | None, N | None]], what: str) -> list[N]:
    both = [a - b for a, b in pairs if a is not None and b is not None]
    if not both:
        raise UserError(
            f"no task has a scored {what} from both policies, so there is nothing to compare; "
            "evaluate again and look at the failures"
        )
    return both


def _hold_zero(interval: Interval, p_value: float) -> Interval:
    if p_value <= ALPHA:
        return interval
    return Interval(
        value=interval.value,
        low=min(interval.low, 0.0),
        high=max(interval.high, 0.0),
        n=interval.n,
        method=interval.method,
    )


def _success_interval(differences: npt.NDArray[np.float64], attempts: int) -> Interval:
    """Tango's score interval; with several attempts per task, for the effective sample size.

    Tango assumes differences of -1, 0 and 1. Differences of averaged attempts vary less; the ratio
    of the two variances tells how many independent trials a task is worth.
    """
    n = differences.size
    gained = float(np.maximum(differences, 0).sum())
    lost = float(np.maximum(-differences, 0).sum())
    mean = (gained - lost) / n
    assumed = gained + lost - n * mean * mean  # n times the variance if all were -1, 0 or 1
    observed = float((differences**2).sum()) - n * mean * mean
    ratio = observed / assumed if assumed > 1e-12 else 1.0
    ratio = min(1.0, max(ratio * small_sample_factor(n), 1 / attempts))
    low, high = tango_bounds(gained / ratio, lost / ratio, n / ratio)
    method = "tango" if attempts == 1 else "tango, clustered by task"
    return Interval(value=mean, low=low, high=high, n=n, method=method)


def tango_bounds(gained: float, lost: float, n: float) -> tuple[float, float]:
    """Tango's (1998) score bounds for a difference of paired proportions.

    `gained` of `n` pairs went from failure to success, `lost` the other way. Unlike the normal
    interval it keeps its coverage when few pairs differ, and has a width when none does.

    >>> low, high = tango_bounds(gained=0, lost=0, n=100)
    >>> round(low, 3), round(high, 3)
    (-0.037, 0.037)
    """
    estimate = (gained - lost) / n

    def holds(difference: float) -> bool:
        """Whether the score test accepts this difference; `losing` maximises the likelihood."""
        linear = (2 * n - gained + lost) * difference - gained - lost
        constant = -lost * difference * (1 - difference)
        root = math.sqrt(max(linear * linear - 8 * n * constant, 0.0))
        losing = (root - linear) / (4 * n)
        variance = n * (2 * losing + difference * (1 - difference))
        return (gained - lost - n * difference) ** 2 <= Z * Z * variance

    return _edge(estimate, -1.0, holds), _edge(estimate, 1.0, holds)


def _edge(inside: float, outside: float, holds: Callable[[float], bool]) -> float:
    """The boundary between a point that holds and one that does not, by bisection."""
    if holds(outside):
        return outside
    for _ in range(60):
        middle = (inside + outside) / 2
        inside, outside = (middle, outside) if holds(middle) else (inside, middle)
    return inside
