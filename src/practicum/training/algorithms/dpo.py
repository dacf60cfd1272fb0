"""DPO, with the sigmoid, IPO and hinge losses: training on pairs of a chosen and a rejected answer.

For a pair with policy sums p_c, p_r and base sums b_c, b_r of the log-probabilities of the chosen
and the rejected answer,

    margin  = (p_c - b_c) - (p_r - b_r)

    sigmoid   - (1 - s) log sigmoid(beta * margin) - s log sigmoid(- beta * margin)
              Rafailov et al. 2023, arXiv 2305.18290; s is `label_smoothing`, the share of labels
              that are taken to be wrong (Mitchell 2023, "conservative DPO")
    hinge     max(0, 1 - beta * margin)                  Zhao et al. 2023, arXiv 2305.10425
    ipo       (margin - 1 / (2 beta))^2                  Azar et al. 2023, arXiv 2310.12036

averaged over pairs. TRL's `sigmoid` takes no label smoothing. For `ipo` TRL divides each sum by its
number of tokens, which is not in the paper's formula; here margins are of whole answers in all
three.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
import torch
from torch.nn import functional

from practicum.core.interfaces import Advantages, Examples, LabelledExample, SumPair, Sums
from practicum.training.algorithms.credit import ExampleMethod
from practicum.training.algorithms.losses import loss_and_gradient

if TYPE_CHECKING:
    from practicum.core.config.algorithm_config import DpoConfig

DpoLoss = Literal["sigmoid", "ipo", "hinge"]


class Dpo(ExampleMethod):
    """DPO, IPO or the hinge loss of SLiC."""

    name = "dpo"
    config: "DpoConfig"
    kind = "dpo"

    def advantages(
        self, rows: Examples, policy_sums: Sums, base_sums: Sums, mismatched: SumPair
    ) -> Advantages:
        """Minus the derivative of the loss by each example's summed log-probability."""
        if policy_sums is None or base_sums is None:
            raise ValueError("DPO needs sums of the policy and the base")
        pairs = paired_rows(rows)
        chosen, rejected = (torch.tensor(side) for side in zip(*pairs, strict=True))
        base = torch.tensor(np.asarray(base_sums, np.float64))
        weights = torch.tensor([rows[c].weight for c, _ in pairs], dtype=torch.float64)
        loss, gradient = loss_and_gradient(
            lambda sums: dpo_loss(
                sums[chosen],
                sums[rejected],
                base[chosen],
                base[rejected],
                self.config.beta,
                self.config.label_smoothing,
                self.config.loss,
                weights,
            ),
            policy_sums,
        )
        gained = self.config.beta * (np.asarray(policy_sums, np.float64) - base.numpy())
        margins = gained[chosen] - gained[rejected]
        metrics = {
            "gain_chosen": float(gained[chosen].mean()),
            "gain_rejected": float(gained[rejected].mean()),
            "margin": float(margins.mean()),
            "pairs_in_order": float((margins > 0).mean()),
        }
        return (-gradient).astype(np.float32), loss, metrics


def paired_rows(rows: Sequence[LabelledExample]) -> list[tuple[int, int]]:
    """Indices of the chosen and the rejected side of each pair, in the order the pairs appear."""
    sides: dict[str, dict[bool, int]] = {}
    for place, row in enumerate(rows):
        if not row.pair or row.chosen is None:
            raise ValueError(f"row {place} is not a side of a pair")
        if row.chosen in sides.setdefault(row.pair, {}):
            raise ValueError(f"pair {row.pair!r} has the same side twice")
        sides[row.pair][row.chosen] = place
    for pair, found in sides.items():
        if len(found) < 2:
            raise ValueError(f"pair {pair!r} has one side only")
    return [(found[True], found[False]) for found in sides.values()]


def dpo_loss(
    chosen_policy: torch.Tensor,
    rejected_policy: torch.Tensor,
    chosen_base: torch.Tensor,
    rejected_base: torch.Tensor,
    beta: float,
    label_smoothing: float,
    loss_type: DpoLoss,
    weights: torch.Tensor | None = None,
) -> torch.Tensor:
    """Mean over pairs of the loss of their margin; see the module's formulas."""
    margin = (chosen_policy - chosen_base) - (rejected_policy - rejected_base)
    if loss_type == "sigmoid":
        right = functional.logsigmoid(beta * margin)
        wrong = functional.logsigmoid(-beta * margin)
        losses = -(1.0 - label_smoothing) * right - label_smoothing * wrong
    elif loss_type == "hinge":
        losses = torch.relu(1.0 - beta * margin)
    else:
        losses = (margin - 1.0 / (2.0 * beta)).square()
    return losses.mean() if weights is None else (weights * losses).mean()
