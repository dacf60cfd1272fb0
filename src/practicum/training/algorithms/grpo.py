"""GRPO: compare episodes of the same task with each other (Shao et al. 2024, arXiv 2402.03300).

Credit, for episode i of a group with scores R_1..R_G:

    A_i = (R_i - mean(R)) / (std(R) + 1e-4)          std with G - 1, as TRL computes it

Loss over the tokens t of each episode, with ratio r = exp(logp - logp_old):

    - min(r A, clip(r, 1 - eps, 1 + eps) A) + kl * (exp(logp_base - logp) - (logp_base - logp) - 1)

averaged over an episode's tokens, then over episodes (the weights carry both means).

With `credit: turn` turns are compared instead of episodes; see `credit`. The paper has no
1e-4. TRL multiplies the distance to the base model by r unless
`use_bias_correction_kl=False`; the paper does not.

Dr. GRPO is GRPO without its two divisions (Liu et al. 2025, arXiv 2503.20783): A_i = R_i - mean(R),
and the loss is summed over an episode's tokens, divided by a constant length, then averaged over
episodes. Divided by its own length, a long wrong answer is punished less for each token than a
short one; divided by the group's spread, tasks that nearly always or nearly never succeed count
more. TRL leaves the first out with `loss_type="dr_grpo"` (its constant is `max_completion_length`)
and the second with `scale_rewards="none"`.
"""

import torch

from practicum.core.loss import LossReport, LossTerms
from practicum.core.sample import Averaging
from practicum.training.algorithms.credit import GroupMethod
from practicum.training.algorithms.losses import clipped_surrogate, weighted_loss


class Grpo(GroupMethod):
    """GRPO."""

    name = "grpo"

    def own_loss(self, terms: LossTerms) -> LossReport:
        """The clipped objective; see the module's formula."""
        clip = self.config.clip
        return grpo_loss(terms, clip_low=clip, clip_high=clip, kl=self.kl)


class DrGrpo(Grpo):
    """Dr. GRPO: GRPO with `scale: none` by default and another averaging."""

    name = "dr_grpo"
    averaging: Averaging = "constant"


def grpo_loss(terms: LossTerms, *, clip_low: float, clip_high: float, kl: float) -> LossReport:
    """Clipped policy gradient with an optional KL penalty."""
    ratio = torch.exp(terms.logprobs - terms.old_logprobs)
    surrogate, clipped = clipped_surrogate(ratio, terms.advantages, clip_low, clip_high)
    return weighted_loss(terms, surrogate, clipped, kl=kl)
