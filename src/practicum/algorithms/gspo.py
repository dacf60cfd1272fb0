"""GSPO: one ratio for the whole sequence (Zheng et al. 2025, arXiv 2507.18071).

The advantages are GRPO's. For a sequence y of |y| tokens the ratio is the geometric mean of its
tokens' ratios,

    s = exp( mean over t of (logp_t - logp_old_t) )

and the loss, averaged over sequences, is

    - min(s A, clip(s, 1 - clip_low, 1 + clip_high) A)

It is computed as the paper's GSPO-token, whose token ratio s_t = sg[s] * p_t / sg[p_t] (sg: no
gradient) has the value of s. Where all tokens of a sequence have the same advantage, its value,
clipping and gradient are those of the formula above; where turns are credited one by one, each
token is moved by its own turn's advantage. TRL has it as `importance_sampling_level="sequence"`
with `loss_type="grpo"`. A sequence is one walk through an episode from its beginning to an end.
"""

from dataclasses import dataclass

import torch

from practicum.algorithms.methods import GroupMethod
from practicum.algorithms.surrogate import clipped_gain, sum_by_sample, weigh
from practicum.core.loss import LossReport, LossTerms

__all__ = ["Gspo", "gspo_loss"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gspo(GroupMethod):
    """GSPO with its settings; the bounds are the paper's, far narrower than those of a token."""

    clip_low: float = 3e-4
    clip_high: float = 4e-4

    @property
    def by_sequence(self) -> bool:
        """A sequence's ratio is made of all of its tokens."""
        return True

    def loss(self, terms: LossTerms) -> LossReport:
        """The clipped objective of sequences; see the module's formula."""
        return gspo_loss(terms, clip_low=self.clip_low, clip_high=self.clip_high, kl=self.kl)


def gspo_loss(terms: LossTerms, *, clip_low: float, clip_high: float, kl: float) -> LossReport:
    """Clipped policy gradient with the ratio of the sequence."""
    now = terms.logprobs.detach()
    total = sum_by_sample(now - terms.old_logprobs, terms.samples)
    tokens = sum_by_sample(torch.ones_like(now), terms.samples)
    log_ratio = (total / tokens.clamp(min=1.0))[terms.samples]
    ratio = torch.exp(log_ratio + terms.logprobs - now)
    gain, clipped = clipped_gain(ratio, terms.advantages, clip_low, clip_high)
    return weigh(terms, gain, clipped, kl=kl)
