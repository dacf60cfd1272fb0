"""`SamplingRequest` and `Completion`, and what a completion can be constrained to."""

import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParams:
    """How tokens are drawn. Temperature 0 is greedy."""

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    """0 keeps every token."""
    max_tokens: int = 64
    stop: tuple[str, ...] = ()
    """Strings that end the completion, besides the model's end-of-turn token."""
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class NextCharacters:
    """What may follow a partial argument."""

    allowed: str
    """The characters that may come next."""
    may_end: bool
    """Whether the argument is complete as it stands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionForm:
    """The format of one action: its name, or its name, a space and an argument.

    `argument` maps the part of the argument written so far to what may follow.
    """

    name: str
    argument: Callable[[str], NextCharacters] | None = None


Actions = tuple[ActionForm, ...]
"""The actions allowed in a turn; empty where the policy writes freely."""


NO_PART_OF_A_NAME = ("Cc", "Cs", "Zl", "Zp")
"""Kinds of characters that no model can be made to write within a line."""


def action_problems(forms: Sequence[ActionForm]) -> Iterator[str]:
    """What is wrong with the names of actions, a clause each.

    >>> list(action_problems([ActionForm(name="take key"), ActionForm(name=" go")]))
    ["the action ' go' begins or ends with a space; leave that out"]
    """
    names = [form.name for form in forms]
    for name in dict.fromkeys(names):
        if not isinstance(name, str) or not name:
            yield f"an action has the name {name!r}; give it a word"
        elif name != name.strip():
            yield f"the action {name!r} begins or ends with a space; leave that out"
        elif any(unicodedata.category(one) in NO_PART_OF_A_NAME for one in name):
            yield f"the action {name!r} has a line break or a control character; leave that out"
        elif names.count(name) > 1:
            yield f"two actions have the same name {name!r}; give one of them another"


class GrammarMatcher(Protocol):
    """The state of one completion in a grammar."""

    def allowed(self) -> Any:
        """Which tokens may come next: a numpy bool array over the vocabulary, (V,).

        Includes the end-of-turn token where the text so far is complete.
        """

    def advance(self, token: int) -> None:
        """Consume a sampled token other than the end of the turn."""

    @property
    def done(self) -> bool:
        """Whether only the end of the turn may follow."""


class TokenGrammar(Protocol):
    """A compiled grammar that constrains completions, such as a JSON schema."""

    def start(self) -> GrammarMatcher:
        """The initial state, for one completion."""


@runtime_checkable
class PortableGrammar(Protocol):
    """A grammar that another process can compile again."""

    @property
    def source(self) -> str:
        """What it was compiled from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingRequest:
    """A request for one completion of `prompt_ids`, the whole conversation so far.

    `core.sampling_json` writes it as JSON for another process: an action's name and a grammar's
    source are data, an argument's syntax is code and stays with the caller, who asks for one token
    among those that it allows.
    """

    prompt_ids: tuple[int, ...]
    params: SamplingParams
    actions: tuple[ActionForm, ...] = ()
    """If given, the completion is one of these followed by the end-of-turn token."""
    grammar: TokenGrammar | None = None
    """If given, only tokens it allows are drawn. The probability mass it removes is recorded in
    `log_kept` like that of top-p, so the learner can use the whole vocabulary's log-softmax."""
    drawn: int = 0
    """Random numbers of the seed's stream that were used up before: a turn that is asked for piece
    by piece draws what it would have drawn at once."""
    top_logprobs: int = 0
    """How many of the likeliest tokens to report for each sampled one."""
    on_tokens: Callable[[tuple[int, ...]], None] | None = None
    """Called on the event loop with new tokens as they are sampled (streaming)."""
    on_sampled: Callable[[int], None] | None = None
    """Called on the event loop with how many tokens are new, also of a completion that is
    cancelled: they are counted though nobody waits for them. Tokens come no sooner for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """A sampled completion; the per-token fields are those of `trace.SampledSpan`."""

    token_ids: tuple[int, ...]
    text: str
    """Without the end-of-turn token or the stop string."""
    logprobs: tuple[float, ...]
    loss_mask: tuple[bool, ...]
    log_kept: tuple[float, ...]
    choices: tuple[tuple[int, ...], ...]
    temperature: float
    fingerprint: str
    finished: bool
    """False when `max_tokens` cut it off."""
    ended_turn: bool
    """Whether the last token is the model's end-of-turn token."""
    cached_tokens: int = 0
    """Prompt tokens found in the KV cache."""
    stopped_by: str = ""
    """The stop string that ended it."""
    top_logprobs: tuple[tuple[tuple[int, float], ...], ...] = ()
    """For each token the likeliest ids and their log-probabilities, where asked for.

    They are after temperature and before top-k, top-p and grammar, so a sampled token's own is
    `logprobs + log_kept`; at temperature 0, where both are 0, they are at temperature 1. With
    `actions` they are over the tokens that the actions allow."""


Spelling = tuple[str | int, ...]
"""A text in which special tokens are given by id, and everything else as characters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThoughtForm:
    """The format of reasoning before the answer."""

    opening: Spelling
    """Empty where the prompt already opens it (`<think>` in the generation prompt)."""
    closing: str | int
    """What ends it: a string or a special token's id."""
    behind: str
    """Whitespace between it and the answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallForm:
    """The format of a call of one tool."""

    first: Spelling
    """What precedes its arguments in the first call of a turn."""
    later: Spelling
    """What stands between the previous call's arguments and its own."""
    arguments: Mapping[str, Any]
    """JSON schema of its arguments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallsForm:
    """The format of a turn that calls one of some tools, or several."""

    calls: tuple[CallForm, ...]
    closing: Spelling
    """What follows the arguments of the last call."""
    many: bool
    """Whether a turn may have several calls."""
