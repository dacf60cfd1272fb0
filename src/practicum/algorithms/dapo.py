"""DAPO: four changes to GRPO for long answers (Yu et al. 2025, arXiv 2503.14476).

1. Clip higher. With ratio r = exp(logp - logp_old) the loss of a token is

       - min(r A, clip(r, 1 - clip_low, 1 + clip_high) A)          clip_high > clip_low

   so that unlikely tokens have room to become likely.
2. Token mean: every token of the step counts the same, however long its episode is.
3. Dynamic sampling: groups whose episodes all score the same are replaced (`is_informative`).
4. Overlong episodes. Shaping, a penalty that grows with the length, is a reward like any other.
   Filtering (`drop_cut_off`) leaves episodes that a limit cut off out of the loss: whether they
   would have succeeded is not known. They still count in their group's mean.

The advantages are GRPO's, and there is no KL penalty unless it is asked for. TRL's
`loss_type="dapo"` is the second change; the first is its `epsilon_high`, and filtering its
`mask_truncated_completions`, which looks for the end-of-turn token.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from practicum.algorithms.credit import is_cut_off
from practicum.algorithms.grpo import grpo_loss
from practicum.algorithms.methods import GroupMethod
from practicum.core.loss import LossReport, LossTerms
from practicum.core.sample import Averaging, Credit, Estimates, Group

__all__ = ["Dapo"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dapo(GroupMethod):
    """DAPO with its settings."""

    averaging: Averaging = "token"
    clip_low: float = 0.2
    clip_high: float = 0.28
    drop_cut_off: bool = False
    turn_limit: int = 0
    """Tokens a turn may have: with `drop_cut_off`, a last turn as long counts as cut off."""

    def credit(
        self, groups: Sequence[Group], estimates: Mapping[str, Estimates]
    ) -> list[list[Credit]]:
        """GRPO's advantages; nothing is learned from episodes that are to be left out."""
        credited = GroupMethod.credit(self, groups, estimates)
        if not self.drop_cut_off:
            return credited
        return [
            [
                replace(credit, counts=not is_cut_off(episode.trace, self.turn_limit))
                for episode, credit in zip(group.usable, credits, strict=True)
            ]
            for group, credits in zip(groups, credited, strict=True)
        ]

    def loss(self, terms: LossTerms) -> LossReport:
        """The objective with two bounds."""
        return grpo_loss(terms, clip_low=self.clip_low, clip_high=self.clip_high, kl=self.kl)
