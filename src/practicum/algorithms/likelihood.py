"""The objective of all offline methods: a weighted sum of log-probabilities.

An offline loss L is a function of the sums s_i of whole examples' log-probabilities. Its gradient

    dL/dtheta = sum over i of (dL/ds_i) * ds_i/dtheta

takes two passes: the learner measures all s_i, `slopes` gives each dL/ds_i, and one update
with the loss below and the advantage - dL/ds_i for every token of example i has that very gradient,
in as many micro-batches as the memory asks for:

    - sum over terms of weight * advantage * logp

with the weight 1 for each token where the advantages are slopes.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from practicum.core.interfaces import Need
from practicum.core.loss import LossReport, LossTerms

__all__ = ["Likelihood", "likelihood_loss", "slopes"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Likelihood:
    """The objective of one update; slopes hold for the first epoch only, likelihoods for all."""

    epochs: int = 1

    @property
    def loss_needs(self) -> frozenset[Need]:
        """Nothing besides the policy's log-probabilities."""
        return frozenset()

    @property
    def by_sequence(self) -> bool:
        """Each term of the loss stands for itself."""
        return False

    @property
    def from_policy(self) -> bool:
        """The tokens may be anybody's."""
        return False

    def loss(self, terms: LossTerms) -> LossReport:
        """Minus the weighted log-likelihood."""
        return likelihood_loss(terms)


def likelihood_loss(terms: LossTerms) -> LossReport:
    """Minus the sum of weight * advantage * logp; nothing is ever clipped."""
    loss = -(terms.weights * terms.advantages * terms.logprobs).sum()
    return LossReport(loss=loss, clipped=torch.zeros_like(loss.detach()))


def slopes(
    loss_of: Callable[[torch.Tensor], torch.Tensor], policy_sums: npt.ArrayLike
) -> tuple[float, npt.NDArray[np.float64]]:
    """A loss of the examples' log-probabilities, and how it changes with each of them.

    >>> loss, slope = slopes(lambda sums: (sums**2).mean(), [1.0, -3.0])
    >>> loss, slope.tolist()
    (5.0, [1.0, -3.0])
    """
    sums = torch.tensor(np.asarray(policy_sums, np.float64), requires_grad=True)
    loss = loss_of(sums)
    [gradient] = torch.autograd.grad(loss, [sums])
    return float(loss.detach()), gradient.numpy()
