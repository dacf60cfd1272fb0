"""On-policy distillation: the student samples, a teacher's log-probabilities are the reward.

The advantage of token t is

    A_t = logp_teacher_t - logp_old_t + reward_coef * A_grpo

where logp_old is the sampler's. The first part is minus the one-sample estimate of
KL(policy || teacher) at that token; later tokens do not count (discount 0), so the gradient is that
of the reverse KL on the student's own states (Agarwal et al. 2023, arXiv
2306.13649; with policy gradient: Gu et al. 2023, arXiv 2306.08543). A_grpo is the advantage of the
token's turn among the group's episodes, for a student that is to do better than its teacher.

Loss of a token with ratio r = exp(logp - logp_old), averaged over the tokens of the step:

    - min(r A, clip(r, 1 - eps, 1 + eps) A)

The teacher's log-probabilities must be at the same temperature and over the same choices.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from practicum.core.interfaces import Need
from practicum.core.loss import LossReport, LossTerms
from practicum.core.sample import Averaging, Credit, Episode, Estimates, Floats, Group, TurnCredit
from practicum.training.algorithms.credit import (
    OnlineMethod,
    by_turn,
    group_credit,
    sampler_logprobs,
)
from practicum.training.algorithms.grpo import grpo_loss

if TYPE_CHECKING:
    from practicum.core.config.algorithm_config import DistillConfig


class Distill(OnlineMethod):
    """On-policy distillation."""

    name = "distill"
    config: "DistillConfig"
    averaging: Averaging = "token"

    @property
    def credit_needs(self) -> frozenset[Need]:
        """The teacher's log-probabilities."""
        return frozenset({"teacher"})

    def is_informative(self, group: Group) -> bool:
        """Any usable group: the teacher credits every token."""
        return bool(group.usable)

    def credit(
        self, groups: Sequence[Group], estimates: Mapping[str, Estimates]
    ) -> list[list[Credit]]:
        """An advantage for each token of each usable episode."""
        return [
            [
                Credit(advantages=self._tokens(episode, turns, estimates[episode.trace.id]))
                for episode, turns in zip(group.usable, self._compared(group), strict=True)
            ]
            for group in groups
        ]

    def _compared(self, group: Group) -> list[TurnCredit]:
        """GRPO advantages of the turns; 0 where a group has nothing to compare."""
        if not self.config.reward_coef or len(group.usable) < 2:
            return [(0.0,) * len(episode.trace.turns) for episode in group.usable]
        return group_credit(
            group, {}, credit_by="turn", discount=1.0, scale="std", kl_in_reward=0.0
        )

    def _tokens(
        self, episode: Episode, turns: TurnCredit, estimates: Estimates
    ) -> tuple[Floats, ...]:
        theirs = by_turn(episode.trace, estimates.teacher_logprobs)
        taught = teacher_advantages(sampler_logprobs(episode.trace), theirs)
        return tuple(
            (tokens + self.config.reward_coef * turn).astype(np.float32)
            for tokens, turn in zip(taught, turns, strict=True)
        )

    def own_loss(self, terms: LossTerms) -> LossReport:
        """The clipped objective; see the module's formula."""
        clip = self.config.clip
        return grpo_loss(terms, clip_low=clip, clip_high=clip, kl=0.0)


def teacher_advantages(sampled: Sequence[Floats], teacher: Sequence[Floats]) -> tuple[Floats, ...]:
    """Teacher minus sampler log-probability of each token."""
    return tuple(theirs - own for own, theirs in zip(sampled, teacher, strict=True))
