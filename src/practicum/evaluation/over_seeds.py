"""Scores over seeds and tasks, with intervals for both sources of chance.

Every seed of a study is evaluated on the same held-out tasks, so the scores are a table of seeds by
tasks, and its mean varies with the seeds that were drawn and with the tasks. In the two-way table
without repetition, with S seeds, T tasks and the mean squares of seeds, of tasks and of the rest,

    variance of the mean = (rest + max(0, seeds - rest) + max(0, tasks - rest)) / (S T)

and Satterthwaite's degrees of freedom are over the mean squares that count; that of seeds always
does, since few seeds that differ often look as if they did not. For success, whose variance goes to
0 at 0 and 1, the interval holds the means that a score test does not reject: the part of tasks and
of the rest moves with m (1 - m), as in Wilson's interval; the part of seeds with its square where
that is more, since seeds that mostly succeed fail far more than they excel.

`benchmarks/seed_coverage.py` measures how often these intervals cover the truth. No interval knows
of a kind of seed that was not drawn: where one seed in five collapses, five seeds show none in a
third of the studies. The share of seeds at a bar, whose interval is over seeds alone, says so.

Interquartile mean and probability of improvement are those of Agarwal et al. 2021 (`rliable`).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from practicum.core.checkpoint import (
    EvalReport,
    Interval,
    TaskResult,
    are_many_masked,
    masked_as_failed,
)
from practicum.core.errors import UserError
from practicum.evaluation.compare import tango_bounds
from practicum.stats.intervals import (
    RESAMPLES,
    SEED,
    Z,
    mean_interval,
    share_interval,
    wilson_interval,
)

Array = npt.NDArray[np.float64]

BAR = 0.8
"""What the lower bound of a seed's success is held against, unless told."""

TINY = 1e-12
"""A variance below this is rounding."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedScores:
    """The evaluations of a study's seeds on the same tasks."""

    env: str
    success: Array
    """Share of solved attempts, (S, T): what counts, as in `EvalReport.success`."""
    scored: Array
    """The same of the scored attempts alone, at tasks that every seed has some at."""
    failed: Array
    """The same of all attempts at all tasks, the masked as failed."""
    reward: Array
    """Mean reward of the scored attempts, (S, T')."""
    task_ids: tuple[str, ...]
    levels: tuple[int, ...]
    """Of each task."""
    reward_ids: tuple[str, ...]
    """The tasks of `reward`."""
    attempts: int
    """At each task by each seed, at most."""
    reports: tuple[EvalReport, ...]
    """Of each seed alone, over all its tasks."""
    masked: int = 0
    """Attempts of all seeds without a score."""
    left_out: int = 0
    """Tasks at which some seed has no scored attempt, where that is not counted as failed."""

    @property
    def seed_success(self) -> tuple[Interval, ...]:
        """Of each seed alone."""
        return tuple(report.success for report in self.reports if report.success)

    @property
    def n_seeds(self) -> int:
        """How many seeds there are."""
        return int(self.success.shape[0])

    @property
    def n_tasks(self) -> int:
        """How many tasks every seed has scored attempts at."""
        return int(self.success.shape[1])


def gather_scores(reports: Sequence[EvalReport], *, is_baseline: bool = False) -> SeedScores:
    """The table of seeds by tasks; tasks that some seed has no scored attempt at are left out.

    Where many attempts are masked, success counts them as failed, but never those of a baseline:
    that would be a gain that nobody made.
    """
    if not reports:
        raise UserError("no seed has an evaluation yet; finish one with practicum train --resume")
    first = reports[0]
    by_id = [{task.task_id: task for task in report.tasks} for report in reports]
    for report, found in zip(reports, by_id, strict=True):
        if report.env != first.env or found.keys() != by_id[0].keys():
            raise UserError(
                f"{report.policy!r} and {first.policy!r} were evaluated on different tasks, and "
                "seeds are compared on the same ones; evaluate them with the same eval.n, "
                "eval.seed and env"
            )
    if unknown := [report for report in reports if report.success is None]:
        raise UserError(
            f"the success of {unknown[0].policy!r} is unknown, and seeds are compared by success; "
            "train them with what counts as one, such as reward.success_at=0.5"
        )
    kept = [name for name in by_id[0] if all(_is_scored(tasks[name]) for tasks in by_id)]
    if not kept:
        raise UserError(
            "no task has a scored attempt from every seed, so there is nothing to compare; "
            "evaluate again and look at the failures"
        )
    masked, attempts = sum(r.masked for r in reports), sum(r.attempts for r in reports)
    counts_masked = are_many_masked(masked, attempts) and not is_baseline
    scored = np.array([[_mean(tasks[name].successes) for name in kept] for tasks in by_id])
    filled = [{t.task_id: t for t in masked_as_failed(tuple(tasks.values()))} for tasks in by_id]
    failed = np.array([[_mean(tasks[name].successes) for name in by_id[0]] for tasks in filled])
    counted = list(by_id[0]) if counts_masked else kept
    return SeedScores(
        env=first.env,
        success=failed if counts_masked else scored,
        scored=scored,
        failed=failed,
        reward=np.array([[_mean(tasks[name].rewards) for name in kept] for tasks in by_id]),
        task_ids=tuple(counted),
        levels=tuple(by_id[0][name].level for name in counted),
        reward_ids=tuple(kept),
        attempts=max(report.attempts_per_task for report in reports),
        reports=tuple(reports),
        masked=masked,
        left_out=len(by_id[0]) - len(counted),
    )


