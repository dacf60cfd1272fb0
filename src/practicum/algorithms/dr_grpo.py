"""Dr. GRPO: GRPO without its two divisions (Liu et al. 2025, arXiv 2503.20783).

Credit, for episode i of a group with scores R_1..R_G:

    A_i = R_i - mean(R)

Loss over the tokens t of each episode, with ratio r = exp(logp - logp_old):

    - min(r A, clip(r, 1 - eps, 1 + eps) A)

summed over an episode's tokens, divided by a constant length, then averaged over episodes.

Divided by its own length, a long wrong answer is punished less for each token than a short one;
divided by the group's spread, tasks that nearly always or nearly never succeed count more. TRL
leaves the first out with `loss_type="dr_grpo"` (its constant is `max_completion_length`) and the
second with `scale_rewards="none"`.
"""

from dataclasses import dataclass

from practicum.algorithms.credit import Scale
from practicum.algorithms.grpo import grpo_loss
from practicum.algorithms.methods import GroupMethod
from practicum.core.loss import LossReport, LossTerms
from practicum.core.sample import Averaging

__all__ = ["DrGrpo"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DrGrpo(GroupMethod):
    """Dr. GRPO with its settings."""

    scale: Scale = "none"
    averaging: Averaging = "constant"
    clip: float = 0.2

    def loss(self, terms: LossTerms) -> LossReport:
        """GRPO's clipped objective; the weights make the difference."""
        return grpo_loss(terms, clip_low=self.clip, clip_high=self.clip, kl=self.kl)
