"""A request to the sampler and what it answers."""

from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["ActionForm", "Completion", "NextCharacters", "SamplingParams", "SamplingRequest"]


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
