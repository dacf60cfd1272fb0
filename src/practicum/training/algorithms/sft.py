"""Supervised fine-tuning, plain or weighted by reward.

Loss, over the tokens t of the examples i of a step:

    - sum over i of a_i * sum over t of weight * logp_t

a_i is the example's own weight. Weighted by rewards r_i it is that times

    exp((r_i - max(r)) / temperature)     `exponential`: reward-weighted regression (Peters & Schaal
                                          2007; Peng et al. 2019, arXiv 1910.00177)
    max(r_i, 0)                           `positive`: failures are ignored

normalised to mean 1 over the step, so that the effective learning rate does not depend on them.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from practicum.core.interfaces import Advantages, Examples, SumPair, Sums
from practicum.training.algorithms.credit import ExampleMethod

if TYPE_CHECKING:
    from practicum.core.config.algorithm_config import WeightedSftConfig


class Sft(ExampleMethod):
    """Supervised fine-tuning."""

    name = "sft"
    kind = "sft"
    needs_measure = False

    def advantages(
        self, rows: Examples, policy_sums: Sums, base_sums: Sums, mismatched: SumPair
    ) -> Advantages:
        """The examples' weights; the loss is left to the update."""
        return np.asarray([row.weight for row in rows], np.float32), None, {}


class WeightedSft(Sft):
    """Supervised fine-tuning, weighted by reward."""

    name = "weighted_sft"
    config: "WeightedSftConfig"

    def advantages(
        self, rows: Examples, policy_sums: Sums, base_sums: Sums, mismatched: SumPair
    ) -> Advantages:
        """The examples' weights times those of their rewards within the update."""
        own = np.asarray([row.weight for row in rows], np.float64)
        rewards = [row.reward for row in rows if row.reward is not None]
        if len(rewards) < len(rows):
            raise ValueError(f"{len(rows) - len(rewards)} rows have no reward to be weighted by")
        found = own * reward_weights(rewards, self.config.weigh, self.config.temperature)
        # Kish's effective sample size, as a share of the examples.
        share = float(np.square(found.sum()) / max(np.square(found).sum(), 1e-12) / len(rows))
        return found.astype(np.float32), None, {"effective_share": share}


def reward_weights(
    rewards: Sequence[float], weigh: Literal["exponential", "positive"], temperature: float
) -> npt.NDArray[np.float64]:
    """The weight of each reward, with mean 1; all 0 where no reward is positive (`positive`).

    >>> reward_weights([3.0, 1.0, -2.0, 0.0], "positive", 1.0).tolist()
    [3.0, 1.0, 0.0, 0.0]
    """
    found = np.asarray(rewards, np.float64)
    if weigh == "exponential":
        found = np.exp((found - found.max()) / temperature)
    else:
        found = np.maximum(found, 0.0)
    mean = found.mean()
    return found / mean if mean > 0.0 else found
