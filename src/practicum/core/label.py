"""A verdict on one recorded episode, and who gave it."""

import math
from dataclasses import dataclass

from practicum.core.errors import UserError

__all__ = ["Label"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """Whether an episode was good, as a person or the labeler said.

    A suggestion of the labeler is marked as such, so that it is never counted as a person's word.
    """

    episode_id: str
    """The `Trace.id` it speaks of."""
    value: float
    """1 good, 0 bad; between them where the author is not sure."""
    author: str
    created_at: float
    """Seconds since the epoch."""
    note: str = ""
    is_suggestion: bool = False
    """Whether the labeler wrote it rather than a person."""
    confidence: float | None = None
    """How likely the author takes `value` to be right; None where that was not said."""

    def __post_init__(self) -> None:
        """Refuse what no later reader could make sense of."""
        if not (math.isfinite(self.value) and 0 <= self.value <= 1):
            raise UserError(f"a label is {self.value}; give a number from 0 (bad) to 1 (good)")
        if self.confidence is not None and not 0 <= self.confidence <= 1:
            raise UserError(
                f"the confidence of a label is {self.confidence}; give a number from 0 to 1"
            )

    @property
    def is_good(self) -> bool:
        """Which side of the middle it is on."""
        return self.value >= 0.5
