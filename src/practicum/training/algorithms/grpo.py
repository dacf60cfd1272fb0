"""GRPO and the methods that change its loss: Dr. GRPO, DAPO, GSPO, CISPO.

GRPO: compare episodes of the same task with each other (Shao et al. 2024, arXiv 2402.03300).

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

DAPO: four changes to GRPO for long answers (Yu et al. 2025, arXiv 2503.14476).

1. Clip higher. With ratio r = exp(logp - logp_old) the loss of a token is

       - min(r A, clip(r, 1 - clip, 1 + clip_high) A)          clip_high > clip

   so that unlikely tokens have room to become likely.
2. Token mean: every token of the step counts the same, however long its episode is.
3. Dynamic sampling: groups whose episodes all score the same are replaced (`is_informative`).
4. Overlong episodes. Shaping, a penalty that grows with the length, is a reward like any other.
   Filtering (`filter_cut_off`) leaves episodes that a limit cut off out of the loss: whether they
   would have succeeded is not known. They still count in their group's mean.

The advantages are GRPO's, and there is no KL penalty unless it is asked for. TRL's
`loss_type="dapo"` is the second change; the first is its `epsilon_high`, and filtering its
`mask_truncated_completions`, which looks for the end-of-turn token.

GSPO: one ratio for the whole sequence (Zheng et al. 2025, arXiv 2507.18071).

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

CISPO: clip the importance weight, not the update (MiniMax 2025, arXiv 2506.13585).

The advantages are GRPO's. With ratio r = exp(logp - logp_old) the loss of a token is

    - sg[clip(r, 1 - clip, 1 + clip_high)] * A * logp          sg: no gradient

averaged over all tokens of the step. A token whose ratio is beyond a bound keeps its gradient, only
its weight is limited. The paper sets no lower bound; here `clip=1` does that, since a ratio is
never negative. TRL has only the upper bound, and its `epsilon_high` is that bound itself:
`epsilon_high=5` there is `clip_high=4` here. The value of the loss says little, because its
gradient is that of a logarithm and not of a ratio.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from practicum.core.loss import LossReport, LossTerms
from practicum.core.sample import Averaging, Credit, Estimates, Group
from practicum.training.algorithms.credit import GroupMethod, is_cut_off
from practicum.training.algorithms.losses import clipped_surrogate, sum_by_sample, weighted_loss

if TYPE_CHECKING:
    from practicum.core.config.algorithm_config import CispoConfig, DapoConfig, GspoConfig


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


class Dapo(GroupMethod):
    """DAPO."""

    name = "dapo"
    config: "DapoConfig"
    averaging: Averaging = "token"

    def credit(
        self, groups: Sequence[Group], estimates: Mapping[str, Estimates]
    ) -> list[list[Credit]]:
        """GRPO's advantages; episodes that a limit cut off are left out with `filter_cut_off`."""
        credited = super().credit(groups, estimates)
        if not self.config.filter_cut_off:
            return credited
        return [
            [
                replace(credit, counts=not is_cut_off(episode.trace, self.turn_limit))
                for episode, credit in zip(group.usable, credits, strict=True)
            ]
            for group, credits in zip(groups, credited, strict=True)
        ]

    def own_loss(self, terms: LossTerms) -> LossReport:
        """The clipped objective with two bounds."""
        low, high = self.config.clip, self.config.clip_high
        return grpo_loss(terms, clip_low=low, clip_high=high, kl=self.kl)


class Gspo(GroupMethod):
    """GSPO."""

    name = "gspo"
    config: "GspoConfig"
    by_sequence: bool = True

    def own_loss(self, terms: LossTerms) -> LossReport:
        """The clipped objective of sequences; see the module's formula."""
        low, high = self.config.clip, self.config.clip_high
        return gspo_loss(terms, clip_low=low, clip_high=high, kl=self.kl)


class Cispo(GroupMethod):
    """CISPO."""

    name = "cispo"
    config: "CispoConfig"
    averaging: Averaging = "token"

    def own_loss(self, terms: LossTerms) -> LossReport:
        """The policy gradient with clipped importance weights; see the module's formula."""
        low, high = self.config.clip, self.config.clip_high
        return cispo_loss(terms, clip_low=low, clip_high=high, kl=self.kl)


def grpo_loss(terms: LossTerms, *, clip_low: float, clip_high: float, kl: float) -> LossReport:
    """Clipped policy gradient with an optional KL penalty."""
    ratio = torch.exp(terms.logprobs - terms.old_logprobs)
    surrogate, clipped = clipped_surrogate(ratio, terms.advantages, clip_low, clip_high)
    return weighted_loss(terms, surrogate, clipped, kl=kl)


def gspo_loss(terms: LossTerms, *, clip_low: float, clip_high: float, kl: float) -> LossReport:
    """Clipped policy gradient with one ratio per sequence."""
    now = terms.logprobs.detach()
    total = sum_by_sample(now - terms.old_logprobs, terms.samples)
    tokens = sum_by_sample(torch.ones_like(now), terms.samples)
    log_ratio = (total / tokens.clamp(min=1.0))[terms.samples]
    ratio = torch.exp(log_ratio + terms.logprobs - now)  # the value of s, the gradient of p_t
    surrogate, clipped = clipped_surrogate(ratio, terms.advantages, clip_low, clip_high)
    return weighted_loss(terms, surrogate, clipped, kl=kl)


def cispo_loss(terms: LossTerms, *, clip_low: float, clip_high: float, kl: float) -> LossReport:
    """REINFORCE with clipped importance weights; `clipped` counts every clipped weight."""
    ratio = torch.exp(terms.logprobs - terms.old_logprobs).detach()
    low, high = 1.0 - clip_low, 1.0 + clip_high
    surrogate = ratio.clamp(low, high) * terms.advantages * terms.logprobs
    return weighted_loss(terms, surrogate, (ratio < low) | (ratio > high), kl=kl)
