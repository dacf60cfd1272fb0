"""Supervised fine-tuning, plain or weighted by reward.

Loss, over the tokens t of the examples i of a step:

    - sum over i of a_i * sum over t of weight * logp_t

With `weigh=None` a_i is the example's own weight. With rewards r_i it is that times

    exp((r_i - max(r)) / temperature)     `exp`: reward-weighted regression (Peters & Schaal 2007;
                                          Peng et al. 2019, arXiv 1910.00177)
    max(r_i, 0)                           `positive`: what failed teaches nothing

made to have mean 1 over the step, so that the learning rate means the same with any of them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from practicum.core.interfaces import ExampleRow
from practicum.core.sample import Floats

__all__ = ["Sft", "reward_weights"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sft:
    """Supervised fine-tuning with its settings."""

    weigh: Literal["exp", "positive"] | None = None
    """How a reward becomes a weight; None does not look at rewards."""
    temperature: float = 1.0

    @property
    def kind(self) -> Literal["sft", "kto", "dpo"]:
        """Which rows it takes."""
        return "sft"

    @property
    def needs_measure(self) -> bool:
        """Its advantages do not depend on the policy."""
        return False

    @property
    def needs_mismatched(self) -> bool:
        """It compares nothing with the base model."""
        return False

    def advantages(
        self,
        rows: Sequence[ExampleRow],
        policy_sums: Floats | None,
        base_sums: Floats | None,
        mismatched: tuple[Floats, Floats] | None,
    ) -> tuple[Floats, float | None, Mapping[str, float]]:
        """What each example counts; its loss is known only to the update itself."""
        own = np.asarray([row.weight for row in rows], np.float64)
        if self.weigh is None:
            return own.astype(np.float32), None, {}
        rewards = [row.reward for row in rows if row.reward is not None]
        if len(rewards) < len(rows):
            raise ValueError(f"{len(rows) - len(rewards)} rows have no reward to be weighted by")
        found = own * reward_weights(rewards, self.weigh, self.temperature)
        share = float(np.square(found.sum()) / max(np.square(found).sum(), 1e-12) / len(rows))
        return found.astype(np.float32), None, {"effective_share": share}


def reward_weights(
    rewards: Sequence[float], weigh: Literal["exp", "positive"], temperature: float
) -> npt.NDArray[np.float64]:
    """What each reward counts, with mean 1; all 0 where nothing was earned.

    >>> reward_weights([3.0, 1.0, -2.0, 0.0], "positive", 1.0).tolist()
    [3.0, 1.0, 0.0, 0.0]
    """
    found = np.asarray(rewards, np.float64)
    if weigh == "exp":
        found = np.exp((found - found.max()) / temperature)
    else:
        found = np.maximum(found, 0.0)
    mean = found.mean()
    return found / mean if mean > 0.0 else found
