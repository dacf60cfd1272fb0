"""95 % confidence intervals, pass@k and sign-flip tests for small, clustered, discrete samples.

The unit is the task: attempts at one task are correlated, so they are averaged first and the
interval is over tasks. A proportion gets Wilson's interval with an effective sample size estimated
from the agreement of attempts at a task. A mean reward gets a bootstrap that resamples tasks.
`benchmarks/coverage.py` measures how often each one covers the truth.

Sign-flip (permutation) tests: if two policies are equally good, each task's difference is as likely
to have either sign. The p-value is the share of sign patterns at least as extreme as the observed
one.
"""

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import lru_cache
from math import comb
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from practicum.core.checkpoint import Interval
from practicum.core.errors import UserError

Array = npt.NDArray[np.float64]

Z = NormalDist().inv_cdf(0.975)
"""1.96: the 97.5 % quantile of the normal distribution."""

RESAMPLES = 5000
"""Bootstrap resamples: the bounds then move by about 1 % of the interval's width with the seed."""

SEED = 20250
"""Of the resampling, so that the same scores always give the same interval."""

BLOCK_ENTRIES = 2_000_000
"""Resampling weights or signs in memory at once (16 MB), for thousands of tasks."""

BOOTSTRAP_FROM = 10
"""Fewest tasks for a bootstrap; below, Student's t is used."""


def wilson_interval(share: float, n: float) -> tuple[float, float]:
    """Wilson's bounds for a proportion of `n` independent trials; `n` need not be whole.

    >>> low, high = wilson_interval(0.9, 100)
    >>> round(low, 3), round(high, 3)
    (0.826, 0.945)
    """
    shrink = 1 + Z * Z / n
    centre = (share + Z * Z / (2 * n)) / shrink
    half = Z * math.sqrt(share * (1 - share) / n + Z * Z / (4 * n * n)) / shrink
    # At a share of 0 or 1 the bound is exactly 0 or 1, whatever rounding says.
    low = 0.0 if share == 0 else max(0.0, centre - half)
    high = 1.0 if share == 1 else min(1.0, centre + half)
    return low, high


def share_interval(values: Sequence[float], attempts: int = 1) -> Interval:
    """Mean over tasks of values in [0, 1], each the average of up to `attempts` attempts.

    With one attempt per task this is Wilson's interval. With more, the effective sample size lies
    between the number of tasks (attempts at a task always agree) and the number of attempts (they
    are independent); it is estimated from the variance between tasks.

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
    """Tasks per effective trial: 1 if attempts at a task always agree, else down to 1 / attempts.

    The fewer failures (or successes) there are, the less the data tell, and the more the estimate
    is shrunk to 1: a perfect score counts as one attempt per task.
    """
    most = share * (1 - share)
    seen = float(np.var(scores)) / most if most > 0 else 1.0
    seen = min(1.0, max(seen * small_sample_factor(scores.size), 1 / attempts))
    rarer = scores.size * min(share, 1 - share)
    weight = rarer**2 / (rarer**2 + 1)
    return weight * seen + (1 - weight)


def small_sample_factor(n: int) -> float:
    """Factor for a variance estimated from `n` tasks, so that 1.96 acts like Student's t."""
    if n == 1:
        return math.inf
    return (student_quantile(n - 1) / Z) ** 2 * n / (n - 1)


def mean_interval(values: Sequence[float]) -> Interval:
    """Mean over tasks of one value each, with bootstrap bounds.

    The bootstrap is bias-corrected and accelerated (BCa), with Student's t instead of normal
    quantiles for small samples. Equal values get an interval of width 0, which the method names;
    a single value gets infinite bounds.

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
    means = np.concatenate([weights @ centred for weights in _weight_blocks(n)])  # (RESAMPLES,)
    # Means that are 0 in exact arithmetic differ by rounding, and must count as ties.
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
        # BCa's formula has a pole; past it, take the outermost resample.
        tails.append(normal.cdf(bias + (bias + side) / slack) if slack > 0 else float(side > 0))
    low, high = np.quantile(means, tails)
    return float(scores.mean() + low), float(scores.mean() + high)


def _weight_blocks(n: int) -> Iterator[Array]:
    rows = max(1, min(RESAMPLES, BLOCK_ENTRIES // n))
    for start in range(0, RESAMPLES, rows):
        yield _weights(n, start, min(rows, RESAMPLES - start))


@lru_cache(maxsize=4)
def _weights(n: int, start: int, rows: int) -> Array:
    """Weight of each task in each resample, (rows, n); each row sums to 1."""
    generator = np.random.default_rng([SEED, n, start])
    return generator.multinomial(n, np.full(n, 1 / n), size=rows) / n


@lru_cache(maxsize=256)
def student_quantile(freedom: int, tail: float = 0.975) -> float:
    """Quantile of Student's t, by bisection of its distribution function.

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
    """For integer degrees of freedom a finite sum of powers of cos(angle)."""
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


