"""Which rows count when a run was started more than once.

An attempt that resumes at step s does every step after s again. From then on what earlier attempts
recorded about those steps no longer counts. Two attempts can also record the same thing about step
s itself (an evaluation made just before a kill and again after it): the newer one counts.

    attempt 1: step 1, 2, 3, 4, killed      attempt 2 resumes at 2: step 3, 4, 5
    what counts: 1 and 2 of attempt 1; 3, 4 and 5 of attempt 2
"""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, TypeVar

__all__ = ["Stamp", "current_rows"]

T = TypeVar("T")


class Stamp(NamedTuple):
    """When a row was recorded, and what it is about."""

    attempt: int
    step: int
    kind: str


def current_rows(
    rows: Iterable[T], *, stamp: Callable[[T], Stamp], starts: Mapping[int, int]
) -> list[T]:
    """The rows that count, in their order.

    Args:
        rows: What all attempts recorded.
        stamp: How to read a row's attempt, step and kind.
        starts: The step each attempt resumed at, by attempt.
    """
    stamped = [(stamp(row), row) for row in rows]
    live = [(at, row) for at, row in stamped if not _is_rolled_back(at, starts)]
    newest: dict[tuple[str, int], int] = {}
    for at, _ in live:
        newest[at.kind, at.step] = max(at.attempt, newest.get((at.kind, at.step), at.attempt))
    return [row for at, row in live if at.attempt == newest[at.kind, at.step]]


def _is_rolled_back(at: Stamp, starts: Mapping[int, int]) -> bool:
    return any(later > at.attempt and at.step > start for later, start in starts.items())
