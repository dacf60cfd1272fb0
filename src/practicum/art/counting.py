"""How far a gathering is, and how many of its attempts may fail."""

import contextlib
import sys
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from statistics import fmean
from typing import Any

__all__ = ["Counting", "counting_as", "counting_now"]


@dataclass(slots=True, kw_only=True)
class Counting:
    """Counts attempts as they end, and shows the count where someone watches."""

    total: int = 1
    max_exceptions: float = 0
    """How many may fail; below 1, which share of all."""
    label: str | None = None
    """What is shown before the count; nothing is shown without one."""
    ended: int = 0
    exceptions: int = 0
    rewards: list[float] | None = None

    def done(self, trajectory: Any) -> None:
        """One more attempt was made."""
        self.ended += 1
        self.rewards = [*(self.rewards or ()), float(trajectory.reward)]
        self._show()

    def failed(self, error: Exception) -> None:
        """One more attempt failed; raises it where that is one too many."""
        self.ended += 1
        self.exceptions += 1
        self._show()
        if self.exceptions > self._allowed:
            raise error

    @property
    def _allowed(self) -> float:
        is_share = 0 < self.max_exceptions < 1
        return self.max_exceptions * self.total if is_share else self.max_exceptions

    def _show(self) -> None:
        if self.label is None or not sys.stderr.isatty():
            return
        said = f"\r{self.label}: {self.ended}/{self.total}"
        if self.rewards:
            said += f", reward {fmean(self.rewards):.3f}"
        if self.exceptions:
            said += f", exceptions {self.exceptions}"
        sys.stderr.write(said)
        sys.stderr.flush()

    def close(self) -> None:
        """End the line that was shown."""
        if self.label is not None and self.ended and sys.stderr.isatty():
            sys.stderr.write("\n")


_current: ContextVar[Counting | None] = ContextVar("counting", default=None)


def counting_now() -> Counting:
    """The gathering that is under way; outside of one, a count of one's own without exceptions."""
    return _current.get() or Counting()


@contextlib.contextmanager
def counting_as(counting: Counting) -> Iterator[None]:
    """Count with `counting` in the block, and in the tasks that are started there."""
    token = _current.set(counting)
    try:
        yield
    finally:
        _current.reset(token)
        counting.close()
