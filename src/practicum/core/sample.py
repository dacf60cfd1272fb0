"""From scored episodes to what the learner eats. Arrays are numpy; torch starts at the learner."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from practicum.core.score import Score
from practicum.core.task import Outcome, Task
from practicum.core.trace import Trace

__all__ = [
    "Averaging",
    "Batch",
    "Bools",
    "Credit",
    "Episode",
    "Estimates",
    "Floats",
    "Group",
    "Ints",
    "Sample",
    "TurnCredit",
]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """A trace, the evidence its session left, and its score."""

    trace: Trace
    outcome: Outcome | None
    score: Score

    @property
    def is_usable(self) -> bool:
        """Whether it may be trained on: the policy's own doing, and scored."""
        return not self.trace.is_masked and self.score.value is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Several episodes of one task by one policy, to be compared with each other."""

    task: Task
    episodes: tuple[Episode, ...]

    @property
    def usable(self) -> tuple[Episode, ...]:
        """The episodes that may be trained on."""
        return tuple(e for e in self.episodes if e.is_usable)

    @property
    def values(self) -> tuple[float, ...]:
        """Scores of the usable episodes."""
        return tuple(v for e in self.usable if (v := e.score.value) is not None)


TurnCredit = tuple[float, ...]
"""One advantage for each turn of an episode, in the order of `Trace.turns`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Credit:
    """What an episode's turns are credited with, in the order of `Trace.turns`.

    An entry is one number for all of a turn's loss tokens, or one for each of them.
    """

    advantages: tuple[float | Floats, ...]
    returns: tuple[float | Floats, ...] = ()
    """What the value head is to predict; empty where nothing is to be predicted."""
    old_values: tuple[float | Floats, ...] = ()
    """What it predicted when the episode was credited."""
    counts: bool = True
    """False leaves the episode out of the update."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimates:
    """What models say of an episode's loss tokens: an array for each turn, an entry for each token.

    Fields that nobody asked for are empty.
    """

    logprobs: tuple[Floats, ...] = ()
    """Of the policy, as it is before the update."""
    base_logprobs: tuple[Floats, ...] = ()
    """Of the model without its adapter."""
    values: tuple[Floats, ...] = ()
    """Of the value head: what is still to be earned when the token is about to be sampled."""
    teacher_logprobs: tuple[Floats, ...] = ()


Averaging = Literal["episode", "token", "constant"]
"""What counts the same: each episode; each token of the step; or each token of every step, where
an episode's sum is divided by a constant length."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One root-to-leaf walk of a trace, every array as long as `token_ids`.

    There is no prompt/completion split: a multi-turn walk interleaves what was given and what was
    sampled, and `loss_mask` marks the tokens that carry loss.
    """

    token_ids: Ints
    loss_mask: Bools
    old_logprobs: Floats
    """Sampler's log-probability before top-k and top-p; 0 where there is no loss."""
    advantages: Floats
    temperatures: Floats
    choices: Mapping[int, tuple[int, ...]]
    """Allowed token ids, by position, where the token was drawn under a constraint."""
    weight: float = 1.0
    """What each of its loss tokens counts in the objective."""
    returns: Floats | None = None
    """What the value head is to predict before each token; None where there is nothing to."""
    old_values: Floats | None = None
    """What it predicted when the episode was credited."""
    trace_id: str = ""
    walk: int = 0
    """Which of the trace's walks it is."""

    @property
    def id(self) -> str:
        """The trace, and which of its walks where it has several."""
        return f"{self.trace_id}#{self.walk}" if self.walk else self.trace_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Samples merged into one prefix tree, laid out depth first.

    Token i may attend to token j exactly when `j <= i and i < end[j]`. A *decision* is one
    prediction to be made: at which token, of which token, at which temperature, among which
    choices. Samples that share a decision share its computation; each still has its own *term* of
    the loss, and terms of a shared decision add up.
    """

    token_ids: Ints  # (T,)
    position: Ints  # (T,) depth in the tree, which is the position id
    end: Ints  # (T,) index where the token's subtree ends

    predictor: Ints  # (D,) index of the token whose hidden state predicts
    target: Ints  # (D,) token id predicted
    temperature: Floats  # (D,)
    choice_ids: Ints  # (D, K) allowed ids padded with -1; a row of -1 is the whole vocabulary

    term_decision: Ints  # (M,) which decision a term is about
    term_old_logprob: Floats  # (M,)
    term_advantage: Floats  # (M,)
    term_return: Floats  # (M,) 0 where there is nothing to predict
    term_old_value: Floats  # (M,)
    term_weight: Floats  # (M,)
    term_sample: Ints  # (M,) which sample it came from
    term_checked: Bools | None = None  # (M,) sampled by the present weights; None: all of them

    sample_ids: tuple[str, ...] = ()
    row_tokens: int = 0
    """Tokens the same samples would take as separate rows, for reporting what sharing saved."""
    minibatch: int = 0
    """Which optimizer step of an epoch it belongs to."""

    def stats(self) -> dict[str, Any]:
        """Sizes worth logging."""
        return {
            "tokens": int(self.token_ids.size),
            "row_tokens": self.row_tokens,
            "decisions": int(self.predictor.size),
            "terms": int(self.term_decision.size),
        }
