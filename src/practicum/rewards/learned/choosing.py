"""Which traces a person should see next.

A label teaches most where the labeler is undecided. Undecided traces are often copies of each
other, though, and the second copy teaches nothing; and some are unlike everything else, so that
their label says little about the rest. So a trace is worth its indecision, times how far it lies
from what was seen already, times how many others lie around it.

Before there is a labeler, those come first that stand for the most others not yet stood for.

How far apart traces lie is measured along the few directions in which they vary most: along a
thousand hashed words any two are about equally far apart.
"""

from collections.abc import Iterable

import numpy as np

from practicum.rewards.learned.space import Array

__all__ = ["Surroundings"]

DIRECTIONS = 50
LANDMARKS = 500
"""Traces that stand for all when it is asked how many lie around one."""


class Surroundings:
    """How the traces of a pool lie to each other."""

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
        """Rows that stand for as many others as can be, those that were seen counted in."""
        passed = list(seen)
        covered = self._likeness[passed].max(axis=0, initial=0.0)
        chosen: list[int] = []
        for _ in range(min(count, len(self._likeness) - len(passed))):
            gains = np.maximum(self._likeness, covered).sum(axis=1)
            gains[[*passed, *chosen]] = -1.0
            chosen.append(int(np.argmax(gains)))
            covered = np.maximum(covered, self._likeness[chosen[-1]])
        return chosen

    def most_telling(self, undecided: Array, seen: Iterable[int], count: int) -> list[int]:
        """Rows to label next, the most telling first.

        Args:
            undecided: How undecided the labeler is about each row, 0 to 1.
            seen: Rows that are labelled or were passed over; never chosen.
            count: How many to choose; fewer come where fewer are left.
        """
        passed = list(seen)
        novelty = np.ones(len(self._coordinates))
        for row in passed:
            novelty = np.minimum(novelty, self._novelty_beside(row))
        # A little for each, so that traces without any doubt still come before none at all.
        worth = (undecided + 1e-6) * self._density
        worth[passed] = -1.0
        chosen: list[int] = []
        for _ in range(min(count, len(worth) - len(set(passed)))):
            chosen.append(int(np.argmax(np.where(worth < 0, -1.0, worth * novelty))))
            worth[chosen[-1]] = -1.0
            novelty = np.minimum(novelty, self._novelty_beside(chosen[-1]))
        return chosen

    def _novelty_beside(self, row: int) -> Array:
        """0 for copies of a row, 1 for what is usually far away; farther is not newer."""
        apart = _squared_distances(self._coordinates, self._coordinates[[row]])[:, 0]
        return np.minimum(1.0, apart / self._usual)


def _compact(rows: Array) -> Array:
    """Coordinates along the directions of greatest variance."""
    centred = rows - rows.mean(axis=0) if len(rows) else rows
    if len(rows) > rows.shape[1]:
        _, directions = np.linalg.eigh(centred.T @ centred)
        compact: Array = centred @ directions[:, ::-1][:, :DIRECTIONS]
        return compact
    # The same from the products of rows with each other, of which there are fewer.
    sizes, coordinates = np.linalg.eigh(centred @ centred.T)
    found: Array = coordinates * np.sqrt(np.maximum(0.0, sizes))
    return found[:, ::-1][:, :DIRECTIONS]


def _squared_distances(a: Array, b: Array) -> Array:
    squares = (a**2).sum(axis=1)[:, None] + (b**2).sum(axis=1)[None, :] - 2 * a @ b.T
    found: Array = np.maximum(0.0, squares)
    return found
