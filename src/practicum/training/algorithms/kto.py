"""KTO: learn from answers that are each marked good or bad (Ethayarajh et al. 2024, 2402.01306).

For an example with policy sum p and base sum b of its tokens' log-probabilities,

    h     = beta * (p - b)                   the implicit reward
    value = sigmoid(h - beta * z0)           for a desirable answer
            sigmoid(beta * z0 - h)           for an undesirable one
    loss  = mean over examples of weight * lambda * (1 - value)

lambda is `desirable` or `undesirable`; `weight` balances classes of different size. z0 estimates
the KL divergence of policy and base:

    z0 = max(0, mean over mismatched pairs of (p' - b'))

where a mismatched pair is the prompt of one example with the answer to another. No gradient goes
through it. The paper's loss is lambda - v, which has the same gradient; TRL's `kto` is this with
all weights 1.
"""

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch

from practicum.core.interfaces import Advantages, Examples, SumPair, Sums
from practicum.training.algorithms.credit import ExampleMethod
from practicum.training.algorithms.losses import loss_and_gradient

if TYPE_CHECKING:
    from practicum.core.config.algorithm_config import KtoConfig


class Kto(ExampleMethod):
    """KTO."""

    name = "kto"
    config: "KtoConfig"
    kind = "kto"
    needs_mismatched = True

    def advantages(
        self, rows: Examples, policy_sums: Sums, base_sums: Sums, mismatched: SumPair
    ) -> Advantages:
        """Minus the derivative of the loss by each example's summed log-probability."""
        if policy_sums is None or base_sums is None or mismatched is None:
            raise ValueError("KTO needs sums of the policy and the base, and of mismatched pairs")
        unmarked = sum(row.label is None for row in rows)
        if unmarked:
            raise ValueError(f"{unmarked} rows are marked neither good nor bad")
        labels = torch.tensor([bool(row.label) for row in rows])
        weights = torch.tensor([row.weight for row in rows], dtype=torch.float64)
        base = torch.tensor(np.asarray(base_sums, np.float64))
        z0 = mismatch_kl(*mismatched)
        loss, gradient = loss_and_gradient(
            lambda sums: kto_loss(
                sums,
                base,
                labels,
                weights,
                self.config.beta,
                self.config.desirable,
                self.config.undesirable,
                z0,
            ),
            policy_sums,
        )
        gained = self.config.beta * (np.asarray(policy_sums, np.float64) - base.numpy())
        metrics = {"kl_z0": z0}
        for name, of_class in (("desirable", labels), ("undesirable", ~labels)):
            if of_class.any():
                metrics[f"gain_{name}"] = float(gained[of_class.numpy()].mean())
        if len(metrics) == 3:  # both classes are here
            metrics["margin"] = metrics["gain_desirable"] - metrics["gain_undesirable"]
        return (-gradient).astype(np.float32), loss, metrics


def mismatch_kl(policy_sums: npt.ArrayLike, base_sums: npt.ArrayLike) -> float:
    """z0: the mean log-ratio of policy and base on mismatched pairs, at least 0.

    >>> mismatch_kl([-10.0, -4.0], [-12.0, -5.0]), mismatch_kl([-12.0], [-10.0])
    (1.5, 0.0)
    """
    log_ratios = np.asarray(policy_sums, np.float64) - np.asarray(base_sums, np.float64)
    return max(0.0, float(log_ratios.mean()))


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
    """Mean over examples of weight * lambda * (1 - value); see the module's formulas."""
    gained = beta * (policy_sums - base_sums - kl_z0)
    value = torch.sigmoid(torch.where(labels, gained, -gained))
    by_class = torch.where(
        labels, value.new_tensor(desirable_weight), value.new_tensor(undesirable_weight)
    )
    return (weights * by_class * (1.0 - value)).mean()
