"""What the losses of several methods have in common: the clipped gain, sums over a sequence, KL."""

import torch

from practicum.core.loss import LossReport, LossTerms

__all__ = ["base_distance", "clipped_gain", "sum_by_sample", "weigh"]


def clipped_gain(
    ratio: torch.Tensor, advantages: torch.Tensor, clip_low: float, clip_high: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """PPO's objective min(r A, clip(r, 1 - low, 1 + high) A), and where it was clipped.

    (Schulman et al. 2017, arXiv 1707.06347; two bounds: Yu et al. 2025, arXiv 2503.14476.)
    """
    bounded = ratio.clamp(1.0 - clip_low, 1.0 + clip_high)
    gain = torch.minimum(ratio * advantages, bounded * advantages)
    clipped = ((ratio < 1.0 - clip_low) & (advantages < 0)) | (
        (ratio > 1.0 + clip_high) & (advantages > 0)
    )
    return gain, clipped


def base_distance(terms: LossTerms) -> torch.Tensor:
    """How far each term is from the base model: exp(d) - d - 1 with d = logp_base - logp.

    Never negative, and the KL divergence on average (the estimator of arXiv 2402.03300).
    """
    assert terms.base_logprobs is not None
    log_ratio = terms.base_logprobs - terms.logprobs
    return torch.exp(log_ratio) - log_ratio - 1.0


def sum_by_sample(values: torch.Tensor, samples: torch.Tensor) -> torch.Tensor:
    """The sum over each sample's terms, by the sample's number."""
    count = int(samples.max()) + 1
    return values.new_zeros(count).index_add(0, samples, values)


def weigh(
    terms: LossTerms, gain: torch.Tensor, clipped: torch.Tensor, *, kl: float = 0.0
) -> LossReport:
    """The weighted sum of what each term loses, with an optional distance to the base model."""
    per_term = -gain
    if kl > 0.0:
        per_term = per_term + kl * base_distance(terms)
    return LossReport(
        loss=(terms.weights * per_term).sum(), clipped=(terms.weights * clipped).sum().detach()
    )
