"""DAPO: four changes to GRPO for long answers (Yu et al. 2025, arXiv 2503.14476).

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
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from practicum.core.loss import LossReport, LossTerms
from practicum.core.sample import Averaging, Credit, Estimates, Group
from practicum.training.algorithms.credit import GroupMethod, is_cut_off
from practicum.training.algorithms.grpo import grpo_loss

if TYPE_CHECKING:
    from practicum.core.config.algorithm_config import DapoConfig


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
