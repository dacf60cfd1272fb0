"""The contracts of learning: who learns, from what, by which method.

Part of `practicum.core.interfaces`, which offers these names beside all other contracts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from practicum.core.loss import LossReport, LossTerms
from practicum.core.sample import Averaging, Batch, Credit, Estimates, Floats, Group, Sample

__all__ = [
    "Algorithm",
    "ExampleRow",
    "Learner",
    "Measured",
    "Need",
    "Objective",
    "OfflineMethod",
    "Teacher",
    "UpdateReport",
]


Need = Literal["base", "values", "entropy", "teacher"]
"""Log-probabilities of the model without its adapter; of the value head; entropies that carry
gradient; log-probabilities of a teacher."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateReport:
    """What one update did; every figure is over the whole update."""

    applied: bool
    """False when a non-finite loss or gradient kept it from the weights."""
    loss: float
    grad_norm: float
    entropy: float
    clip_share: float
    value_loss: float | None
    """None where there is no value head."""
    kl_to_base: float | None
    """None where the update was not compared with the base model. Else the mean of exp(d) - d - 1
    over the sampled tokens that were compared, where d is the base model's log-probability less the
    policy's: never negative, and the KL divergence on average."""
    logprob_gap: float
    """Distance between the sampler's and the learner's log-probabilities, root mean square."""
    largest_gap: float
    """The same distance for the one token where it is largest."""
    tokens: int
    row_tokens: int
    fingerprint: str
    """Of the weights after the update."""
    truncated_share: float | None = None
    """Share of the terms, by weight, whose ratio was truncated; None where none can be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What the learner says of one batch's terms, in their order."""

    logprobs: Floats
    base_logprobs: Floats | None = None
    values: Floats | None = None


class Learner(Protocol):
    """Updates the weights that sample."""

    def update(self, batches: Sequence[Batch], objective: "Objective") -> UpdateReport:
        """One optimizer step for each minibatch of each of the objective's epochs."""
        ...

    def measure(self, batches: Sequence[Batch], needs: frozenset[Need]) -> list[Measured]:
        """Without learning: log-probabilities of the terms, and what else is asked for."""
        ...

    def retune(self, settings: Any) -> None:
        """Go on with other settings and an optimizer that remembers nothing."""
        ...

    def fingerprint(self) -> str:
        """Which weights an update would start from, read from the tensors themselves."""
        ...

    def save(self, folder: Path) -> None:
        """Write adapter, optimizer and random state as files into an existing folder."""
        ...

    def load(self, folder: Path) -> None:
        """Read back what `save` wrote, bit for bit."""
        ...


class Objective(Protocol):
    """A loss over terms. All that the learner knows of a method."""

    @property
    def epochs(self) -> int:
        """How many times the same samples are gone through."""
        ...

    @property
    def loss_needs(self) -> frozenset[Need]:
        """What the loss reads besides the policy's log-probabilities."""
        ...

    @property
    def by_sequence(self) -> bool:
        """Whether the loss joins the terms of a sample, so that they must come together."""
        ...

    @property
    def from_policy(self) -> bool:
        """Whether this policy sampled the tokens: their log-probabilities must be its own."""
        ...

    def loss(self, terms: LossTerms) -> LossReport:
        """The objective to minimise."""
        ...


class Algorithm(Objective, Protocol):
    """Credit and loss of episodes that the policy has just made: two pure functions."""

    @property
    def minibatches(self) -> int:
        """Optimizer steps in which the samples are gone through once."""
        ...

    @property
    def averaging(self) -> Averaging:
        """How tokens are weighed against each other."""
        ...

    @property
    def credit_needs(self) -> frozenset[Need]:
        """What `credit` reads besides the scores."""
        ...

    def is_informative(self, group: Group) -> bool:
        """Whether there is anything to learn from a group; others may be replaced."""
        ...

    def credit(
        self, groups: Sequence[Group], estimates: Mapping[str, Estimates]
    ) -> list[list[Credit]]:
        """For each group, the credit of each of its usable episodes.

        Args:
            groups: The step's informative groups.
            estimates: What `credit_needs` asks for, by the id of the trace.
        """
        ...


class ExampleRow(Protocol):
    """What a method over recorded conversations may know of one."""

    @property
    def id(self) -> str:
        """Its name, for messages."""
        ...

    @property
    def label(self) -> bool | None:
        """Whether it is one to want."""
        ...

    @property
    def pair(self) -> str:
        """What the two sides of a preference share."""
        ...

    @property
    def chosen(self) -> bool | None:
        """Which side of its pair it is."""
        ...

    @property
    def weight(self) -> float:
        """What it counts."""
        ...

    @property
    def reward(self) -> float | None:
        """What it scored."""
        ...


class OfflineMethod(Protocol):
    """What each recorded conversation counts in an update: a pure function of a few sums."""

    @property
    def kind(self) -> Literal["sft", "kto", "dpo"]:
        """What its rows must say; the two sides of a `dpo` pair follow each other, chosen first."""
        ...

    @property
    def needs_measure(self) -> bool:
        """Whether it reads the log-probabilities of whole conversations."""
        ...

    @property
    def needs_mismatched(self) -> bool:
        """Whether it also reads those of each row's beginning with another row's completion."""
        ...

    def advantages(
        self,
        rows: Sequence[ExampleRow],
        policy_sums: Floats | None,
        base_sums: Floats | None,
        mismatched: tuple[Floats, Floats] | None,
    ) -> tuple[Floats, float | None, Mapping[str, float]]:
        """What a row's log-likelihood counts, the method's loss where it has one, and figures.

        Args:
            rows: The rows of an update.
            policy_sums: The policy's log-probability of each row.
            base_sums: The base model's.
            mismatched: Where `needs_mismatched`, the policy's and the base model's of those.
        """
        ...


class Teacher(Protocol):
    """A model that says how likely it finds what the policy sampled."""

    def logprobs(self, samples: Sequence[Sample]) -> list[Floats]:
        """For each sample, the log-probabilities of its loss tokens, in their order."""
        ...
