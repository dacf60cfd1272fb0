"""GSPO: one ratio for the whole sequence (Zheng et al. 2025, arXiv 2507.18071).

The advantages are GRPO's. For a sequence y of |y| tokens the ratio is the geometric mean of its
tokens' ratios,

    s = exp( mean over t of (logp_t - logp_old_t) )

and the loss, averaged over sequences, is

    - min(s A, clip(s, 1 - clip, 1 + clip_high) A)

It is computed as the paper's GSPO-token, whose token ratio s_t = sg[s] * p_t / sg[p_t] (sg: no
gradient) has the value of s. Where all tokens of a sequence have the same advantage, its value,
clipping and gradient are those of the formula above; where turns are credited one by one, each
token is moved by its own turn's advantage. TRL has it as `importance_sampling_level="sequence"`
with `loss_type="grpo"`. A sequence is one root-to-leaf path of an episode.
"""

from typing import TYPE_CHECKING

import torch

from practicum.core.loss import LossReport, LossTerms
from practicum.training.algorithms.credit import GroupMethod
from practicum.training.algorithms.losses import clipped_surrogate, sum_by_sample, weighted_loss

if TYPE_CHECKING:
    from practicum.core.config.algorithm_config import GspoConfig


class Gspo(GroupMethod):
    """GSPO."""

    name = "gspo"
    config: "GspoConfig"
    by_sequence: bool = True

    def own_loss(self, terms: LossTerms) -> LossReport:
        """The clipped objective of sequences; see the module's formula."""
        low, high = self.config.clip, self.config.clip_high
        return gspo_loss(terms, clip_low=low, clip_high=high, kl=self.kl)


def gspo_loss(terms: LossTerms, *, clip_low: float, clip_high: float, kl: float) -> LossReport:
    """Clipped policy gradient with one ratio per sequence."""
    now = terms.logprobs.detach()
    total = sum_by_sample(now - terms.old_logprobs, terms.samples)
    tokens = sum_by_sample(torch.ones_like(now), terms.samples)
    log_ratio = (total / tokens.clamp(min=1.0))[terms.samples]
    ratio = torch.exp(log_ratio + terms.logprobs - now)  # the value of s, the gradient of p_t
    surrogate, clipped = clipped_surrogate(ratio, terms.advantages, clip_low, clip_high)
    return weighted_loss(terms, surrogate, clipped, kl=kl)
