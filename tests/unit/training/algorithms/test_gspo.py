"""GSPO by hand and from its paper."""

import math

import pytest
import torch
from tests.unit.training.algorithms.cases import assert_same_loss, random_terms, sequences

from practicum.core.loss import LossTerms
from practicum.training.algorithms.gspo import Gspo


def from_the_paper(terms: LossTerms, low: float, high: float) -> torch.Tensor:
    """Equations 5 and 7 of arXiv 2507.18071: s = (p(y) / p_old(y)) ^ (1 / |y|)."""
    total = torch.zeros((), dtype=torch.float64)
    found = sequences(terms)
    for places in found:
        likelihood = torch.ones((), dtype=torch.float64)
        for t in places:
            likelihood = likelihood * terms.logprobs[t].exp() / terms.old_logprobs[t].exp()
        ratio = likelihood ** (1 / len(places))
        advantage = terms.advantages[places[0]]
        total = total + min(ratio * advantage, ratio.clip(1 - low, 1 + high) * advantage)
    return -total / len(found)


@pytest.mark.parametrize("seed", range(5))
def test_loss_and_gradient_are_the_papers(seed: int) -> None:
    case = random_terms(seed)
    method = Gspo(clip=0.05, clip_high=0.1)
    assert method.loss(case).clipped > 0
    assert_same_loss(
        lambda: method.loss(case).loss, lambda: from_the_paper(case, 0.05, 0.1), case.logprobs
    )


def test_tokens_with_credit_of_their_own_are_moved_by_it() -> None:
    """Two tokens with log-ratios 0.02 and 0.04: s = exp(0.03). Gradient - 1/2 s A_t each."""
    case = LossTerms(
        logprobs=torch.tensor([-1.0, -2.0], dtype=torch.float64, requires_grad=True),
        old_logprobs=torch.tensor([-1.02, -2.04], dtype=torch.float64),
        advantages=torch.tensor([3.0, -1.0], dtype=torch.float64),
        weights=torch.tensor([0.5, 0.5], dtype=torch.float64),
        samples=torch.tensor([0, 0]),
    )
    report = Gspo(clip=0.1, clip_high=0.1).loss(case)
    ratio = math.exp(0.03)
    assert report.loss.item() == pytest.approx(-ratio * (3.0 - 1.0) / 2)
    [gradient] = torch.autograd.grad(report.loss, case.logprobs)
    assert gradient.tolist() == pytest.approx([-1.5 * ratio, 0.5 * ratio])


def test_it_must_be_given_whole_sequences() -> None:
    assert Gspo().by_sequence


def test_the_order_of_terms_of_different_sequences_does_not_matter() -> None:
    case = random_terms(3)
    order = torch.randperm(case.samples.numel(), generator=torch.Generator().manual_seed(0))
    mixed = LossTerms(
        **{
            name: getattr(case, name)[order]
            for name in ("logprobs", "old_logprobs", "advantages", "weights", "samples")
        }
    )
    assert Gspo().loss(mixed).loss.item() == pytest.approx(Gspo().loss(case).loss.item())
