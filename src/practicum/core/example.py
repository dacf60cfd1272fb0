"""One row of a training set made from recorded episodes, and the tokens it becomes."""

from dataclasses import dataclass

from practicum.core.sample import Bools, Ints
from practicum.core.trace import Message, ToolSpec

__all__ = ["Example", "TokenisedExample"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A whole conversation to learn from, and what its kind of training set says about it."""

    id: str
    """The trace, and which of its walks where it has several."""
    task_id: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    """Those the assistant could call."""
    env: str = ""
    given: int = 0
    """So many of the first messages are not learned from, whoever said them."""
    shown: tuple[int, ...] = ()
    """Places of later assistant messages that are not learned from: someone else wrote them."""
    label: bool | None = None
    """Whether it is an answer to want or to avoid; None where nothing says so."""
    pair: str = ""
    """The id that the two sides of a preference share; empty outside preferences."""
    chosen: bool | None = None
    """Which side of its pair it is."""
    weight: float = 1.0
    reward: float | None = None
    """What the episode scored."""
    token_ids: tuple[int, ...] = ()
    """The tokens as they were sampled, where they are known."""
    loss_mask: tuple[bool, ...] = ()
    """Which of those tokens are learned from."""
    tokens_of: str = ""
    """The model whose tokenizer made those tokens."""

    @property
    def opening(self) -> int:
        """How many messages come before the first turn that is learned from."""
        learned = (
            i
            for i, message in enumerate(self.messages)
            if message.role == "assistant" and i >= self.given and i not in self.shown
        )
        return next(learned, len(self.messages))

    @property
    def prompt(self) -> tuple[Message, ...]:
        """What was given before the first turn that is learned from."""
        return self.messages[: self.opening]

    @property
    def completion(self) -> tuple[Message, ...]:
        """That turn and all that follows."""
        return self.messages[self.opening :]


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenisedExample:
    """A conversation as the model sees it; both arrays are of the same length."""

    token_ids: Ints
    loss_mask: Bools
    """True for the assistant's tokens and the token that ends each of its turns."""
    given: int
    """How many tokens come before the first that is learned from."""
