"""Truncated importance ratios, for tokens that earlier weights have sampled.

A token's ratio r = p / p_old corrects for its having been drawn by p_old, the policy at the moment
it was sampled. The further that lies back the more r varies, and a few huge ratios can make up the
whole gradient. Clipping does not help: min(r A, clip(r) A) leaves r alone where A < 0 and r is
large. Truncated importance sampling (Ionides 2008, "Truncated importance sampling", J. Comput.
Graph. Stat. 17(2); for stale actors: Espeholt et al. 2018, arXiv 1802.01561) lets it count at most

    w = min(r, C)                                       C = max_ratio

in value and in gradient: in place of r the loss has r * sg[w / r] (sg: no gradient), whose value is
w and whose gradient is w * grad logp. That is the ratio to a p_old that is raised where need be,

    logp_old'  =  max(logp_old, sg[logp] - log C)

so every method's own loss, with its own clipping, is used as it is. A method with one ratio for a
whole sequence makes it of truncated ratios of tokens. The price is a bias towards the policy that
sampled, which is 0 where no ratio exceeds C.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from practicum.core.interfaces import Algorithm, Need
from practicum.core.loss import LossReport, LossTerms
from practicum.core.sample import Averaging, Credit, Estimates, Group

__all__ = ["Truncated", "truncate"]


def truncate(terms: LossTerms, max_ratio: float) -> tuple[LossTerms, torch.Tensor]:
    """Terms whose ratios are at most `max_ratio`, and which of them would have exceeded it.

    >>> old, now = torch.tensor([0.1, 0.5]).log(), torch.tensor([0.5, 0.5]).log()
    >>> terms = LossTerms(logprobs=now, old_logprobs=old, advantages=None, weights=None)
    >>> found, which = truncate(terms, 2.0)
    >>> [round(float(r), 3) for r in (now - found.old_logprobs).exp()], which.tolist()
    ([2.0, 1.0], [True, False])
    """
    lowest = terms.logprobs.detach() - math.log(max_ratio)
    raised = torch.maximum(terms.old_logprobs, lowest)
    return replace(terms, old_logprobs=raised), terms.old_logprobs < lowest


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncated:
    """A method whose ratios are truncated; all else is the method's own."""

    method: Algorithm
    max_ratio: float

    def loss(self, terms: LossTerms) -> LossReport:
        """The method's loss with every ratio at most `max_ratio`."""
        truncated, exceeded = truncate(terms, self.max_ratio)
        report = self.method.loss(truncated)
        return replace(report, truncated=(terms.weights * exceeded).sum().detach())

    @property
    def epochs(self) -> int:
        """The method's."""
        return self.method.epochs

    @property
    def minibatches(self) -> int:
        """The method's."""
        return self.method.minibatches

    @property
    def averaging(self) -> Averaging:
        """The method's."""
        return self.method.averaging

    @property
    def by_sequence(self) -> bool:
        """The method's."""
        return self.method.by_sequence

    @property
    def from_policy(self) -> bool:
        """The method's."""
        return self.method.from_policy

    @property
    def loss_needs(self) -> frozenset[Need]:
        """The method's."""
        return self.method.loss_needs

    @property
    def credit_needs(self) -> frozenset[Need]:
        """The method's."""
        return self.method.credit_needs

    def is_informative(self, group: Group) -> bool:
        """As the method says."""
        return self.method.is_informative(group)

    def credit(
        self, groups: Sequence[Group], estimates: Mapping[str, Estimates]
    ) -> list[list[Credit]]:
        """As the method says."""
        return self.method.credit(groups, estimates)
