"""The weighted likelihood, and two passes that together are the gradient of any offline loss."""

import numpy as np
import pytest
import torch
from tests.unit.training.algorithms.cases import random_terms

from practicum.core.loss import LossTerms
from practicum.training.algorithms.losses import Likelihood, likelihood_loss, loss_and_gradient


def test_the_loss_is_minus_the_weighted_sum() -> None:
    """- (0.5 * 2 * -1 + 0.25 * -1 * -3) = 0.25."""
    case = LossTerms(
        logprobs=torch.tensor([-1.0, -3.0], dtype=torch.float64, requires_grad=True),
        old_logprobs=torch.zeros(2),
        advantages=torch.tensor([2.0, -1.0]),
        weights=torch.tensor([0.5, 0.25]),
    )
    report = likelihood_loss(case)
    assert report.loss.item() == pytest.approx(0.25)
    assert report.clipped.item() == 0.0
    [gradient] = torch.autograd.grad(report.loss, case.logprobs)
    assert gradient.tolist() == [-1.0, 0.25]


def test_tokens_of_any_sampler_may_be_given() -> None:
    assert not Likelihood().from_policy
    assert Likelihood().loss_needs == frozenset()
    assert Likelihood(epochs=3).epochs == 3


def test_two_passes_give_the_gradient_of_the_loss_itself() -> None:
    """Any function of the sequences' sums: measure, differentiate, then one weighted update."""
    case = random_terms(0)

    def loss_of(sums: torch.Tensor) -> torch.Tensor:
        return (sums * 0.3).sigmoid().square().sum() + (sums[0] * sums[2]).tanh()

    def sums_of(logprobs: torch.Tensor) -> torch.Tensor:
        return torch.stack([logprobs[case.samples == n].sum() for n in range(5)])

    direct = loss_of(sums_of(case.logprobs))
    [expected] = torch.autograd.grad(direct, case.logprobs)
    loss, slope = loss_and_gradient(loss_of, sums_of(case.logprobs).detach().numpy())
    terms = LossTerms(
        logprobs=case.logprobs,
        old_logprobs=case.old_logprobs,
        advantages=torch.from_numpy(-slope)[case.samples],
        weights=torch.ones_like(case.weights),
    )
    [found] = torch.autograd.grad(Likelihood().loss(terms).loss, case.logprobs)
    assert loss == pytest.approx(direct.item())
    torch.testing.assert_close(found, expected)
    assert np.abs(slope).min() > 1e-6
