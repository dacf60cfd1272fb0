"""DPO and two relatives: learn from pairs of answers, one preferred to the other.

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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch.nn import functional

from practicum.algorithms.likelihood import slopes
from practicum.core.interfaces import ExampleRow
from practicum.core.sample import Floats

__all__ = ["Dpo", "DpoLoss", "dpo_loss", "paired_rows"]

DpoLoss = Literal["sigmoid", "ipo", "hinge"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dpo:
    """DPO with its settings."""

    beta: float = 0.1
    label_smoothing: float = 0.0
    loss_type: DpoLoss = "sigmoid"

    @property
    def kind(self) -> Literal["sft", "kto", "dpo"]:
        """Which rows it takes."""
        return "dpo"

    @property
    def needs_measure(self) -> bool:
        """What an example counts depends on where the policy is."""
        return True

    @property
    def needs_mismatched(self) -> bool:
        """The two sides of a pair are compared with each other."""
        return False

    def advantages(
        self,
        rows: Sequence[ExampleRow],
        policy_sums: Floats | None,
        base_sums: Floats | None,
        mismatched: tuple[Floats, Floats] | None,
    ) -> tuple[Floats, float | None, Mapping[str, float]]:
        """Minus the slope of the loss for each example; both sides of a pair must be there."""
        if policy_sums is None or base_sums is None:
            raise ValueError("DPO needs sums of the policy and the base")
        pairs = paired_rows(rows)
        chosen, rejected = (torch.tensor(side) for side in zip(*pairs, strict=True))
        base = torch.tensor(np.asarray(base_sums, np.float64))
        weights = torch.tensor([rows[c].weight for c, _ in pairs], dtype=torch.float64)
        loss, slope = slopes(
            lambda sums: dpo_loss(
                sums[chosen],
                sums[rejected],
                base[chosen],
                base[rejected],
                self.beta,
                self.label_smoothing,
                self.loss_type,
                weights,
            ),
            policy_sums,
        )
        gained = self.beta * (np.asarray(policy_sums, np.float64) - base.numpy())
        margins = gained[chosen] - gained[rejected]
        metrics = {
            "gain_chosen": float(gained[chosen].mean()),
            "gain_rejected": float(gained[rejected].mean()),
            "margin": float(margins.mean()),
            "pairs_in_order": float((margins > 0).mean()),
        }
        return (-slope).astype(np.float32), loss, metrics


def paired_rows(rows: Sequence[ExampleRow]) -> list[tuple[int, int]]:
    """Places of the chosen and the rejected side of each pair, in the order the pairs appear."""
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
    if label_smoothing and loss_type != "sigmoid":
        raise ValueError(f"label_smoothing goes with loss_type sigmoid, not {loss_type}")
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
