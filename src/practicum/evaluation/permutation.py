"""Tests by flipping signs.

If two policies are equally good, each task's difference is as likely to have either sign. How many
of the sign patterns would look at least as different as the one seen is the p-value.
"""

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import lru_cache

import numpy as np
import numpy.typing as npt

__all__ = ["exact_sign_flip_p", "sampled_sign_flip_p"]

Array = npt.NDArray[np.float64]

FLIPS = 4999
"""Random sign patterns of the sampled test; with the one seen they are 5,000."""

SEED = 20251
"""Of the sign patterns, so that the same scores always give the same answer."""

BLOCK_ENTRIES = 2_000_000
"""Signs held at once (16 MB)."""

LARGEST_COUNT = 20_000_000
"""Additions up to which every sign pattern is counted; beyond, patterns are sampled."""


def exact_sign_flip_p(differences: Sequence[Fraction]) -> float:
    """Two-sided p-value over all sign patterns; for differences of -1, 0 and 1, exact McNemar.

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
    chance = np.zeros(total + 1)  # of each sum of the sizes that keep a plus
    chance[0] = 1.0
    for size in sizes:
        chance *= 0.5
        chance[size:] = chance[size:] + chance[:-size]
    sums = np.abs(2 * np.arange(total + 1) - total)
    seen = abs(sum(steps)) // shared if steps else 0
    return min(1.0, float(chance[sums >= seen].sum()))


def sampled_sign_flip_p(differences: Array) -> float:
    """Two-sided p-value over random sign patterns; counting the one seen keeps the test exact."""
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
    generator = np.random.default_rng([SEED, n, start])
    return generator.choice(np.array([-1.0, 1.0]), size=(rows, n))