def _is_scored(task: TaskResult) -> bool:
    return any(s is not None for s in task.successes) and any(r is not None for r in task.rewards)


def _mean(values: Sequence[float | bool | None]) -> float:
    scored = [float(value) for value in values if value is not None]
    return sum(scored) / len(scored)


class Variance(NamedTuple):
    """The variance of a mean over seeds and tasks, in its parts, with its degrees of freedom."""

    seeds: float
    rest: float
    """Of tasks, and of seeds at tasks."""
    freedom: float

    @property
    def total(self) -> float:
        """All of it."""
        return self.seeds + self.rest


def crossed_variance(scores: Array) -> Variance:
    """The variance of the mean of a table of seeds by tasks, at least two of each."""
    n_seeds, n_tasks = scores.shape
    mean, rows, columns = scores.mean(), scores.mean(axis=1), scores.mean(axis=0)
    seeds = n_tasks * float(((rows - mean) ** 2).sum()) / (n_seeds - 1)
    tasks = n_seeds * float(((columns - mean) ** 2).sum()) / (n_tasks - 1)
    residual = scores - rows[:, None] - columns[None, :] + mean  # (S, T)
    both = (n_seeds - 1) * (n_tasks - 1)
    rest = float((residual**2).sum()) / both
    has_seeds, has_tasks = seeds > rest, tasks > rest
    of_seeds = seeds - rest if has_seeds else 0.0
    of_rest = rest + (tasks - rest if has_tasks else 0.0)
    freedom = _satterthwaite(
        of_seeds + of_rest,
        (
            (seeds, n_seeds - 1),
            (float(has_tasks) * tasks, n_tasks - 1),
            ((1.0 - has_seeds - has_tasks) * rest, both),
        ),
    )
    cells = n_seeds * n_tasks
    return Variance(of_seeds / cells, of_rest / cells, freedom)


def _satterthwaite(total: float, parts: Sequence[tuple[float, int]]) -> float:
    """Degrees of freedom of a sum of mean squares, each given with its own; at least 1."""
    spread = sum(part * part / freedom for part, freedom in parts)
    return max(1.0, total * total / spread) if spread > 0 else float(parts[1][1])


def success_interval(scores: Array, attempts: int = 1) -> Interval:
    """Mean success over seeds and tasks, with bounds for the chance of both.

    >>> table = np.array([[1.0, 1.0, 0.0, 1.0], [1.0, 0.0, 0.0, 1.0], [1.0, 1.0, 0.0, 1.0]])
    >>> found = success_interval(table)
    >>> 0 < found.low < found.value < found.high < 1
    True
    """
    n_seeds, n_tasks = scores.shape
    if n_seeds == 1:
        only = share_interval(scores[0], attempts)
        return _interval(only.value, (only.low, only.high), n_tasks, f"{only.method}, one seed")
    share, cells = float(np.clip(scores.mean(), 0.0, 1.0)), scores.size
    if n_tasks == 1:
        return _interval(share, (0.0, 1.0), cells, "one task")
    most = share * (1 - share)
    method = "seeds by tasks, score"
    if most < TINY:
        return _interval(share, wilson_interval(share, n_tasks), cells, method)
    found = crossed_variance(scores)
    # Few failures tell little of how they cluster: as in a perfect score, a task then counts once.
    rarer = cells * min(share, 1 - share)
    known = rarer**2 / (rarer**2 + 1)
    rest = known * found.rest + (1 - known) * most / n_tasks
    rest = max(rest, most / (cells * attempts) - found.seeds)
    bounds = _score_bounds(share, found.seeds, rest, t_quantile(found.freedom))
    return _interval(share, bounds, cells, method)


