"""95 % intervals that hold for the few, clustered, discrete scores an evaluation gives.

The unit is the task: attempts at one task resemble each other, so they are averaged first and the
interval is over tasks. A share (a mean of values between 0 and 1) gets Wilson's interval, widened
or narrowed by how much attempts at one task really agree. A mean of rewards gets a bootstrap that
resamples tasks. `benchmarks/coverage.py` shows how often each one covers the truth.
"""

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from practicum.core.errors import UserError
from practicum.core.report import Interval

__all__ = [
    "Z",
    "mean_interval",
    "share_interval",
    "small_sample_factor",
    "student_quantile",
    "wilson_interval",
]

Array = npt.NDArray[np.float64]

Z = NormalDist().inv_cdf(0.975)
"""Standard errors either side of an estimate that leave 2.5 % in each tail."""

RESAMPLES = 5000
"""Bootstrap resamples: the bounds then move by about 1 % of the interval's width with the seed."""

SEED = 20250
"""Of the resampling, so that the same scores always give the same interval."""

BLOCK_ENTRIES = 2_000_000
"""Resampling weights held at once (16 MB), so that thousands of tasks fit a small machine."""

BOOTSTRAP_FROM = 10
"""Fewest tasks for which a bootstrap says anything; below it Student's t is used."""


def wilson_interval(share: float, n: float) -> tuple[float, float]:
    """Wilson's bounds for a share seen in `n` independent trials; `n` may be a fraction.

    >>> low, high = wilson_interval(0.9, 100)
    >>> round(low, 3), round(high, 3)
    (0.826, 0.945)
    """
    shrink = 1 + Z * Z / n
    centre = (share + Z * Z / (2 * n)) / shrink
    half = Z * math.sqrt(share * (1 - share) / n + Z * Z / (4 * n * n)) / shrink
    # At a share of 0 or 1 the bound is exactly 0 or 1; rounding must not say otherwise.
    low = 0.0 if share == 0 else max(0.0, centre - half)
    high = 1.0 if share == 1 else min(1.0, centre + half)
    return low, high


def share_interval(values: Sequence[float], attempts: int = 1) -> Interval:
    """Mean of one value in [0, 1] a task, each the average of up to `attempts` attempts.

    With one attempt a task this is Wilson's interval. With more, the number of independent trials
    lies between the number of tasks (attempts at a task always agree) and the number of attempts
    (they are independent); it is estimated from the spread between tasks.

    >>> share_interval([1.0, 0.0, 1.0, 1.0]).method
    'wilson'
    """
    scores = _scores(values)
    share = float(np.clip(scores.mean(), 0.0, 1.0))
    if attempts == 1:
        low, high = wilson_interval(share, scores.size)
        return Interval(value=share, low=low, high=high, n=scores.size, method="wilson")
    trials = scores.size / _agreement(scores, share, attempts)
    low, high = wilson_interval(share, trials)
    method = "wilson, clustered by task"
    return Interval(value=share, low=low, high=high, n=scores.size, method=method)


def _agreement(scores: Array, share: float, attempts: int) -> float:
    """How far attempts at a task repeat each other: 1 always, `1 / attempts` not at all.

    The fewer failures (or successes) were seen, the less the data say about it, and the more it is
    drawn to 1. So a perfect score is judged as one attempt a task, never with false precision.
    """
    most = share * (1 - share)
    seen = float(np.var(scores)) / most if most > 0 else 1.0
    seen = min(1.0, max(seen * small_sample_factor(scores.size), 1 / attempts))
    rarer = scores.size * min(share, 1 - share)
    weight = rarer**2 / (rarer**2 + 1)
    return weight * seen + (1 - weight)


def small_sample_factor(n: int) -> float:
    """What a variance estimated from `n` tasks is multiplied by before the normal's 1.96 is used.

    It makes up for the estimate's own uncertainty, as Student's t does.
    """
    if n == 1:
        return math.inf
    return (student_quantile(n - 1) / Z) ** 2 * n / (n - 1)


