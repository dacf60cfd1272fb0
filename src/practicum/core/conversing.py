"""Whole conversations to tokens and sampled tokens back to messages, for clients that send both."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from practicum.core.interfaces import ChatCodec, Conversation
from practicum.core.trace import Message, ToolSpec
from practicum.core.turn_forms import CallsForm, ThoughtForm

__all__ = [
    "Endpoint",
    "HistoryCodec",
    "ReachableConversation",
    "RolloutLimits",
    "SampledTurn",
    "TurnDelta",
    "TurnReader",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledTurn:
    """An assistant's message of which it is known how it was sampled."""

    token_ids: tuple[int, ...]
    ended_turn: bool
    """Whether the last token is the model's own end-of-turn token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnDelta:
    """What new tokens add to an assistant's message."""

    kind: Literal["content", "reasoning", "call", "arguments"]
    text: str
    """Words of the message or of its reasoning, a called tool's name, or a piece of the JSON of
    its arguments."""
    index: int = 0
    """Which tool call it belongs to."""


class TurnReader(Protocol):
    """Reads a turn while it is sampled. What could still become markup is held back."""

    def feed(self, token_ids: Sequence[int]) -> list[TurnDelta]:
        """What is certain now."""
        ...

    def end(self) -> list[TurnDelta]:
        """The rest, once the turn is over."""
        ...

    def message(self) -> Message:
        """The whole turn, after `end`."""
        ...


class HistoryCodec(ChatCodec, Protocol):
    """A codec for clients that send their whole conversation with every request."""

    def prompt(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec] = (),
        turns: Mapping[int, SampledTurn] | None = None,
    ) -> tuple[int, ...]:
        """Tokens of a whole conversation, up to where the assistant begins to write.

        An assistant's message whose index is in `turns` is given by the tokens it was sampled as,
        provided that the template shows it whole; where the template drops a part of it (thinking,
        mostly), what it shows is encoded anew.
        """
        ...

    def read(self, token_ids: Sequence[int], tools: Sequence[ToolSpec] = ()) -> Message:
        """A sampled turn as a message: its content, reasoning and tool calls."""
        ...

    def reader(self, tools: Sequence[ToolSpec] = ()) -> TurnReader:
        """The same while it is sampled."""
        ...

    def calls_form(self, tools: Sequence[ToolSpec], *, many: bool = False) -> CallsForm:
        """How a turn that must call one of the tools is written, or several with `many`."""
        ...

    @property
    def thought_form(self) -> ThoughtForm | None:
        """How the model thinks before what it says; None where it does not."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutLimits:
    """What one rollout may use of the model; 0 is no limit."""

    max_turns: int = 0
    max_tokens: int = 0
    """Sampled in all."""
    deadline_s: float = 0.0
    """From when it was opened."""
    concurrency: int = 4
    """Requests under way at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where a program reaches the model for one rollout.

    OpenAI clients take `url` + "/v1" as their base, Anthropic clients `url`.
    """

    url: str
    key: str


class ReachableConversation(Conversation, Protocol):
    """A conversation that other programs can hold, over HTTP."""

    def endpoint(self) -> Endpoint:
        """Its address and key, good until the episode ends."""
        ...