def _score_bounds(share: float, seeds: float, rest: float, reach: float) -> tuple[float, float]:
    most = share * (1 - share)

    def edge(outside: float) -> float:
        inside = share
        for _ in range(60):
            middle = (inside + outside) / 2
            ratio = middle * (1 - middle) / most
            variance = seeds * max(ratio, ratio * ratio) + rest * ratio
            holds = (share - middle) ** 2 <= reach * reach * variance
            inside, outside = (middle, outside) if holds else (inside, middle)
        return inside

    return edge(0.0), edge(1.0)


def reward_interval(scores: Array) -> Interval:
    """Mean reward over seeds and tasks, with Student's t."""
    n_seeds, n_tasks = scores.shape
    if n_seeds == 1:
        return mean_interval(scores[0])
    mean = float(scores.mean())
    if n_tasks == 1:
        return _interval(mean, (-math.inf, math.inf), scores.size, "one task")
    found = crossed_variance(scores)
    if found.total < TINY:
        return _interval(mean, (mean, mean), scores.size, "all equal")
    half = t_quantile(found.freedom) * math.sqrt(found.total)
    return _interval(mean, (mean - half, mean + half), scores.size, "seeds by tasks, t")


def difference_interval(ours: Array, theirs: Array, *, bounded: bool = True) -> Interval:
    """Difference of two studies' means on the same tasks, in the same order.

    Tasks are paired. Seeds are not, even where both studies have the same: with few seeds pairing
    costs more degrees of freedom than it saves variance, and what equal seeds have in common only
    makes the interval wider than need be.

    Args:
        ours: Scores, (S, T).
        theirs: Scores of the other study, (S', T).
        bounded: Whether scores are between 0 and 1.
    """
    mean, n_tasks = float(ours.mean() - theirs.mean()), ours.shape[1]
    by_task = ours.mean(axis=0) - theirs.mean(axis=0)  # (T,)
    if n_tasks == 1:
        reach = 1.0 if bounded else math.inf
        return _interval(mean, (-reach, reach), 1, "one task")
    if min(len(ours), len(theirs)) == 1:
        variance, freedom = float(by_task.var(ddof=1)) / n_tasks, float(n_tasks - 1)
        method = "tasks, t; one seed"
    else:
        variance, freedom = _difference_variance(ours, theirs, by_task)
        method = "seeds by tasks, t"
    if variance < TINY:
        bounds = tango_bounds(0, 0, n_tasks) if bounded and mean == 0 else (mean, mean)
        return _interval(mean, bounds, n_tasks, method if bounded else "all equal")
    half = t_quantile(freedom) * math.sqrt(variance)
    low, high = mean - half, mean + half
    if bounded:
        low, high = max(low, -1.0), min(high, 1.0)
    return _interval(mean, (low, high), n_tasks, method)


def _difference_variance(ours: Array, theirs: Array, by_task: Array) -> tuple[float, float]:
    """Variance and degrees of freedom, from the seeds of each side and the tasks' differences."""
    n_tasks = by_task.size
    parts: list[tuple[float, int]] = []
    total = noise = 0.0
    sides: list[tuple[float, float, int]] = []
    for scores in (ours, theirs):
        n_seeds, cells = len(scores), scores.size
        rows, columns, mean = scores.mean(axis=1), scores.mean(axis=0), scores.mean()
        seeds = float(((rows - mean) ** 2).sum()) / (n_seeds - 1) / n_seeds
        residual = scores - rows[:, None] - columns[None, :] + mean  # (S, T)
        rest = float((residual**2).sum()) / ((n_seeds - 1) * (n_tasks - 1)) / cells
        sides.append((seeds, rest, n_seeds - 1))
        noise += rest
    tasks = float(by_task.var(ddof=1)) / n_tasks
    has_tasks = tasks > noise
    total = max(tasks, noise)
    for seeds, rest, freedom in sides:
        has_seeds = seeds > rest
        total += seeds - rest if has_seeds else 0.0
        parts.append((seeds, freedom))
        parts.append(((1.0 - has_seeds - has_tasks) * rest, freedom * (n_tasks - 1)))
    parts.insert(1, (float(has_tasks) * tasks, n_tasks - 1))
    return total, _satterthwaite(total, parts)


def _interval(value: float, bounds: tuple[float, float], n: int, method: str) -> Interval:
    return Interval(value=value, low=bounds[0], high=bounds[1], n=n, method=method)


