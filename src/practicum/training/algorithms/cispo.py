"""CISPO: clip the importance weight, not the update (MiniMax 2025, arXiv 2506.13585).

The advantages are GRPO's. With ratio r = exp(logp - logp_old) the loss of a token is

    - sg[clip(r, 1 - clip, 1 + clip_high)] * A * logp          sg: no gradient

averaged over all tokens of the step. A token whose ratio is beyond a bound keeps its gradient, only
its weight is limited. The paper sets no lower bound; here `clip=1` does that, since a ratio is
never negative. TRL has only the upper bound, and its `epsilon_high` is that bound itself:
`epsilon_high=5` there is `clip_high=4` here. The value of the loss says little, because its
gradient is that of a logarithm and not of a ratio.
"""

from typing import TYPE_CHECKING

import torch

from practicum.core.loss import LossReport, LossTerms
from practicum.core.sample import Averaging
from practicum.training.algorithms.credit import GroupMethod
from practicum.training.algorithms.losses import weighted_loss

if TYPE_CHECKING:
    from practicum.core.config.algorithm_config import CispoConfig


class Cispo(GroupMethod):
    """CISPO."""

    name = "cispo"
    config: "CispoConfig"
    averaging: Averaging = "token"

    def own_loss(self, terms: LossTerms) -> LossReport:
        """The policy gradient with clipped importance weights; see the module's formula."""
        low, high = self.config.clip, self.config.clip_high
        return cispo_loss(terms, clip_low=low, clip_high=high, kl=self.kl)


def cispo_loss(terms: LossTerms, *, clip_low: float, clip_high: float, kl: float) -> LossReport:
    """REINFORCE with clipped importance weights; `clipped` counts every clipped weight."""
    ratio = torch.exp(terms.logprobs - terms.old_logprobs).detach()
    low, high = 1.0 - clip_low, 1.0 + clip_high
    surrogate = ratio.clamp(low, high) * terms.advantages * terms.logprobs
    return weighted_loss(terms, surrogate, (ratio < low) | (ratio > high), kl=kl)
