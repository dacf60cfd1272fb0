"""`Score` and `Label` of an episode, and the contracts of language models that judge one."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from practicum.core.errors import UserError
from practicum.core.trace import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """Named components and their weights; the value is their weighted sum.

    A component that could not be computed is None, and then so is the value: an unscored episode
    is not an episode of score 0.

    >>> Score(components={"solved": 1.0, "brevity": 0.5}, weights={"brevity": 0.2}).value
    1.1
    >>> Score(components={"solved": None}).value is None
    True
    """

    components: Mapping[str, float | None]
    weights: Mapping[str, float] = field(default_factory=dict)
    """Weight by component; 1 where none is given."""
    turn_values: tuple[float, ...] = ()
    """Reward of each turn, where the reward gives one; they sum to a component."""
    reason: str = ""

    @classmethod
    def unscored(cls, reason: str) -> "Score":
        """The score of an episode that could not be scored."""
        return cls(components={"unscored": None}, reason=reason)

    @property
    def value(self) -> float | None:
        """The weighted sum, or None when any component is missing."""
        total = 0.0
        for name, component in self.components.items():
            if component is None:
                return None
            total += self.weights.get(name, 1.0) * component
        return total


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """Whether an episode was good, according to a person or the labeler model.

    The labeler's are marked as suggestions, so that they are never counted as a person's.
    """

    episode_id: str
    """Its `Trace.id`."""
    value: float
    """From 0 (bad) to 1 (good)."""
    author: str
    created_at: float
    """Seconds since the epoch."""
    note: str = ""
    is_suggestion: bool = False
    """Whether the labeler wrote it."""
    confidence: float | None = None
    """The author's probability that `value` is right; None where not given."""
    correction: str = ""
    """What the last turn should have been, where the author has written it."""

    def __post_init__(self) -> None:
        """Refuse numbers out of range."""
        if not (math.isfinite(self.value) and 0 <= self.value <= 1):
            raise UserError(f"a label is {self.value}; give a number from 0 (bad) to 1 (good)")
        if self.confidence is not None and not 0 <= self.confidence <= 1:
            raise UserError(
                f"the confidence of a label is {self.confidence}; give a number from 0 to 1"
            )

    @property
    def is_good(self) -> bool:
        """Whether it counts as good: 0.5 or more."""
        return self.value >= 0.5


class JudgeUnavailable(Exception):
    """The judge gave no answer now; trying again may help."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeReply:
    """What the judge wrote, and its token usage."""

    text: str
    prompt_tokens: int = 0
    completion_tokens: int = 0


class JudgeModel(Protocol):
    """A judge that writes: a model at an endpoint or in this process."""

    @property
    def name(self) -> str:
        """Model and endpoint; part of the key that judgements are cached by."""

    async def complete(self, messages: Sequence[Message]) -> JudgeReply:
        """Its reply to a conversation; raises `JudgeUnavailable` when there is none now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighed:
    """A judge's probabilities of the given answers, and its token usage."""

    probabilities: tuple[float, ...]
    """One for each answer; they sum to 1."""
    prompt_tokens: int = 0


@runtime_checkable
class WeighingModel(Protocol):
    """A judge whose probabilities can be read, so it may be too small to write a good answer."""

    @property
    def name(self) -> str:
        """See `JudgeModel`."""

    async def weigh(self, messages: Sequence[Message], answers: tuple[str, ...]) -> Weighed:
        """Probabilities of the answers, normalised over them; may raise `JudgeUnavailable`."""