@lru_cache(maxsize=4096)
def t_quantile(freedom: float, tail: float = 0.975) -> float:
    """Quantile of Student's t for degrees of freedom that need not be whole.

    The density in the angle atan(t / sqrt(freedom)) is a power of its cosine, which is integrated.

    >>> round(t_quantile(9.0), 3), round(t_quantile(2.5), 3)
    (2.262, 3.575)
    """
    if freedom > 1e6:
        return Z
    scale = math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)) / math.sqrt(math.pi)
    nodes, weights = _legendre()

    def cdf(t: float) -> float:
        angle = math.atan(t / math.sqrt(freedom))
        powers = np.cos(angle * nodes) ** (freedom - 1)
        return 0.5 + scale * angle * float(weights @ powers)

    low, high = 0.0, 1.0
    while cdf(high) < tail:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if cdf(middle) < tail else (low, middle)
    return (low + high) / 2


@lru_cache(maxsize=1)
def _legendre() -> tuple[Array, Array]:
    """Gauss-Legendre nodes and weights on [0, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(100)
    return (nodes + 1) / 2, weights / 2


def interquartile_mean(scores: Array) -> float:
    """Mean of the scores without the lowest and the highest quarter, rounded down (`rliable`).

    >>> interquartile_mean(np.array([0.0, 0.5, 0.6, 0.7, 1.0]))
    0.6
    """
    ordered = np.sort(scores, axis=None)
    cut = ordered.size // 4
    return float(ordered[cut : ordered.size - cut].mean())


def iqm_interval(scores: Array) -> Interval:
    """Interquartile mean of scores by seed and level, (S, L), with `rliable`'s bounds.

    They are percentiles of a stratified bootstrap: at each level seeds are drawn by themselves.
    With few seeds such bounds are narrow; they are here to be held against others' tables.
    """
    value = interquartile_mean(scores)
    if len(scores) == 1:
        return _interval(value, (-math.inf, math.inf), 1, "one seed")
    return _interval(
        value, stratified_bounds(scores, interquartile_mean), len(scores), "stratified bootstrap"
    )


def stratified_bounds(
    scores: Array, statistic: Callable[[Array], float], resamples: int = RESAMPLES
) -> tuple[float, float]:
    """95 % percentile bounds; rows are drawn anew for each column by itself."""
    generator = np.random.default_rng([SEED, *scores.shape])
    drawn = generator.integers(len(scores), size=(resamples, *scores.shape))  # (R, S, L)
    found = [statistic(np.take_along_axis(scores, rows, axis=0)) for rows in drawn]
    low, high = np.quantile(found, (0.025, 0.975))
    return float(low), float(high)


def scores_by_level(scores: SeedScores) -> Array:
    """Each seed's success at each level, (S, L)."""
    levels = np.array(scores.levels)
    shares = [scores.success[:, levels == level].mean(axis=1) for level in np.unique(levels)]
    return np.stack(shares, axis=1)


def improvement_interval(ours: npt.ArrayLike, theirs: npt.ArrayLike) -> Interval:
    """Probability that a seed of ours is above a seed of theirs, ties counted half.

    The Mann-Whitney statistic over the number of pairs, with Newcombe's (2006) score bounds
    (method 5), which keep a width where the two sides do not overlap.

    >>> found = improvement_interval([0.9, 0.8, 1.0], [0.1, 0.2, 0.8])
    >>> round(found.value, 3)
    0.944
    """
    first, second = np.asarray(ours, dtype=np.float64), np.asarray(theirs, dtype=np.float64)
    apart = first[:, None] - second[None, :]  # (S, S')
    value = float(((apart > 0) + 0.5 * (apart == 0)).mean())
    pairs, middle = first.size * second.size, (first.size + second.size) / 2

    def holds(chance: float) -> bool:
        shared = (1 - chance) / (2 - chance) + chance / (1 + chance)
        variance = chance * (1 - chance) * (1 + (middle - 1) * shared) / pairs
        return (value - chance) ** 2 <= Z * Z * variance

    def edge(outside: float) -> float:
        inside = value
        for _ in range(60):
            half = (inside + outside) / 2
            inside, outside = (half, outside) if holds(half) else (inside, half)
        return inside

    bounds = (0.0 if value == 0 else edge(0.0), 1.0 if value == 1 else edge(1.0))
    return _interval(value, bounds, pairs, "mann-whitney, newcombe")


def bar_interval(seeds: Sequence[Interval], bar: float) -> Interval:
    """Share of seeds whose own lower bound is at the bar, with Wilson's bounds over seeds."""
    share = sum(one.low >= bar for one in seeds) / len(seeds)
    return _interval(share, wilson_interval(share, len(seeds)), len(seeds), "wilson over seeds")
