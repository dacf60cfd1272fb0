"""On-policy distillation: a teacher judges each token the student sampled.

The policy samples; the teacher says how likely it would have been to sample the same. The credit of
token t is

    A_t = teacher_weight * (logp_teacher_t - logp_old_t) + reward_weight * A_grpo

logp_old being the sampler's own. The first part is minus the one-sample estimate of
KL(policy || teacher) at that token, and no later token counts for it (discount 0), so that the
gradient is that of the reverse KL over states the student itself visits (Agarwal et al. 2023, arXiv
2306.13649; with policy gradient: Gu et al. 2023, arXiv 2306.08543). A_grpo is the advantage of the
token's turn among the group's episodes, for a student that is to do better than its teacher.

Loss of a token with ratio r = exp(logp - logp_old), averaged over the tokens of the step:

    - min(r A, clip(r, 1 - eps, 1 + eps) A)

Estimates of the teacher must be of the very tokens that were sampled, at the same temperature and
among the same choices.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from practicum.algorithms.credit import (
    CreditBy,
    Scale,
    by_turn,
    group_credit,
    has_spread,
    sampler_logprobs,
)
from practicum.algorithms.grpo import grpo_loss
from practicum.algorithms.methods import OnlineMethod
from practicum.core.interfaces import Need
from practicum.core.loss import LossReport, LossTerms
from practicum.core.sample import Averaging, Credit, Episode, Estimates, Floats, Group, TurnCredit

__all__ = ["Distill", "teacher_advantages"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Distill(OnlineMethod):
    """On-policy distillation with its settings."""

    averaging: Averaging = "token"
    teacher_weight: float = 1.0
    reward_weight: float = 0.0
    """What the comparison of scores within the group counts; 0 learns from the teacher alone."""
    credit_by: CreditBy = "turn"
    discount: float = 1.0
    """Of rewards, where they count; the teacher's word is about the token alone."""
    scale: Scale = "std"
    clip: float = 0.2

    @property
    def credit_needs(self) -> frozenset[Need]:
        """The teacher; the base model too where the reward has KL in it."""
        found: set[Need] = {"teacher"}
        if self.kl_in_reward > 0.0:
            found.add("base")
        return frozenset(found)

    def is_informative(self, group: Group) -> bool:
        """Always, while the teacher counts: it has something to say of any token."""
        return bool(group.usable) if self.teacher_weight else has_spread(group)

    def credit(
        self, groups: Sequence[Group], estimates: Mapping[str, Estimates]
    ) -> list[list[Credit]]:
        """An advantage for each token of each usable episode."""
        return [
            [
                Credit(advantages=self._tokens(episode, turns, estimates[episode.trace.id]))
                for episode, turns in zip(
                    group.usable, self._compared(group, estimates), strict=True
                )
            ]
            for group in groups
        ]

    def _compared(self, group: Group, estimates: Mapping[str, Estimates]) -> list[TurnCredit]:
        """What the scores say of each turn; nothing where a group has nothing to compare."""
        if not self.reward_weight or len(group.usable) < 2:
            return [(0.0,) * len(episode.trace.turns) for episode in group.usable]
        return group_credit(
            group,
            estimates,
            credit_by=self.credit_by,
            discount=self.discount,
            scale=self.scale,
            kl_in_reward=self.kl_in_reward,
        )

    def _tokens(
        self, episode: Episode, turns: TurnCredit, estimates: Estimates
    ) -> tuple[Floats, ...]:
        theirs = by_turn(episode.trace, estimates.teacher_logprobs)
        taught = teacher_advantages(sampler_logprobs(episode.trace), theirs)
        return tuple(
            (self.teacher_weight * tokens + self.reward_weight * turn).astype(np.float32)
            for tokens, turn in zip(taught, turns, strict=True)
        )

    def loss(self, terms: LossTerms) -> LossReport:
        """The clipped objective; see the module's formula."""
        return grpo_loss(terms, clip_low=self.clip, clip_high=self.clip, kl=self.kl)


def teacher_advantages(sampled: Sequence[Floats], teacher: Sequence[Floats]) -> tuple[Floats, ...]:
    """How much likelier each token is to the teacher than it was to the sampler, in logarithms."""
    return tuple(theirs - own for own, theirs in zip(sampled, teacher, strict=True))
