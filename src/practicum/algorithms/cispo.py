"""CISPO: clip the importance weight, not the update (MiniMax 2025, arXiv 2506.13585).

The advantages are GRPO's. With ratio r = exp(logp - logp_old) the loss of a token is

    - sg[clip(r, 1 - clip_low, 1 + clip_high)] * A * logp          sg: no gradient

averaged over all tokens of the step. A token whose ratio is beyond a bound keeps its gradient, only
its weight is limited. The paper sets no lower bound; here `clip_low=1` does that, since a ratio is
never negative. TRL has only the upper bound, and its `epsilon_high` is that bound itself:
`epsilon_high=5` there is `clip_high=4` here. The value of the loss says little, because its
gradient is that of a logarithm and not of a ratio.
"""

from dataclasses import dataclass

import torch

from practicum.algorithms.methods import GroupMethod
from practicum.algorithms.surrogate import weigh
from practicum.core.loss import LossReport, LossTerms
from practicum.core.sample import Averaging

__all__ = ["Cispo", "cispo_loss"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cispo(GroupMethod):
    """CISPO with its settings."""

    averaging: Averaging = "token"
    clip_low: float = 1.0
    clip_high: float = 4.0

    def loss(self, terms: LossTerms) -> LossReport:
        """The policy gradient with limited weights; see the module's formula."""
        return cispo_loss(terms, clip_low=self.clip_low, clip_high=self.clip_high, kl=self.kl)


def cispo_loss(terms: LossTerms, *, clip_low: float, clip_high: float, kl: float) -> LossReport:
    """Policy gradient whose importance weights are limited; counts every limited one as clipped."""
    ratio = torch.exp(terms.logprobs - terms.old_logprobs).detach()
    low, high = 1.0 - clip_low, 1.0 + clip_high
    gain = ratio.clamp(low, high) * terms.advantages * terms.logprobs
    return weigh(terms, gain, (ratio < low) | (ratio > high), kl=kl)
