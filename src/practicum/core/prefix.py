"""How much two token sequences have in common at their beginning."""

import numpy as np

from practicum.core.sample import Ints

__all__ = ["common_prefix"]


def common_prefix(a: Ints, b: Ints) -> int:
    """The number of leading tokens that are equal.

    >>> common_prefix(np.array([1, 2, 3]), np.array([1, 2, 4, 5]))
    2
    """
    n = min(a.size, b.size)
    differs = np.flatnonzero(a[:n] != b[:n])
    return int(differs[0]) if differs.size else n
