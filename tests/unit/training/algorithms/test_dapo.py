"""DAPO by hand and from its paper."""

import pytest
import torch
from tests.unit.training.algorithms.cases import (
    assert_same_loss,
    group,
    make_episode,
    random_terms,
    sequences,
    whole,
)

from practicum.core.loss import LossTerms
from practicum.core.trace import StopReason
from practicum.training.algorithms.dapo import Dapo


def from_the_paper(terms: LossTerms, low: float, high: float) -> torch.Tensor:
    """Equation 8 of arXiv 2503.14476: one sum over all tokens, over how many there are."""
    total, count = torch.zeros((), dtype=torch.float64), 0
    for places in sequences(terms):
        for t in places:
            ratio = terms.logprobs[t].exp() / terms.old_logprobs[t].exp()
            bounded = ratio.clip(1 - low, 1 + high)
            total = total + min(ratio * terms.advantages[t], bounded * terms.advantages[t])
            count += 1
    return -total / count


@pytest.mark.parametrize("seed", range(5))
def test_loss_and_gradient_are_the_papers(seed: int) -> None:
    case = random_terms(seed, Dapo().averaging, per_token=seed % 2 == 0)
    method = Dapo(clip=0.15, clip_high=0.35)
    assert_same_loss(
        lambda: method.loss(case).loss, lambda: from_the_paper(case, 0.15, 0.35), case.logprobs
    )


def test_a_good_token_has_more_room_than_a_bad_one() -> None:
    """Ratio 1.3: within 1 + 0.5 for a good token. Ratio 0.7: beyond 1 - 0.2 for a bad one."""
    ratios = torch.tensor([1.3, 0.7], dtype=torch.float64)
    case = LossTerms(
        logprobs=ratios.log().requires_grad_(),
        old_logprobs=torch.zeros(2, dtype=torch.float64),
        advantages=torch.tensor([1.0, -1.0], dtype=torch.float64),
        weights=torch.ones(2, dtype=torch.float64),
    )
    report = Dapo(clip=0.2, clip_high=0.5).loss(case)
    assert report.loss.item() == pytest.approx(-1.3 + 0.8)
    [gradient] = torch.autograd.grad(report.loss, case.logprobs)
    assert gradient.tolist() == pytest.approx([-1.3, 0.0])
    assert report.clipped.item() == 1.0


def test_episodes_cut_off_count_in_the_mean_and_not_in_the_loss() -> None:
    done = make_episode((5,), score=whole(1.0))
    late = make_episode((6,), score=whole(0.0), stop=StopReason.MAX_TURNS)
    long = make_episode((7, 7, 7), score=whole(0.5))
    method = Dapo(scale="none", credit="episode", filter_cut_off=True, turn_limit=3)
    [credits] = method.credit([group(done, late, long)], {})
    assert [c.counts for c in credits] == [True, False, False]
    assert [c.advantages for c in credits] == [(0.5,), (-0.5,), (0.0,)]
    [kept] = Dapo(scale="none").credit([group(done, late, long)], {})
    assert all(c.counts for c in kept)


def test_groups_that_all_score_the_same_are_to_be_replaced() -> None:
    same = [make_episode((i,), score=whole(1.0)) for i in range(3)]
    assert not Dapo().is_informative(group(*same))
    assert Dapo().is_informative(group(*same, make_episode((9,), score=whole(0.0))))
