"""A request to the sampler and what it answers."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

__all__ = [
    "ActionForm",
    "Completion",
    "GrammarWalk",
    "NextCharacters",
    "SamplingParams",
    "SamplingRequest",
    "TokenGrammar",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class NextCharacters:
    """What may follow a partly written argument."""

    allowed: str
    """Each character that may come next."""
    may_end: bool
    """Whether the argument is complete as it stands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionForm:
    """One way to act: a name, and how its argument is written if it takes one.

    With an argument the text is the name, one space, and the argument; `argument` is told what is
    written so far and says what may follow.
    """

    name: str
    argument: Callable[[str], NextCharacters] | None = None


class GrammarWalk(Protocol):
    """One completion on its way through a grammar."""

    def allowed(self) -> Any:
        """A numpy array of bool over the vocabulary: which tokens may come next.

        Where the form is complete as it stands, a token that ends the turn is among them.
        """
        ...

    def advance(self, token: int) -> None:
        """Go on by a sampled token that does not end the turn."""
        ...

    @property
    def done(self) -> bool:
        """Whether nothing but the end of the turn may follow any more."""
        ...


class TokenGrammar(Protocol):
    """A form that completions must have, such as a JSON schema."""

    def start(self) -> GrammarWalk:
        """A walk for one completion."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParams:
    """How to draw tokens. Temperature 0 takes the most likely token."""

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    """0 keeps every token."""
    max_tokens: int = 64
    stop: tuple[str, ...] = ()
    """Texts that end the completion, besides the model's own end-of-turn token."""
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingRequest:
    """One completion asked for; the prompt is the whole path so far, in tokens."""

    prompt_ids: tuple[int, ...]
    params: SamplingParams
    actions: tuple[ActionForm, ...] = ()
    """If given, the completion is one of these and then the end-of-turn token."""
    grammar: TokenGrammar | None = None
    """If given, only what it allows is drawn. What it cut off is noted like a cut of top-p, so the
    learner's log-probabilities stay those of the whole vocabulary."""
    top_logprobs: int = 0
    """How many of the likeliest tokens to report beside each sampled one."""
    on_tokens: Callable[[tuple[int, ...]], None] | None = None
    """Told of new tokens as they are sampled, on the event loop, before the completion is there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """The tokens sampled and how; see `SampledSpan` for the meaning of the parallel fields."""

    token_ids: tuple[int, ...]
    text: str
    """Without the end-of-turn token or the stop text."""
    logprobs: tuple[float, ...]
    loss_mask: tuple[bool, ...]
    log_kept: tuple[float, ...]
    choices: tuple[tuple[int, ...], ...]
    temperature: float
    fingerprint: str
    finished: bool
    """False when `max_tokens` cut it off."""
    ended_turn: bool
    """Whether the last token is the model's own end-of-turn token."""
    cached_tokens: int = 0
    """How many prompt tokens were already in the KV cache."""
    stopped_by: str = ""
    """The stop text that ended it."""
    top_logprobs: tuple[tuple[tuple[int, float], ...], ...] = ()
    """For each token the likeliest ones and their log-probabilities, where they were asked for.

    After temperature and before any cut, so that a sampled token's own is `logprobs + log_kept`;
    at temperature 0, where those are 0, at temperature 1. Among actions, of what they allow."""
