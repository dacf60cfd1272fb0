"""Parts that several losses share: PPO clipping, the KL estimate, and the offline likelihood loss.

An offline loss L is a function of the summed log-probabilities s_i of whole examples. By the chain
rule its gradient is

    dL/dtheta = sum over i of (dL/ds_i) * ds_i/dtheta

so the learner measures all s_i, `loss_and_gradient` computes each dL/ds_i, and one update with

    - sum over terms of weight * advantage * logp

where every token of example i has weight 1 and advantage - dL/ds_i, has that very gradient, in any
number of micro-batches.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from practicum.core.interfaces import Need
from practicum.core.loss import LossReport, LossTerms


def clipped_surrogate(
    ratio: torch.Tensor, advantages: torch.Tensor, clip_low: float, clip_high: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """PPO's surrogate min(r A, clip(r, 1 - low, 1 + high) A), and where it was clipped, (M,) each.

    (Schulman et al. 2017, arXiv 1707.06347; two bounds: Yu et al. 2025, arXiv 2503.14476.)
    """
    bounded = ratio.clamp(1.0 - clip_low, 1.0 + clip_high)
    surrogate = torch.minimum(ratio * advantages, bounded * advantages)
    clipped = ((ratio < 1.0 - clip_low) & (advantages < 0)) | (
        (ratio > 1.0 + clip_high) & (advantages > 0)
    )
    return surrogate, clipped


def kl_to_base(terms: LossTerms) -> torch.Tensor:
    """The k3 estimate of KL(policy || base) for each term: exp(d) - d - 1, d = logp_base - logp.

    Never negative, and unbiased when the policy sampled the token (arXiv 2402.03300). (M,)
    """
    assert terms.base_logprobs is not None
    log_ratio = terms.base_logprobs - terms.logprobs
    return torch.exp(log_ratio) - log_ratio - 1.0


def sum_by_sample(values: torch.Tensor, samples: torch.Tensor) -> torch.Tensor:
    """The sum over each sample's terms."""
    count = int(samples.max()) + 1
    return values.new_zeros(count).index_add(0, samples, values)  # (samples,)


def weighted_loss(
    terms: LossTerms, objective: torch.Tensor, clipped: torch.Tensor, *, kl: float = 0.0
) -> LossReport:
    """The weighted sum over terms of minus the objective, plus `kl` times the KL to the base."""
    per_term = -objective
    if kl > 0.0:
        per_term = per_term + kl * kl_to_base(terms)
    return LossReport(
        loss=(terms.weights * per_term).sum(), clipped=(terms.weights * clipped).sum().detach()
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Likelihood:
    """The `Objective` of offline methods; more than one epoch is meaningful for SFT only."""

    epochs: int = 1

    @property
    def loss_needs(self) -> frozenset[Need]:
        """Only the policy's log-probabilities."""
        return frozenset()

    @property
    def by_sequence(self) -> bool:
        """The loss is a sum over independent terms."""
        return False

    @property
    def from_policy(self) -> bool:
        """The tokens may come from anywhere."""
        return False

    def loss(self, terms: LossTerms) -> LossReport:
        """Minus the weighted log-likelihood."""
        return likelihood_loss(terms)


def likelihood_loss(terms: LossTerms) -> LossReport:
    """Minus the sum of weight * advantage * logp; nothing is clipped."""
    loss = -(terms.weights * terms.advantages * terms.logprobs).sum()
    return LossReport(loss=loss, clipped=torch.zeros_like(loss.detach()))


def loss_and_gradient(
    loss_of: Callable[[torch.Tensor], torch.Tensor], policy_sums: npt.ArrayLike
) -> tuple[float, npt.NDArray[np.float64]]:
    """A loss of the examples' summed log-probabilities, and its derivative by each sum, (N,).

    >>> loss, gradient = loss_and_gradient(lambda sums: (sums**2).mean(), [1.0, -3.0])
    >>> loss, gradient.tolist()
    (5.0, [1.0, -3.0])
    """
    sums = torch.tensor(np.asarray(policy_sums, np.float64), requires_grad=True)
    loss = loss_of(sums)
    [gradient] = torch.autograd.grad(loss, [sums])
    return float(loss.detach()), gradient.numpy()
