"""RLOO: each episode against the mean of the others (Ahmadian et al. 2024, arXiv 2402.14740).

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
"""

from collections.abc import Mapping, Sequence

import torch

from practicum.core.loss import LossReport, LossTerms
from practicum.core.sample import Credit, Estimates, Group
from practicum.training.algorithms.credit import KlMethod, whole_reward
from practicum.training.algorithms.losses import clipped_surrogate, kl_to_base, sum_by_sample


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
