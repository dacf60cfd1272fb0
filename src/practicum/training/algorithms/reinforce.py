"""REINFORCE with better baselines: RLOO and REINFORCE++.

RLOO: each episode against the mean of the others (Ahmadian et al. 2024, arXiv 2402.14740).

Credit, for episode i of a group with scores R_1..R_G:

    A_i = R_i - mean of R_j over j != i  =  G / (G - 1) * (R_i - mean(R))

An episode is one action: its probability is that of all of its tokens together. With

    r = exp( sum over t of (logp_t - logp_old_t) )

the loss, averaged over episodes, is

    - min(r A, clip(r, 1 - eps, 1 + eps) A)

The paper makes one plain REINFORCE step from each sample, which is the gradient of this where
r = 1; ratio and clipping for further steps are as TRL's RLOO trainer has them. The paper keeps the
policy near the base model in the reward (`kl_in: reward`, TRL's `beta`). Each root-to-leaf path of
an episode counts as a sequence.

REINFORCE++: advantages normalised over the whole step (Hu et al. 2025, arXiv 2501.03262).

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
from practicum.training.algorithms.losses import (
    clipped_surrogate,
    kl_to_base,
    sum_by_sample,
    weighted_loss,
)

if TYPE_CHECKING:
    from practicum.core.config.algorithm_config import ReinforcePlusPlusConfig


class Rloo(KlMethod):
    """RLOO."""

    name = "rloo"
    by_sequence: bool = True

    def credit(
        self, groups: Sequence[Group], estimates: Mapping[str, Estimates]
    ) -> list[list[Credit]]:
        """The whole episode's advantage for each of its turns."""
        return [self._credit_group(group, estimates) for group in groups]

    def _credit_group(self, group: Group, estimates: Mapping[str, Estimates]) -> list[Credit]:
        values = [whole_reward(e, estimates, self.kl_in_reward) for e in group.usable]
        return [
            Credit(advantages=(advantage,) * len(episode.trace.turns))
            for advantage, episode in zip(leave_one_out(values), group.usable, strict=True)
        ]

    def own_loss(self, terms: LossTerms) -> LossReport:
        """The clipped objective of whole sequences; see the module's formula."""
        clip = self.config.clip
        return rloo_loss(terms, clip_low=clip, clip_high=clip, kl=self.kl)


def leave_one_out(values: Sequence[float]) -> list[float]:
    """Each value less the mean of the others.

    >>> leave_one_out([3.0, 0.0, 0.0])
    [3.0, -1.5, -1.5]
    """
    others = len(values) - 1
    return [value - (sum(values) - value) / others for value in values]


def rloo_loss(terms: LossTerms, *, clip_low: float, clip_high: float, kl: float) -> LossReport:
    """Clipped policy gradient with one ratio per sequence, weighted by the sum of its terms."""
    log_ratio = sum_by_sample(terms.logprobs - terms.old_logprobs, terms.samples)
    weights = sum_by_sample(terms.weights, terms.samples)
    weighted = sum_by_sample(terms.weights * terms.advantages, terms.samples)
    # `tiny` only keeps 0 / 0 from being NaN, for samples that are not in this micro-batch.
    advantages = weighted / weights.clamp(min=torch.finfo(weights.dtype).tiny)
    surrogate, clipped = clipped_surrogate(torch.exp(log_ratio), advantages, clip_low, clip_high)
    loss = -(weights * surrogate).sum()
    if kl > 0.0:
        loss = loss + kl * (terms.weights * kl_to_base(terms)).sum()
    return LossReport(loss=loss, clipped=(weights * clipped).sum().detach())


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
