"""GRPO: compare episodes of the same task with each other (Shao et al. 2024, arXiv 2402.03300).

Credit, for episode i of a group with scores R_1..R_G:

    A_i = (R_i - mean(R)) / (std(R) + 1e-4)          std with G - 1, as TRL computes it

Loss over the tokens t of each episode, with ratio r = exp(logp - logp_old):

    - min(r A, clip(r, 1 - eps, 1 + eps) A) + kl * (exp(logp_base - logp) - (logp_base - logp) - 1)

averaged over an episode's tokens, then over episodes (the weights carry both means).

With `credit: turn` turns are compared instead of episodes; see `practicum.algorithms.credit`. The
paper has no 1e-4. TRL multiplies the distance to the base model by r unless
`use_bias_correction_kl=False`; the paper does not.
"""

from dataclasses import dataclass

import torch

from practicum.algorithms.methods import GroupMethod
from practicum.algorithms.surrogate import clipped_gain, weigh
from practicum.core.loss import LossReport, LossTerms

__all__ = ["Grpo", "grpo_loss"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Grpo(GroupMethod):
    """GRPO with its settings."""

    clip: float = 0.2

    def loss(self, terms: LossTerms) -> LossReport:
        """The clipped objective; see the module's formula."""
        return grpo_loss(terms, clip_low=self.clip, clip_high=self.clip, kl=self.kl)


def grpo_loss(terms: LossTerms, *, clip_low: float, clip_high: float, kl: float) -> LossReport:
    """Clipped policy gradient with an optional distance to the base model."""
    ratio = torch.exp(terms.logprobs - terms.old_logprobs)
    gain, clipped = clipped_gain(ratio, terms.advantages, clip_low, clip_high)
    return weigh(terms, gain, clipped, kl=kl)