def pass_at_k(attempts: int, solved: int, k: int) -> float:
    """Unbiased estimate for one task (Chen et al. 2021): 1 - C(n - c, k) / C(n, k).

    >>> pass_at_k(attempts=4, solved=1, k=2)
    0.5
    """
    if not 0 <= solved <= attempts:
        raise ValueError(f"{solved} of {attempts} attempts cannot be solved")
    if not 1 <= k <= attempts:
        raise UserError(
            f"pass@{k} cannot be estimated from {attempts} attempts a task; "
            f"k may be 1 to {attempts}, or ask for more attempts with --k {k}"
        )
    return 1 - comb(attempts - solved, k) / comb(attempts, k)


def pass_at_k_interval(successes: Sequence[Sequence[bool | None]], k: int) -> Interval:
    """Mean pass@k over tasks, clustered by task.

    Masked attempts (None) are left out, and so are tasks with fewer than k others.
    """
    kept = [[s for s in task if s is not None] for task in successes]
    counted = [task for task in kept if len(task) >= k]
    if not counted:
        most = max((len(task) for task in kept), default=0)
        raise UserError(
            f"pass@{k} needs a task with {k} scored attempts, and the most is {most}; "
            f"ask for more attempts with --k {k}"
        )
    values = [pass_at_k(len(task), sum(task), k) for task in counted]
    # With exactly k attempts the value is 0 or 1: one trial per task.
    spare = max(len(task) for task in counted) - k
    return share_interval(values, attempts=1 if spare == 0 else spare + k)


FLIPS = 4999
"""Random sign patterns of the sampled test; with the observed one 5,000."""

FLIP_SEED = 20251
"""Of the sign patterns, so that the same scores always give the same p-value."""

LARGEST_COUNT = 20_000_000
"""Additions up to which all sign patterns are counted exactly; beyond, they are sampled."""


def exact_sign_flip_p(differences: Sequence[Fraction]) -> float:
    """Two-sided p-value over all sign patterns; exact McNemar for differences of -1, 0 and 1.

    Counted by dynamic programming over the sums, in whole units of the differences.

    >>> exact_sign_flip_p([Fraction(1)] * 5)
    0.0625
    """
    scale = math.lcm(*(d.denominator for d in differences))
    steps = [int(d * scale) for d in differences if d]
    shared = math.gcd(*steps)
    sizes = [abs(step) // shared for step in steps]
    total = sum(sizes)
    if total * len(sizes) > LARGEST_COUNT:
        return sampled_sign_flip_p(np.array([float(d) for d in differences]))
    chance = np.zeros(total + 1)  # probability of each sum of the positive differences
    chance[0] = 1.0
    for size in sizes:
        chance *= 0.5
        chance[size:] = chance[size:] + chance[:-size]
    sums = np.abs(2 * np.arange(total + 1) - total)
    seen = abs(sum(steps)) // shared if steps else 0
    return min(1.0, float(chance[sums >= seen].sum()))


def sampled_sign_flip_p(differences: Array) -> float:
    """Two-sided p-value over random sign patterns; including the observed one keeps it valid."""
    # Sums that are equal in exact arithmetic differ by rounding, and must count as equal.
    tolerance = 1e-9 * float(np.abs(differences).sum())
    seen = abs(float(differences.sum())) - tolerance
    as_far = sum(
        int(np.count_nonzero(np.abs(signs @ differences) >= seen))
        for signs in _sign_blocks(differences.size)
    )
    return (1 + as_far) / (1 + FLIPS)


def _sign_blocks(n: int) -> Iterator[Array]:
    rows = max(1, min(FLIPS, BLOCK_ENTRIES // n))
    for start in range(0, FLIPS, rows):
        yield _signs(n, start, min(rows, FLIPS - start))


@lru_cache(maxsize=4)
def _signs(n: int, start: int, rows: int) -> Array:
    generator = np.random.default_rng([FLIP_SEED, n, start])
    return generator.choice(np.array([-1.0, 1.0]), size=(rows, n))
