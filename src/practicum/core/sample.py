"""From scored episodes to the learner's input, in the order data moves.

Online: `Episode` -> `Group` -> `Credit` -> `Sample` -> `Batch` -> `LossTerms`. Offline, an
`Example` becomes a `TokenisedExample` and then a `Sample`. Arrays are numpy up to the learner;
`LossTerms` and `LossReport` hold torch tensors, typed `Any` because core does not import torch.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from practicum.core.score import Score
from practicum.core.task import Outcome, Task
from practicum.core.trace import Message, ToolSpec, Trace

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]
Bools = npt.NDArray[np.bool_]


GIVEN_TURNS = "given_turns"
"""Key of the evidence that says after how many turns of its task's reference an episode began."""


TURN_ROLES = "turn_roles"
"""Key of the evidence that says who took each turn, where several did."""


class EpisodeSeconds(NamedTuple):
    """Where an episode's time went."""

    sampling: float = 0.0
    """Waiting for the model."""
    environment: float = 0.0
    """Opening its session, doing what it did in it, closing it."""
    judging: float = 0.0
    """Collecting the evidence and scoring it."""

    @property
    def total(self) -> float:
        """All of it."""
        return self.sampling + self.environment + self.judging


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """A trace, its session's evidence, and its score."""

    trace: Trace
    outcome: Outcome | None
    score: Score
    seconds: EpisodeSeconds | None = field(default=None, compare=False)
    """Where its time went; None for one that is read from a store."""

    @property
    def is_usable(self) -> bool:
        """Whether it may be trained on: neither masked nor unscored."""
        return not self.trace.is_masked and self.score.value is not None

    @property
    def given_turns(self) -> int:
        """Turns of its task's reference that it began after; 0 where it did all by itself."""
        given = self.outcome.evidence.get(GIVEN_TURNS, 0) if self.outcome is not None else 0
        return given if isinstance(given, int) else 0

    @property
    def turn_roles(self) -> tuple[str, ...]:
        """Who took each turn, in the order of `Trace.turns`; empty where one did all."""
        found = self.outcome.evidence.get(TURN_ROLES) if self.outcome is not None else None
        return tuple(map(str, found)) if isinstance(found, list) else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The episodes of one task, to be compared with each other."""

    task: Task
    episodes: tuple[Episode, ...]

    @property
    def usable(self) -> tuple[Episode, ...]:
        """The episodes that may be trained on."""
        return tuple(e for e in self.episodes if e.is_usable)

    @property
    def is_jump_started(self) -> bool:
        """Whether its episodes began after turns that were given to them."""
        return any(episode.given_turns for episode in self.episodes)

    @property
    def roles(self) -> tuple[str, ...]:
        """Whoever took a turn in any episode; empty where one did all."""
        return tuple(sorted({role for episode in self.usable for role in episode.turn_roles}))

    @property
    def values(self) -> tuple[float, ...]:
        """Scores of the usable episodes."""
        return tuple(v for e in self.usable if (v := e.score.value) is not None)


TurnCredit = tuple[float, ...]
"""One advantage for each turn of an episode, in the order of `Trace.turns`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Credit:
    """Advantages of one episode's turns, in the order of `Trace.turns`.

    An entry is one number for all loss tokens of the turn, or an array with one for each.
    """

    advantages: tuple[float | Floats, ...]
    returns: tuple[float | Floats, ...] = ()
    """Targets of the value head; empty without one."""
    old_values: tuple[float | Floats, ...] = ()
    """The value head's predictions before the update."""
    counts: bool = True
    """False leaves the episode out of the update."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimates:
    """Model outputs for one episode before the update: per turn an array over its loss tokens.

    Fields that `Algorithm.credit_needs` does not ask for are empty.
    """

    logprobs: tuple[Floats, ...] = ()
    """Of the policy."""
    base_logprobs: tuple[Floats, ...] = ()
    """Of the model without its adapter."""
    values: tuple[Floats, ...] = ()
    """Of the value head, at the position that predicts the token: the expected return from it."""
    teacher_logprobs: tuple[Floats, ...] = ()


Averaging = Literal["episode", "token", "constant"]
"""How the loss is averaged. `episode`: mean of the episodes' token means; `token`: mean over all
tokens of the step; `constant`: episode sums divided by a constant length (Dr. GRPO)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One root-to-leaf path of a trace: T tokens.

    There is no prompt/completion split: a multi-turn path interleaves input and sampled tokens,
    and `loss_mask` marks those with loss.
    """

    token_ids: Ints  # (T,)
    loss_mask: Bools  # (T,)
    old_logprobs: Floats  # (T,)
    """The sampler's, before top-k and top-p; 0 where there is no loss."""
    advantages: Floats  # (T,)
    temperatures: Floats  # (T,)
    choices: Mapping[int, tuple[int, ...]]
    """Allowed token ids, by position, where the token was drawn under a constraint."""
    weight: float = 1.0
    """Weight of each of its loss tokens in the loss."""
    returns: Floats | None = None  # (T,)
    """Targets of the value head; None without one."""
    old_values: Floats | None = None  # (T,)
    """The value head's predictions before the update."""
    trace_id: str = ""
    path: int = 0
    """Which root-to-leaf path of the trace it is."""

    @property
    def id(self) -> str:
        """The trace id, with `#n` for its paths after the first."""
        return f"{self.trace_id}#{self.path}" if self.path else self.trace_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Samples merged into one prefix tree, laid out depth first.

    Token i attends to token j exactly when `j <= i and i < end[j]`. A *decision* is one prediction:
    at which token, of which token, at which temperature, among which choices. Samples that share
    a decision share its computation; each has its own *term* of the loss, and they add up.
    T tokens, D decisions, K choices, M terms.
    """

    token_ids: Ints  # (T,)
    position: Ints  # (T,) depth in the tree, which is the position id
    end: Ints  # (T,) one past the last token of its subtree

    predictor: Ints  # (D,) index of the token whose hidden state predicts
    target: Ints  # (D,) token id predicted
    temperature: Floats  # (D,)
    choice_ids: Ints  # (D, K) allowed ids padded with -1; a row of -1 is the whole vocabulary

    term_decision: Ints  # (M,) which decision a term is about
    term_old_logprob: Floats  # (M,)
    term_advantage: Floats  # (M,)
    term_return: Floats  # (M,) 0 without a value head
    term_old_value: Floats  # (M,)
    term_weight: Floats  # (M,)
    term_sample: Ints  # (M,) index of its sample
    term_checked: Bools | None = None  # (M,) sampled by the current weights; None: all

    sample_ids: tuple[str, ...] = ()
    row_tokens: int = 0
    """Tokens of the samples without prefix sharing, for metrics."""
    minibatch: int = 0
    """Index of the optimizer step within an epoch."""

    def stats(self) -> dict[str, Any]:
        """Sizes worth logging."""
        return {
            "tokens": int(self.token_ids.size),
            "row_tokens": self.row_tokens,
            "decisions": int(self.predictor.size),
            "terms": int(self.term_decision.size),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A recorded conversation to train on, as messages, and its labels."""

    id: str
    """The trace id, with `#n` for its paths after the first."""
    task_id: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    env: str = ""
    given: int = 0
    """How many of the first messages carry no loss, whatever their role."""
    shown: tuple[int, ...] = ()
    """Indices of later assistant messages without loss: someone else wrote them."""
    label: bool | None = None
    """Desirable or undesirable; None where unknown."""
    pair: str = ""
    """Id that the two sides of a preference pair share; empty outside pairs."""
    chosen: bool | None = None
    """Whether it is the chosen side of its pair."""
    weight: float = 1.0
    reward: float | None = None
    """The episode's score."""
    token_ids: tuple[int, ...] = ()
    """The tokens as sampled, where known; then they are not encoded again."""
    loss_mask: tuple[bool, ...] = ()
    """Which of those tokens carry loss."""
    tokens_of: str = ""
    """The model whose tokenizer they are of."""

    @property
    def opening(self) -> int:
        """Number of messages before the first turn with loss."""
        learned = (
            i
            for i, message in enumerate(self.messages)
            if message.role == "assistant" and i >= self.given and i not in self.shown
        )
        return next(learned, len(self.messages))

    @property
    def prompt(self) -> tuple[Message, ...]:
        """The messages before the first turn with loss."""
        return self.messages[: self.opening]

    @property
    def completion(self) -> tuple[Message, ...]:
        """The first turn with loss, and all messages after it."""
        return self.messages[self.opening :]


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenisedExample:
    """A conversation as T tokens."""

    token_ids: Ints  # (T,)
    loss_mask: Bools  # (T,)
    """True for the assistant's tokens and the token that ends each of its turns."""
    given: int
    """Number of tokens before the first with loss."""


def common_prefix(a: Ints, b: Ints) -> int:
    """The number of leading tokens that are equal.

    >>> common_prefix(np.array([1, 2, 3]), np.array([1, 2, 4, 5]))
    2
    """
    n = min(a.size, b.size)
    differs = np.flatnonzero(a[:n] != b[:n])
    return int(differs[0]) if differs.size else n
