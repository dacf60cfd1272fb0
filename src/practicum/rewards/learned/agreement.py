"""How far two who label the same traces agree beyond chance."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from practicum.rewards.learned.space import Array

__all__ = ["Agreement", "cohens_kappa"]

Z = 1.959963984540054
"""Standard errors either side that leave 2.5 % in each tail."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """Cohen's kappa with its 95 % interval."""

    n: int
    agreed: float | None
    """Share of traces on which both say the same; None without any."""
    kappa: float | None
    """1 full agreement, 0 as much as chance brings; None where one verdict is all that was given,
    so that there is nothing to agree on."""
    low: float | None
    high: float | None


def cohens_kappa(first: Sequence[bool], second: Sequence[bool]) -> Agreement:
    """Agreement of two raters on the same traces, in the same order.

    The interval has the standard error of Fleiss, Cohen and Everitt (1969), which holds whatever
    the true kappa is. It is taken from the counts with half a trace added to each cell: without
    them full agreement on a handful of traces would be called certain.

    >>> found = cohens_kappa([True] * 25 + [False] * 25, [True] * 20 + [False] * 5 + [True] * 10
    ...     + [False] * 15)
    >>> found.agreed, round(found.kappa, 6)
    (0.7, 0.4)
    """
    a, b = np.asarray(first, dtype=bool), np.asarray(second, dtype=bool)
    if a.size != b.size:
        raise ValueError(f"{a.size} labels cannot be compared with {b.size}")
    if not a.size:
        return Agreement(n=0, agreed=None, kappa=None, low=None, high=None)
    counts = np.array([[np.sum((a == i) & (b == j)) for j in (0, 1)] for i in (0, 1)], float)
    agreed, (kappa, _) = float(np.mean(a == b)), _kappa_and_error(counts)
    if kappa is None:
        return Agreement(n=int(a.size), agreed=agreed, kappa=None, low=None, high=None)
    centre, error = _kappa_and_error(counts + 0.5)
    assert centre is not None  # no cell is empty now
    return Agreement(
        n=int(a.size),
        agreed=agreed,
        kappa=kappa,
        low=max(-1.0, min(kappa, centre - Z * error)),
        high=min(1.0, max(kappa, centre + Z * error)),
    )


def _kappa_and_error(counts: Array) -> tuple[float | None, float]:
    """Kappa and its standard error; None where chance alone would agree on everything."""
    table = counts / counts.sum()
    rows, columns = table.sum(axis=1), table.sum(axis=0)
    agreed, chance = float(np.trace(table)), float(rows @ columns)
    if chance >= 1 - 1e-12:
        return None, 0.0
    kappa = (agreed - chance) / (1 - chance)
    same = sum(table[i, i] * (1 - (rows[i] + columns[i]) * (1 - kappa)) ** 2 for i in (0, 1))
    other = sum(table[i, j] * (columns[i] + rows[j]) ** 2 for i, j in ((0, 1), (1, 0)))
    spread = same + (1 - kappa) ** 2 * other - (kappa - chance * (1 - kappa)) ** 2
    return kappa, math.sqrt(max(0.0, float(spread)) / counts.sum()) / (1 - chance)
