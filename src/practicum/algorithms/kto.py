"""KTO: learn from answers that are each marked good or bad (Ethayarajh et al. 2024, 2402.01306).

For an example with policy sum p and base sum b of its tokens' log-probabilities,

    h     = beta * (p - b)                   what the policy has come to prefer it by
    value = sigmoid(h - beta * z0)           for a desirable answer
            sigmoid(beta * z0 - h)           for an undesirable one
    loss  = mean over examples of weight * lambda * (1 - value)

lambda being `desirable_weight` or `undesirable_weight`: classes of different size are balanced by
weight, and no example is thrown away. z0 is how far the policy is from the base in general:

    z0 = max(0, mean over mismatched pairs of (p' - b'))

where a mismatched pair is the prompt of one example with the answer to another. No gradient goes
through it. The paper's loss is lambda - v, which has the same gradient. TRL's `kto` is this with
all weights 1.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch

from practicum.algorithms.likelihood import slopes
from practicum.core.interfaces import ExampleRow
from practicum.core.sample import Floats

__all__ = ["Kto", "kto_loss", "mismatch_kl"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kto:
    """KTO with its settings."""

    beta: float = 0.1
    desirable_weight: float = 1.0
    undesirable_weight: float = 1.0

    @property
    def kind(self) -> Literal["sft", "kto", "dpo"]:
        """Which rows it takes."""
        return "kto"

    @property
    def needs_measure(self) -> bool:
        """What an example counts depends on where the policy is."""
        return True

    @property
    def needs_mismatched(self) -> bool:
        """Its reference point is a mean over them."""
        return True

    def advantages(
        self,
        rows: Sequence[ExampleRow],
        policy_sums: Floats | None,
        base_sums: Floats | None,
        mismatched: tuple[Floats, Floats] | None,
    ) -> tuple[Floats, float | None, Mapping[str, float]]:
        """Minus the slope of the loss for each example."""
        if policy_sums is None or base_sums is None or mismatched is None:
            raise ValueError("KTO needs sums of the policy and the base, and of mismatched pairs")
        unmarked = sum(row.label is None for row in rows)
        if unmarked:
            raise ValueError(f"{unmarked} rows are marked neither good nor bad")
        labels = torch.tensor([bool(row.label) for row in rows])
        weights = torch.tensor([row.weight for row in rows], dtype=torch.float64)
        base = torch.tensor(np.asarray(base_sums, np.float64))
        z0 = mismatch_kl(*mismatched)
        loss, slope = slopes(
            lambda sums: kto_loss(
                sums,
                base,
                labels,
                weights,
                self.beta,
                self.desirable_weight,
                self.undesirable_weight,
                z0,
            ),
            policy_sums,
        )
        gained = self.beta * (np.asarray(policy_sums, np.float64) - base.numpy())
        metrics = {"kl_z0": z0}
        for name, of_class in (("desirable", labels), ("undesirable", ~labels)):
            if of_class.any():
                metrics[f"gain_{name}"] = float(gained[of_class.numpy()].mean())
        return (-slope).astype(np.float32), loss, metrics


def mismatch_kl(policy_sums: npt.ArrayLike, base_sums: npt.ArrayLike) -> float:
    """How far the policy is from the base on answers to other prompts, never below 0.

    >>> mismatch_kl([-10.0, -4.0], [-12.0, -5.0]), mismatch_kl([-12.0], [-10.0])
    (1.5, 0.0)
    """
    apart = np.asarray(policy_sums, np.float64) - np.asarray(base_sums, np.float64)
    return max(0.0, float(apart.mean()))


def kto_loss(
    policy_sums: torch.Tensor,
    base_sums: torch.Tensor,
    labels: torch.Tensor,
    weights: torch.Tensor,
    beta: float,
    desirable_weight: float,
    undesirable_weight: float,
    kl_z0: float,
) -> torch.Tensor:
    """Mean over examples of what each one's value falls short of its most."""
    gained = beta * (policy_sums - base_sums - kl_z0)
    value = torch.sigmoid(torch.where(labels, gained, -gained))
    by_class = torch.where(
        labels, value.new_tensor(desirable_weight), value.new_tensor(undesirable_weight)
    )
    return (weights * by_class * (1.0 - value)).mean()
