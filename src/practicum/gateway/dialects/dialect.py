"""What a dialect is: pure functions from bodies to records and back."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Protocol

from practicum.core.sampling import SamplingParams
from practicum.core.trace import Message
from practicum.gateway.requests import AnswerFacts, Asked, ChatTurn, Happening

__all__ = ["Dialect", "Earlier"]

Earlier = Callable[[str], tuple[Message, ...] | None]
"""The conversation up to and including the answer of an id (see `AnswerFacts.id`) that this
rollout gave before; None if there was no such answer."""


class Dialect(Protocol):
    """The functions of a dialect's module. `read_request` raises `Refused` for what it cannot take.

    `defaults` holds what the rollout samples with where the client says nothing.
    """

    def read_request(
        self, body: Mapping[str, Any], defaults: SamplingParams, earlier: Earlier | None = None
    ) -> Asked:
        """A request's body, checked."""
        ...

    def whole_answer(
        self, asked: Asked, turns: Sequence[ChatTurn], facts: AnswerFacts
    ) -> dict[str, Any]:
        """The answer in one piece; one turn for each choice."""
        ...

    def stream_events(
        self, asked: Asked, facts: AnswerFacts, happenings: AsyncIterator[Happening]
    ) -> AsyncIterator[str]:
        """The answer as server-sent events, each a whole `data: ...` block with its blank line.

        Each choice gives its deltas in order and then its turn, once.
        """
        ...

    def stream_error(self, status: int, sentence: str, kind: str) -> str:
        """The event that ends a stream which failed after it had begun."""
        ...

    def error_body(self, status: int, sentence: str, kind: str, param: str = "") -> dict[str, Any]:
        """The body of a refusal."""
        ...
