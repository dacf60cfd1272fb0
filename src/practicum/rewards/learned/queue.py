"""The order in which a person sees traces, learned anew from what they answer."""

from collections.abc import Mapping
from functools import cached_property
from typing import Literal

import numpy as np

from practicum.rewards.learned.choosing import Surroundings
from practicum.rewards.learned.labeler import Labeler, Prediction, TracePool, can_learn
from practicum.rewards.learned.validation import STRENGTHS

__all__ = ["Order", "ReviewQueue"]

Order = Literal["uncertain", "random", "oldest"]
"""Where a label teaches most; by chance, for labels to measure with; as they were stored."""

FIRST = 10
"""Labels before the labeler has a say: until then traces are chosen that stand for many others."""
VALIDATED_EVERY = 5
"""Labels between two choices of the labeler's strength."""
BATCH_SHARE = 0.02
"""Traces chosen at once, as a share of the labels: with many, one more label changes little."""


class ReviewQueue:
    """Hands out traces one at a time; those with a person's label, or passed over, never again.

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
        self._passed: set[str] = set()
        self._waiting: list[str] = []
        self._fitted: Labeler | None = None
        """Of the labels as they are; None once they have changed."""
        self._strength: tuple[int, float] | None = None
        """Labels when the labeler's strength was chosen, and the strength."""

    def next(self) -> str | None:
        """The trace to show now; the same until it is answered or passed over."""
        self._waiting = [name for name in self._waiting if not self._is_seen(name)]
        if not self._waiting:
            self._waiting = self._choose()
        return self._waiting[0] if self._waiting else None

    def answer(self, name: str, value: float) -> None:
        """What a person said of a trace."""
        self.labels[name] = value
        self._fitted = None

    def skip(self, name: str) -> None:
        """Pass over a trace for now."""
        self._passed.add(name)

    def take_back(self, name: str) -> None:
        """Forget the answer, and show the trace again next."""
        self.labels.pop(name, None)
        self._fitted = None
        self._passed.discard(name)
        self._waiting.insert(0, name)

    def suggestion(self, name: str) -> Prediction | None:
        """What the labels so far say of a trace; None while there are too few of them."""
        if not can_learn(self.labels):
            return None
        [said] = self._labeler().predict(self._pool.raw.take([self._place[name]]))
        return said

    def knows(self, name: str) -> bool:
        """Whether a trace is in the pool."""
        return name in self._place

    def left(self) -> int:
        """How many traces are neither labelled nor passed over."""
        return sum(not self._is_seen(name) for name in self._pool.ids)

    def _is_seen(self, name: str) -> bool:
        return name in self.labels or name in self._passed

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
            chosen = [self._pool.ids[index] for index in self._most_telling(count)]
        return chosen

    @cached_property
    def _surroundings(self) -> Surroundings:
        return Surroundings(self._pool.space.transform(self._pool.raw), self._seed)

    def _most_telling(self, count: int) -> list[int]:
        seen = [index for name, index in self._place.items() if self._is_seen(name)]
        if len(self.labels) < FIRST or not can_learn(self.labels):
            return self._surroundings.representatives(seen, count)
        undecided = self._labeler().undecided(self._pool.raw)
        return self._surroundings.most_telling(undecided, seen, count)

    def _labeler(self) -> Labeler:
        """A labeler of all labels so far; its strength is chosen anew only now and then."""
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
