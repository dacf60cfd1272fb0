"""What did not get into a training set, and why."""

from collections import Counter

__all__ = ["LeftOut"]

NAMED = 3
"""Ids that are kept for each reason, to look one up."""


class LeftOut:
    """Counts by reason; nothing is left out without one.

    >>> left_out = LeftOut()
    >>> left_out.add("it has no score", "trace-7")
    >>> left_out.counts, left_out.named
    ({'it has no score': 1}, {'it has no score': ['trace-7']})
    """

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self.named: dict[str, list[str]] = {}
        """A few ids for each reason."""

    def add(self, reason: str, name: str, count: int = 1) -> None:
        """One more, or several."""
        self._counts[reason] += count
        ids = self.named.setdefault(reason, [])
        if len(ids) < NAMED:
            ids.append(name)

    @property
    def counts(self) -> dict[str, int]:
        """How many for each reason, the commonest first."""
        return dict(self._counts.most_common())

    @property
    def total(self) -> int:
        """How many in all."""
        return self._counts.total()
