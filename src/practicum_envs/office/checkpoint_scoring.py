"""Points of checkpoints, and how they add up: TheAgentCompany's strategies.

S = 0.5 r / t + 0.5 [r = t] for r of t points is the reward `agent_company`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

Strategy = Literal["sum", "bonus_for_completing_final", "bonus_for_completing_any"]
"""`sum`: nothing is granted. The bonus for the final checkpoint grants all others with it; the one
for any grants the first, since whoever passed a later one must have done it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Points:
    """What one checkpoint gave."""

    total: int
    result: int

    def __post_init__(self) -> None:
        if not 0 <= self.result <= self.total:
            raise ValueError(f"a checkpoint gave {self.result} of {self.total} points")

    @property
    def is_full(self) -> bool:
        """Whether nothing is missing."""
        return self.result == self.total


def with_bonus(checkpoints: Sequence[Points], strategy: Strategy = "sum") -> list[Points]:
    """The checkpoints with what the strategy grants.

    >>> one, two = Points(total=1, result=0), Points(total=2, result=2)
    >>> [p.result for p in with_bonus([one, two], "bonus_for_completing_final")]
    [1, 2]
    >>> [p.result for p in with_bonus([two, one], "bonus_for_completing_final")]
    [2, 0]
    """
    found = list(checkpoints)
    if strategy == "bonus_for_completing_final" and found and found[-1].is_full:
        return [replace(one, result=one.total) for one in found]
    if strategy == "bonus_for_completing_any" and any(one.is_full for one in found):
        found[0] = replace(found[0], result=found[0].total)
    return found


def with_damage(checkpoints: Sequence[Points], is_whole: bool) -> list[Points]:
    """The checkpoints and one more point, which who did something of the task and no damage has.

    Where there is damage, at most half of the other points count, so that S is at most 0.25.

    >>> done = [Points(total=1, result=1), Points(total=3, result=3)]
    >>> [p.result for p in with_damage(done, is_whole=True)]
    [1, 3, 1]
    >>> [p.result for p in with_damage(done, is_whole=False)]
    [1, 1, 0]
    """
    left = sum(one.total for one in checkpoints) // (1 if is_whole else 2)
    found = []
    for one in checkpoints:
        found.append(replace(one, result=min(one.result, left)))
        left -= found[-1].result
    has_done = any(one.result for one in checkpoints)
    return [*found, Points(total=1, result=int(is_whole and has_done))]


def s_score(checkpoints: Sequence[Points]) -> float:
    """TheAgentCompany's score of a task.

    >>> s_score([Points(total=2, result=2), Points(total=2, result=1)])
    0.375
    """
    total = sum(one.total for one in checkpoints)
    result = sum(one.result for one in checkpoints)
    return 0.5 * result / total + 0.5 * (result == total) if total else 0.0
