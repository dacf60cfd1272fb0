"""REINFORCE++: advantages normalised over the whole step (Hu et al. 2025, arXiv 2501.03262).

Credit of token t of an episode that scored R, with k_i = logp_i - logp_base_i of its token i and
`kl_in: reward`:

    A_t = R - kl * sum over i >= t of k_i

and then, over all tokens of the step,

    A_t <- (A_t - mean(A)) / (std(A) + 1e-4)

With `baseline` each score is first compared with its group's mean, which takes several episodes of
a task; without it one is enough. Turns that are paid one by one count what they and later ones
earn (`credit: turn`), and later turns' rewards and k's count `discount`.

Loss of a token with ratio r = exp(logp - logp_old), averaged over an episode's tokens, then over
episodes:

    - min(r A, clip(r, 1 - eps, 1 + eps) A) + kl * d

where d is (logp - logp_base)^2 / 2 with `baseline`, as the paper has it there, and else the
estimator of GRPO (the paper has no KL in the loss then). The paper has no 1e-4.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch

from practicum.core.loss import LossReport, LossTerms
from practicum.core.sample import Credit, Episode, Estimates, Group, TurnCredit
from practicum.training.algorithms.credit import (
    Floats64,
    KlMethod,
    group_credit,
    loss_lengths,
    normalise,
    penalties_to_go,
    returns_to_go,
    token_penalties,
    turn_rewards,
    whole_reward,
)
from practicum.training.algorithms.losses import clipped_surrogate, weighted_loss

if TYPE_CHECKING:
    from practicum.core.config.algorithm_config import ReinforcePlusPlusConfig


class ReinforcePlusPlus(KlMethod):
    """REINFORCE++."""

    name = "reinforce++"
    config: "ReinforcePlusPlusConfig"

    def is_informative(self, group: Group) -> bool:
        """Any group with a baseline: the advantages are normalised over the whole step."""
        return len(group.usable) > (1 if self.config.baseline else 0)

    def credit(
        self, groups: Sequence[Group], estimates: Mapping[str, Estimates]
    ) -> list[list[Credit]]:
        """An advantage for each token of each usable episode."""
        raw = [
            [
                self._token_credit(episode, turns, estimates)
                for episode, turns in zip(group.usable, self._earned(group), strict=True)
            ]
            for group in groups
        ]
        return [[Credit(advantages=turns) for turns in group] for group in normalise(raw)]

    def _earned(self, group: Group) -> list[TurnCredit]:
        """Each turn's advantage before the KL penalty."""
        if self.config.baseline:
            return group_credit(
                group,
                {},
                credit_by=self.config.credit,
                discount=self.config.discount,
                scale="none",
                kl_in_reward=0.0,
            )
        if self.config.credit == "turn":
            return [
                returns_to_go(turn_rewards(e, {}, 0.0), self.config.discount) for e in group.usable
            ]
        return [(whole_reward(e, {}, 0.0),) * len(e.trace.turns) for e in group.usable]

    def _token_credit(
        self, episode: Episode, turns: TurnCredit, estimates: Mapping[str, Estimates]
    ) -> list[Floats64]:
        paid = token_penalties(episode.trace, estimates, self.kl_in_reward)
        to_go = penalties_to_go(paid, self.config.discount)
        return [
            np.full(length, value) - penalties
            for length, value, penalties in zip(
                loss_lengths(episode.trace), turns, to_go, strict=True
            )
        ]

    def own_loss(self, terms: LossTerms) -> LossReport:
        """The clipped objective; see the module's formula."""
        config = self.config
        return reinforce_pp_loss(terms, clip=config.clip, kl=self.kl, squared=config.baseline)


def reinforce_pp_loss(terms: LossTerms, *, clip: float, kl: float, squared: bool) -> LossReport:
    """Clipped policy gradient; `squared` takes the k2 KL estimate instead of k3."""
    ratio = torch.exp(terms.logprobs - terms.old_logprobs)
    surrogate, clipped = clipped_surrogate(ratio, terms.advantages, clip, clip)
    if kl > 0.0 and squared:
        assert terms.base_logprobs is not None
        surrogate = surrogate - kl * 0.5 * (terms.logprobs - terms.base_logprobs).square()
    return weighted_loss(terms, surrogate, clipped, kl=0.0 if squared else kl)
