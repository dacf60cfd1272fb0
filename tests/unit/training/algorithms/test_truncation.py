"""Truncated ratios by hand, and what they leave alone."""

import math

import pytest
import torch
from tests.unit.training.algorithms.cases import random_terms

from practicum.core.loss import LossTerms
from practicum.training.algorithms.cispo import Cispo
from practicum.training.algorithms.credit import OnlineMethod, truncate
from practicum.training.algorithms.grpo import Grpo
from practicum.training.algorithms.gspo import Gspo
from practicum.training.algorithms.rloo import Rloo


def terms_of(ratios: list[float], advantages: list[float]) -> LossTerms:
    """Terms of equal weight whose tokens have become this much likelier, from 0.1 each."""
    old = torch.full((len(ratios),), math.log(0.1), dtype=torch.float64)
    now = (old + torch.tensor(ratios, dtype=torch.float64).log()).requires_grad_()
    return LossTerms(
        logprobs=now,
        old_logprobs=old,
        advantages=torch.tensor(advantages, dtype=torch.float64),
        weights=torch.full((len(ratios),), 1.0 / len(ratios), dtype=torch.float64),
        samples=torch.arange(len(ratios)),
    )


def slopes(method: OnlineMethod, terms: LossTerms) -> list[float]:
    """The gradient by each log-probability."""
    [found] = torch.autograd.grad(method.loss(terms).loss, [terms.logprobs])
    return [round(g, 9) for g in found.tolist()]


def test_value_and_gradient_by_hand() -> None:
    """Five tokens, C = 2, clip 0.2, weight 1/5 each.

    r = 5, A = -1    truncated: gain -2, slope of the gain 2 * -1
    r = 5, A = +1    clipped at 1.2 as before: gain 1.2, no slope
    r = 1.5, A = -1  below C: gain -1.5, slope -1.5
    r = 0.5, A = -1  clipped at 0.8: gain -0.8, no slope
    r = 0.5, A = +1  gain 0.5, slope 0.5
    The loss is minus the mean: -(-2 + 1.2 - 1.5 - 0.8 + 0.5) / 5 = 0.52.
    """
    terms = terms_of([5.0, 5.0, 1.5, 0.5, 0.5], [-1.0, 1.0, -1.0, -1.0, 1.0])
    method = Grpo(clip=0.2, max_ratio=2.0)
    report = method.loss(terms)
    assert float(report.loss.detach()) == pytest.approx(0.52)
    assert slopes(method, terms) == pytest.approx([0.4, 0.0, 0.3, 0.0, -0.1])
    assert float(report.truncated) == pytest.approx(2 / 5)
    assert float(report.clipped) == pytest.approx(2 / 5)


def test_without_truncation_the_first_token_would_count_its_whole_ratio() -> None:
    terms = terms_of([5.0], [-1.0])
    assert slopes(Grpo(clip=0.2), terms) == pytest.approx([5.0])
    assert Grpo(clip=0.2).loss(terms).truncated is None


@pytest.mark.parametrize("seed", range(5))
def test_the_gradient_is_the_weighted_sum_of_truncated_ratios(seed: int) -> None:
    """With a clip that never bites: weight * min(r, C) * A, token by token."""
    terms = random_terms(seed, apart=1.0)
    ratio = (terms.logprobs - terms.old_logprobs).exp().detach()
    expected = -terms.weights * ratio.clamp(max=1.5) * terms.advantages
    method = Grpo(clip=1e9, max_ratio=1.5)
    [found] = torch.autograd.grad(method.loss(terms).loss, [terms.logprobs])
    torch.testing.assert_close(found, expected)
    assert (ratio > 1.5).any()


@pytest.mark.parametrize("kind", [Grpo, Gspo, Rloo, Cispo])
def test_a_limit_that_no_ratio_reaches_changes_nothing(kind: type[OnlineMethod]) -> None:
    terms = random_terms(3)
    highest = float((terms.logprobs - terms.old_logprobs).detach().exp().max())
    method, limited = kind(), kind(max_ratio=1.01 * max(1.0, highest))
    assert limited.loss(terms).loss == method.loss(terms).loss
    assert slopes(limited, terms) == slopes(method, terms)
    assert float(limited.loss(terms).truncated) == 0.0


def test_a_sequences_ratio_is_made_of_truncated_ratios_of_its_tokens() -> None:
    """RLOO multiplies: tokens 4 and 0.5 with C = 2 give 2 * 0.5 = 1, not 2."""
    terms = terms_of([4.0, 0.5], [-3.0, -3.0])
    together = LossTerms(
        logprobs=terms.logprobs,
        old_logprobs=terms.old_logprobs,
        advantages=terms.advantages,
        weights=terms.weights,
        samples=torch.zeros(2, dtype=torch.int64),
    )
    assert float(Rloo().loss(together).loss.detach()) == pytest.approx(6.0)
    limited = Rloo(max_ratio=2.0)
    assert float(limited.loss(together).loss.detach()) == pytest.approx(3.0)


def test_only_old_logprobs_are_touched() -> None:
    terms = random_terms(1)
    found, _ = truncate(terms, 1.0)
    assert found.logprobs is terms.logprobs
    assert found.advantages is terms.advantages
    assert bool((found.logprobs - found.old_logprobs).exp().max() <= 1.0 + 1e-9)
