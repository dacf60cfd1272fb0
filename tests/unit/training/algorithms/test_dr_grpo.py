"""Dr. GRPO by hand and from its paper."""

import pytest
import torch
from tests.unit.training.algorithms.cases import (
    CONSTANT,
    assert_same_loss,
    group,
    make_episode,
    random_terms,
    sequences,
    whole,
)

from practicum.core.loss import LossTerms
from practicum.training.algorithms.grpo import DrGrpo


def from_the_paper(terms: LossTerms, clip: float) -> torch.Tensor:
    """1/G sum over episodes, sum over tokens without 1/|o|, over a constant (arXiv 2503.20783)."""
    total = torch.zeros((), dtype=torch.float64)
    episodes = sequences(terms)
    for places in episodes:
        for t in places:
            ratio = terms.logprobs[t].exp() / terms.old_logprobs[t].exp()
            gains = (
                ratio * terms.advantages[t],
                ratio.clip(1 - clip, 1 + clip) * terms.advantages[t],
            )
            total = total + min(gains)
    return -total / len(episodes) / CONSTANT


@pytest.mark.parametrize("seed", range(5))
def test_loss_and_gradient_are_the_papers(seed: int) -> None:
    case = random_terms(seed, DrGrpo().averaging)
    assert_same_loss(
        lambda: DrGrpo().loss(case).loss, lambda: from_the_paper(case, 0.2), case.logprobs
    )


def test_scores_are_compared_with_the_mean_and_not_scaled() -> None:
    """Scores 10, 0, 2: mean 4."""
    episodes = [make_episode((i,), score=whole(v)) for i, v in enumerate((10.0, 0.0, 2.0))]
    [credits] = DrGrpo(credit="episode").credit([group(*episodes)], {})
    assert [c.advantages for c in credits] == [(6.0,), (-4.0,), (-2.0,)]