def mean_interval(values: Sequence[float]) -> Interval:
    """Mean of one value a task, with bounds from resampling the tasks.

    The bootstrap is bias-corrected and accelerated (BCa), its tails widened from the normal to
    Student's t as small samples need. Values that are all equal carry no information about their
    spread, and the method says so; one value has no interval, and its bounds are infinite.

    >>> mean_interval([2.0] * 20).method
    'all equal'
    """
    scores = _scores(values)
    mean = float(scores.mean())
    if scores.size == 1:
        return Interval(value=mean, low=-math.inf, high=math.inf, n=1, method="one task")
    if np.ptp(scores) == 0:
        mean = float(scores[0])
        return Interval(value=mean, low=mean, high=mean, n=scores.size, method="all equal")
    if scores.size < BOOTSTRAP_FROM:
        half = student_quantile(scores.size - 1) * float(scores.std(ddof=1)) / scores.size**0.5
        low, high, method = mean - half, mean + half, "student t"
    else:
        low, high = _bootstrap_bounds(scores)
        method = "clustered bootstrap"
    return Interval(value=mean, low=low, high=high, n=scores.size, method=method)


def _scores(values: Sequence[float]) -> Array:
    scores = np.asarray(values, dtype=np.float64)
    if scores.size == 0:
        raise UserError(
            "there is no scored attempt to make an interval from; evaluate at least one task, "
            "and look at the failures if every attempt was masked"
        )
    if not np.isfinite(scores).all():
        raise ValueError("scores must be finite numbers; leave unscored attempts out")
    return scores


def _bootstrap_bounds(scores: Array) -> tuple[float, float]:
    n = scores.size
    centred = scores - scores.mean()
    means = np.concatenate([weights @ centred for weights in _weight_blocks(n)])
    tolerance = 1e-12 * float(np.abs(centred).max())
    below = np.count_nonzero(means < -tolerance)
    equal = np.count_nonzero(np.abs(means) <= tolerance)
    normal = NormalDist()
    share = (below + equal / 2) / means.size
    bias = normal.inv_cdf(min(max(share, 1 / means.size), 1 - 1 / means.size))
    skew = float((centred**3).sum() / (6 * (centred**2).sum() ** 1.5))
    reach = student_quantile(n - 1)
    tails = []
    for side in (-reach, reach):
        slack = 1 - skew * (bias + side)
        # Past the pole of the formula the correction has no meaning: take the outermost resample.
        tails.append(normal.cdf(bias + (bias + side) / slack) if slack > 0 else float(side > 0))
    low, high = np.quantile(means, tails)
    return float(scores.mean() + low), float(scores.mean() + high)


def _weight_blocks(n: int) -> Iterator[Array]:
    rows = max(1, min(RESAMPLES, BLOCK_ENTRIES // n))
    for start in range(0, RESAMPLES, rows):
        yield _weights(n, start, min(rows, RESAMPLES - start))


@lru_cache(maxsize=4)
def _weights(n: int, start: int, rows: int) -> Array:
    """How much each of `n` tasks counts in each resample; each row sums to 1."""
    generator = np.random.default_rng([SEED, n, start])
    return generator.multinomial(n, np.full(n, 1 / n), size=rows) / n


@lru_cache(maxsize=256)
def student_quantile(freedom: int, tail: float = 0.975) -> float:
    """Quantile of Student's t, found by bisection on its cumulative distribution.

    >>> round(student_quantile(9), 3)
    2.262
    """
    low, high = 0.0, 1.0
    while _student_cdf(high, freedom) < tail:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _student_cdf(middle, freedom) < tail else (low, middle)
    return (low + high) / 2


def _student_cdf(t: float, freedom: int) -> float:
    """For whole degrees of freedom the distribution is a finite sum of powers of cos(angle)."""
    angle = math.atan(t / math.sqrt(freedom))
    odd = freedom % 2
    term = math.cos(angle) if odd else 1.0
    total = term if freedom > 1 else 0.0
    for i in range(2 + odd, freedom - 1, 2):
        term *= math.cos(angle) ** 2 * (i - 1) / i
        total += term
    if odd:
        return 0.5 + (angle + math.sin(angle) * total) / math.pi
    return 0.5 + math.sin(angle) * total / 2
