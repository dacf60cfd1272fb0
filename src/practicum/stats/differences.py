"""When figures differ: by more than rounding, than chance, than the noise from step to step."""

import math
from collections.abc import Sequence
from itertools import pairwise
from statistics import median

ROUNDING = 1e-9
"""Sums of equal parts in different orders differ in their last bits."""


def differ(values: Sequence[float]) -> bool:
    """Whether values differ by more than rounding; one alone has nothing to differ from.

    >>> differ([0.1 + 0.2, 0.3]), differ([0.0, 1.0]), differ([1.0])
    (False, True, False)
    """
    return len(values) > 1 and max(values) - min(values) >= ROUNDING


def share_errors(one: float, one_n: float, two: float, two_n: float) -> float:
    """How far the second share lies above the first, in standard errors, by their pooled share.

    >>> round(share_errors(0.5, 100, 0.7, 100), 2)
    2.89
    """
    if not one_n or not two_n:
        return 0.0
    pooled = (one * one_n + two * two_n) / (one_n + two_n)
    error = math.sqrt(pooled * (1.0 - pooled) * (1.0 / one_n + 1.0 / two_n))
    return (two - one) / error if error > 0.0 else 0.0


def mean_errors(difference: float, noise: float, one_n: int, two_n: int) -> float:
    """A difference of two means in standard errors, where each value has this deviation."""
    if abs(difference) < ROUNDING:
        return 0.0
    error = noise * math.sqrt(1.0 / one_n + 1.0 / two_n)
    return difference / error if error > 0.0 else math.copysign(math.inf, difference)


def step_noise(values: Sequence[float]) -> float:
    """The standard deviation from step to step, whatever the values do in the long run.

    By the median difference of neighbours, which is 0.954 s for noise of deviation s: a few leaps
    do not count.
    """
    moves = [abs(b - a) for a, b in pairwise(values)]
    return median(moves) / 0.954 if moves else 0.0
