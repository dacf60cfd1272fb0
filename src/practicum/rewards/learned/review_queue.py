"""`ReviewQueue`: which trace a person labels next (active learning); and Cohen's kappa.

Uncertainty sampling alone picks near-duplicates, of which the second teaches nothing, and outliers,
whose label says little about the rest. So a trace is ranked by the labeler's uncertainty, times its
distance from traces seen already (novelty), times its density.

Before there is a labeler, the traces come first that represent the most others not yet represented
(greedy facility location).

Distances are taken along the first principal components: in a thousand hashed columns any two
traces are about equally far apart.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from practicum.rewards.learned.features import Array
from practicum.rewards.learned.labeler import Labeler, Prediction, TracePool, can_learn
from practicum.rewards.learned.logistic import STRENGTHS

Z = 1.959963984540054
"""The 97.5 % quantile of the normal distribution."""

DIRECTIONS = 50

LANDMARKS = 500
"""Random traces that density and representation are measured against, for speed."""

Order = Literal["uncertain", "random", "oldest"]
"""By active learning; at random, for unbiased measurements; in stored order."""

FIRST = 10
"""Labels before uncertainty is used: until then representative traces are chosen."""

VALIDATED_EVERY = 5
"""Labels between two cross-validations of the labeler's penalty."""

BATCH_SHARE = 0.02
"""Traces chosen at once, as a share of the labels: with many, one more changes little."""


class ReviewQueue:
    """Gives out traces one at a time, never those already labelled or skipped.

    Example:
        ```
        queue = ReviewQueue(pool, labels={}, order="uncertain", seed=0)
        while (name := queue.next()) is not None:
            queue.answer(name, ask(name))
        ```
    """

    def __init__(
        self, pool: TracePool, labels: Mapping[str, float], order: Order, seed: int
    ) -> None:
        self._pool = pool
        self._place = {name: index for index, name in enumerate(pool.ids)}
        self._order = order
        self._seed = seed
        self.labels = {name: labels[name] for name in pool.ids if name in labels}
        """People's labels of the traces in the pool."""
        self._skipped: set[str] = set()
        self._waiting: list[str] = []
        self._fitted: Labeler | None = None
        """Fitted to the current labels; None once they have changed."""
        self._strength: tuple[int, float] | None = None
        """Number of labels when the penalty was cross-validated, and the penalty."""

    def next(self) -> str | None:
        """The trace to show now; the same until it is answered or skipped."""
        self._waiting = [name for name in self._waiting if not self._is_seen(name)]
        if not self._waiting:
            self._waiting = self._choose()
        return self._waiting[0] if self._waiting else None

    def answer(self, name: str, value: float) -> None:
        """Record a person's label."""
        self.labels[name] = value
        self._fitted = None

    def skip(self, name: str) -> None:
        """Skip a trace for now."""
        self._skipped.add(name)

    def take_back(self, name: str) -> None:
        """Remove the answer, and show the trace again next."""
        self.labels.pop(name, None)
        self._fitted = None
        self._skipped.discard(name)
        self._waiting.insert(0, name)

    def suggestion(self, name: str) -> Prediction | None:
        """The current labeler's prediction; None while there are too few labels."""
        if not can_learn(self.labels):
            return None
        return self._labeler().predict(self._pool.raw.take([self._place[name]]))[0]

    def knows(self, name: str) -> bool:
        """Whether a trace is in the pool."""
        return name in self._place

    def left(self) -> int:
        """Number of traces neither labelled nor skipped."""
        return sum(not self._is_seen(name) for name in self._pool.ids)

    def _is_seen(self, name: str) -> bool:
        return name in self.labels or name in self._skipped

    def _choose(self) -> list[str]:
        unseen = [name for name in self._pool.ids if not self._is_seen(name)]
        if not unseen:
            return []
        count = max(1, int(BATCH_SHARE * len(self.labels)))
        if self._order == "oldest":
            chosen = unseen[:count]
        elif self._order == "random":
            shuffled = np.random.default_rng(self._seed).permutation(len(self._pool))
            names = [self._pool.ids[index] for index in shuffled]
            chosen = [name for name in names if not self._is_seen(name)][:count]
        else:
            chosen = [self._pool.ids[index] for index in self._most_informative(count)]
        return chosen

    @cached_property
    def _geometry(self) -> "PoolGeometry":
        return PoolGeometry(self._pool.space.transform(self._pool.raw), self._seed)

    def _most_informative(self, count: int) -> list[int]:
        seen = [index for name, index in self._place.items() if self._is_seen(name)]
        if len(self.labels) < FIRST or not can_learn(self.labels):
            return self._geometry.representatives(seen, count)
        undecided = self._labeler().undecided(self._pool.raw)
        return self._geometry.most_informative(undecided, seen, count)

    def _labeler(self) -> Labeler:
        """The labeler of all labels so far; its penalty is cross-validated only now and then."""
        if self._fitted is not None:
            return self._fitted
        strengths: tuple[float, ...] = STRENGTHS
        if self._strength is not None and len(self.labels) - self._strength[0] < VALIDATED_EVERY:
            strengths = (self._strength[1],)
        labeler, checked = Labeler.fit(
            self._pool, self.labels, seed=self._seed, strengths=strengths
        )
        if len(strengths) > 1:
            self._strength = (len(self.labels), checked.strength)
        self._fitted = labeler
        return labeler


