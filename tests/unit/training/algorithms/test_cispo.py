"""CISPO by hand and from its paper."""

import math

import pytest
import torch
from tests.unit.training.algorithms.cases import assert_same_loss, random_terms, sequences

from practicum.core.loss import LossTerms
from practicum.training.algorithms.cispo import Cispo


def from_the_paper(terms: LossTerms, low: float, high: float) -> torch.Tensor:
    """Equations 4 and 5 of arXiv 2506.13585: a weight without gradient times A log p."""
    total, count = torch.zeros((), dtype=torch.float64), 0
    for places in sequences(terms):
        for t in places:
            ratio = math.exp(float(terms.logprobs[t].detach()) - float(terms.old_logprobs[t]))
            weight = min(max(ratio, 1 - low), 1 + high)
            total = total + weight * terms.advantages[t] * terms.logprobs[t]
            count += 1
    return -total / count


@pytest.mark.parametrize(("low", "high"), [(1.0, 0.1), (0.2, 0.3)])
@pytest.mark.parametrize("seed", range(5))
def test_loss_and_gradient_are_the_papers(seed: int, low: float, high: float) -> None:
    case = random_terms(seed, Cispo().averaging, per_token=seed % 2 == 0)
    method = Cispo(clip=low, clip_high=high)
    assert method.loss(case).clipped > 0
    assert_same_loss(
        lambda: method.loss(case).loss, lambda: from_the_paper(case, low, high), case.logprobs
    )


def test_a_token_beyond_the_bound_still_learns_with_the_bound_as_its_weight() -> None:
    """Ratio 10 with bound 5 and advantage 2: gradient -5 * 2. GRPO would give 0."""
    case = LossTerms(
        logprobs=torch.tensor([-1.0], dtype=torch.float64, requires_grad=True),
        old_logprobs=torch.tensor([-1.0 - math.log(10)], dtype=torch.float64),
        advantages=torch.tensor([2.0], dtype=torch.float64),
        weights=torch.ones(1, dtype=torch.float64),
    )
    report = Cispo().loss(case)
    [gradient] = torch.autograd.grad(report.loss, case.logprobs)
    assert gradient.tolist() == pytest.approx([-10.0])
    assert report.clipped.item() == 1.0
