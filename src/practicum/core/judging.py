"""A language model that is asked for its judgement."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from practicum.core.trace import Message

__all__ = ["JudgeModel", "JudgeReply", "JudgeUnavailable", "Weighed", "WeighingModel"]


class JudgeUnavailable(Exception):
    """The judge could not be asked now; worth another attempt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeReply:
    """What the judge wrote, and what that cost."""

    text: str
    prompt_tokens: int = 0
    completion_tokens: int = 0


class JudgeModel(Protocol):
    """Whoever is asked: a model on a server, or one in this process."""

    @property
    def name(self) -> str:
        """Which model it is and where; a judgement of another one is another judgement."""
        ...

    async def complete(self, messages: Sequence[Message]) -> JudgeReply:
        """Its answer to a conversation; `JudgeUnavailable` when there is none to be had now."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighed:
    """How likely a judge finds each of some answers, and what that cost."""

    probabilities: tuple[float, ...]
    """They add up to 1."""
    prompt_tokens: int = 0


@runtime_checkable
class WeighingModel(Protocol):
    """A judge whose probabilities can be read, so that it need not be able to write."""

    @property
    def name(self) -> str:
        """See `JudgeModel`."""
        ...

    async def weigh(self, messages: Sequence[Message], answers: tuple[str, ...]) -> Weighed:
        """How likely each answer is, of these alone; `JudgeUnavailable` where it cannot say."""
        ...
