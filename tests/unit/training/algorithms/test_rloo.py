"""RLOO by hand and from its paper."""

import numpy as np
import pytest
import torch
from tests.unit.training.algorithms.cases import (
    LENGTHS,
    assert_same_loss,
    group,
    kl_estimates,
    make_episode,
    random_terms,
    sequences,
    whole,
)

from practicum.core.loss import LossTerms
from practicum.training.algorithms.rloo import Rloo, leave_one_out


def clipped(terms: LossTerms, clip: float) -> torch.Tensor:
    """Sequences as single actions: the product of a sequence's ratios, clipped once."""
    total = torch.zeros((), dtype=torch.float64)
    found = sequences(terms)
    for places in found:
        ratio = torch.ones((), dtype=torch.float64)
        for t in places:
            ratio = ratio * terms.logprobs[t].exp() / terms.old_logprobs[t].exp()
        advantage = terms.advantages[places[0]]
        total = total + min(ratio * advantage, ratio.clip(1 - clip, 1 + clip) * advantage)
    return -total / len(found)


@pytest.mark.parametrize("seed", range(5))
def test_loss_and_gradient_are_those_of_whole_sequences(seed: int) -> None:
    case = random_terms(seed, apart=0.3, lengths=LENGTHS * 3)
    assert Rloo().loss(case).clipped > 0
    assert_same_loss(lambda: Rloo().loss(case).loss, lambda: clipped(case, 0.2), case.logprobs)


@pytest.mark.parametrize("seed", range(3))
def test_right_after_sampling_the_gradient_is_the_papers_reinforce(seed: int) -> None:
    """Equation 5 of arXiv 2402.14740: 1/k sum of A_i grad log p(y_i), not divided by length."""
    case = random_terms(seed, apart=0.0)
    [ours] = torch.autograd.grad(Rloo().loss(case).loss, case.logprobs)
    plain = sum(case.advantages[p[0]] * case.logprobs[p].sum() for p in sequences(case)) / 5
    [paper] = torch.autograd.grad(-plain, case.logprobs)
    torch.testing.assert_close(ours, paper)


def test_the_baseline_leaves_the_episode_itself_out() -> None:
    chance = np.random.default_rng(1)
    for _ in range(20):
        values = chance.normal(size=chance.integers(2, 9)).tolist()
        expected = [
            v - np.mean([other for j, other in enumerate(values) if j != i])
            for i, v in enumerate(values)
        ]
        assert leave_one_out(values) == pytest.approx(expected)


def test_every_turn_has_the_episodes_advantage_after_kl_was_paid() -> None:
    """Scores 5, 1, 1 less 0.5 * (2 + 2), 0.5 * 0, 0.5 * -2: 3, 1, 2. Others' means 1.5, 2.5, 2."""
    a = make_episode((5,), (6,), score=whole(5.0), name="a")
    b = make_episode((7,), score=whole(1.0), name="b")
    c = make_episode((8,), score=whole(1.0), name="c")
    estimates = {
        "a": kl_estimates([2.0], [2.0]),
        "b": kl_estimates([0.0]),
        "c": kl_estimates([-2.0]),
    }
    method = Rloo(kl=0.5, kl_in="reward")
    [credits] = method.credit([group(a, b, c)], estimates)
    assert credits[0].advantages == pytest.approx((1.5, 1.5))
    assert credits[1].advantages == pytest.approx((-1.5,))
    assert credits[2].advantages == pytest.approx((0.0,), abs=1e-6)
    assert method.credit_needs == {"base"}
    assert method.by_sequence


def test_the_distance_to_the_base_can_be_part_of_the_loss() -> None:
    case = random_terms(0)
    d = case.base_logprobs - case.logprobs
    assert_same_loss(
        lambda: Rloo(kl=0.7).loss(case).loss,
        lambda: clipped(case, 0.2) + 0.7 * (case.weights * (d.exp() - 1 - d)).sum(),
        case.logprobs,
    )