class PoolGeometry:
    """Distances and densities of the traces of a pool."""

    def __init__(self, rows: Array, seed: int) -> None:
        self._coordinates = _compact(rows)
        draw = np.random.default_rng(seed)
        marks = draw.permutation(len(rows))[:LANDMARKS]
        apart = _squared_distances(self._coordinates, self._coordinates[marks])
        self._usual = max(1e-12, float(np.median(apart))) if apart.size else 1.0
        self._likeness = np.exp(-apart / self._usual)  # (n, landmarks)
        crowd = self._likeness.mean(axis=1) if len(marks) else np.zeros(0)
        self._density = np.sqrt(crowd / crowd.max(initial=1e-12))

    def representatives(self, seen: Iterable[int], count: int) -> list[int]:
        """Rows that, with those seen, represent the most others (greedy facility location)."""
        passed = list(seen)
        covered = self._likeness[passed].max(axis=0, initial=0.0)
        chosen: list[int] = []
        for _ in range(min(count, len(self._likeness) - len(passed))):
            gains = np.maximum(self._likeness, covered).sum(axis=1)
            gains[[*passed, *chosen]] = -1.0
            chosen.append(int(np.argmax(gains)))
            covered = np.maximum(covered, self._likeness[chosen[-1]])
        return chosen

    def most_informative(self, undecided: Array, seen: Iterable[int], count: int) -> list[int]:
        """Rows to label next, the most informative first.

        Args:
            undecided: The labeler's uncertainty, 0 to 1, (n,).
            seen: Rows that are labelled or were skipped; never chosen.
            count: How many to choose; fewer where fewer are left.
        """
        passed = list(seen)
        novelty = np.ones(len(self._coordinates))
        for row in passed:
            novelty = np.minimum(novelty, self._novelty_beside(row))
        # 1e-6: traces without uncertainty are still chosen when no others are left.
        worth = (undecided + 1e-6) * self._density
        worth[passed] = -1.0
        chosen: list[int] = []
        for _ in range(min(count, len(worth) - len(set(passed)))):
            chosen.append(int(np.argmax(np.where(worth < 0, -1.0, worth * novelty))))
            worth[chosen[-1]] = -1.0
            novelty = np.minimum(novelty, self._novelty_beside(chosen[-1]))
        return chosen

    def _novelty_beside(self, row: int) -> Array:
        """0 for copies of a row, growing to 1 at the median distance of the pool, (n,)."""
        apart = _squared_distances(self._coordinates, self._coordinates[[row]])[:, 0]
        return np.minimum(1.0, apart / self._usual)


def _compact(rows: Array) -> Array:
    """Principal component scores, (n, DIRECTIONS)."""
    centred = rows - rows.mean(axis=0) if len(rows) else rows
    if len(rows) > rows.shape[1]:
        _, directions = np.linalg.eigh(centred.T @ centred)
        compact: Array = centred @ directions[:, ::-1][:, :DIRECTIONS]
        return compact
    # The same from the Gram matrix, which is smaller here.
    sizes, coordinates = np.linalg.eigh(centred @ centred.T)
    found: Array = coordinates * np.sqrt(np.maximum(0.0, sizes))
    return found[:, ::-1][:, :DIRECTIONS]


def _squared_distances(a: Array, b: Array) -> Array:
    squares = (a**2).sum(axis=1)[:, None] + (b**2).sum(axis=1)[None, :] - 2 * a @ b.T
    found: Array = np.maximum(0.0, squares)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """Cohen's kappa with its 95 % interval."""

    n: int
    agreed: float | None
    """Share of traces with equal labels; None without any."""
    kappa: float | None
    """1 is full agreement, 0 chance; None (undefined) where all labels are the same."""
    low: float | None
    high: float | None


def cohens_kappa(first: Sequence[bool], second: Sequence[bool]) -> Agreement:
    """Agreement of two raters on the same traces, in the same order.

    The interval uses the standard error of Fleiss, Cohen and Everitt (1969), valid for any kappa,
    of the counts with 0.5 added to each cell: without, full agreement on a few traces would have
    an interval of width 0.

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
    """Kappa and its standard error; None where chance agreement is 1."""
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
