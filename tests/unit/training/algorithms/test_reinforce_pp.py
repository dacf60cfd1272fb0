"""REINFORCE++ by hand and from its paper."""

import numpy as np
import pytest
import torch
from tests.unit.training.algorithms.cases import (
    assert_same_loss,
    group,
    kl_estimates,
    make_episode,
    paid,
    random_terms,
    sequences,
    whole,
)

from practicum.core.loss import LossTerms
from practicum.core.sample import Credit, Group
from practicum.training.algorithms.reinforce_pp import ReinforcePlusPlus


def tokens(found: list[list[Credit]]) -> list[float]:
    return [
        float(a) for of in found for c in of for turn in c.advantages for a in np.atleast_1d(turn)
    ]


def standardised(values: list[float]) -> list[float]:
    """(x - mean) / (std + 1e-4), written out."""
    mean = sum(values) / len(values)
    deviation = (sum((v - mean) ** 2 for v in values) / len(values)) ** 0.5
    return [(v - mean) / (deviation + 1e-4) for v in values]


def two_groups() -> list[Group]:
    return [
        group(
            make_episode((5, 6), score=whole(1.0), name="a"),
            make_episode((7,), score=whole(0.0), name="b"),
        ),
        group(
            make_episode((8, 8, 8), score=whole(4.0), name="c"),
            make_episode((9,), score=whole(2.0), name="d"),
        ),
    ]


def test_advantages_are_normalised_over_the_tokens_of_the_step() -> None:
    found = tokens(ReinforcePlusPlus(baseline=False).credit(two_groups(), {}))
    assert found == pytest.approx(standardised([1, 1, 0, 4, 4, 4, 2]), abs=1e-6)


def test_with_a_baseline_scores_are_first_compared_within_their_group() -> None:
    """Group means 1/2 and 3."""
    found = tokens(ReinforcePlusPlus(baseline=True).credit(two_groups(), {}))
    raw = [0.5, 0.5, -0.5, 1.0, 1.0, 1.0, -1.0]
    assert found == pytest.approx(standardised(raw), abs=1e-6)


def test_a_token_pays_for_its_own_kl_and_all_that_follows() -> None:
    """Equation 8 of arXiv 2501.03262 with beta 0.1."""
    differences = {"a": [1.0, 2.0], "b": [-1.0], "c": [0.5, 0.0, 3.0], "d": [0.0]}
    estimates = {name: kl_estimates(of) for name, of in differences.items()}
    scores = {"a": 1.0, "b": 0.0, "c": 4.0, "d": 2.0}
    raw = [
        scores[name] - 0.1 * sum(of[t:]) for name, of in differences.items() for t in range(len(of))
    ]
    method = ReinforcePlusPlus(baseline=False, kl=0.1, kl_in="reward")
    assert tokens(method.credit(two_groups(), estimates)) == pytest.approx(
        standardised(raw), abs=1e-5
    )
    assert method.credit_needs == {"base"}


def test_turns_are_credited_with_what_they_and_later_ones_earn() -> None:
    """Rewards 1, 2 with discount 1/2 and a first turn of two tokens: 2, 2, 2. Beside it 5."""
    one = make_episode((5, 6), (7,), score=paid(1.0, 2.0), name="a")
    other = make_episode((8,), score=paid(5.0), name="b")
    by_turn = ReinforcePlusPlus(baseline=False, discount=0.5).credit([group(one), group(other)], {})
    assert tokens(by_turn) == pytest.approx(standardised([2, 2, 2, 5]), abs=1e-6)
    by_episode = ReinforcePlusPlus(baseline=False, credit="episode").credit(
        [group(one), group(other)], {}
    )
    assert tokens(by_episode) == pytest.approx(standardised([3, 3, 3, 5]), abs=1e-6)
    assert [c.advantages[0].shape for c in by_turn[0]] == [(2,)]


def test_one_episode_is_enough_without_a_baseline() -> None:
    alone = group(make_episode((5,), score=whole(1.0)))
    same = group(*[make_episode((i,), score=whole(1.0)) for i in range(2)])
    assert ReinforcePlusPlus(baseline=False).is_informative(alone)
    assert not ReinforcePlusPlus(baseline=True).is_informative(alone)
    assert ReinforcePlusPlus(baseline=True).is_informative(same)
    assert not ReinforcePlusPlus(baseline=False).is_informative(group())


def from_the_paper(terms: LossTerms, clip: float, kl: float) -> torch.Tensor:
    """The clipped objective with 1/|o|, and (log ratio)^2 / 2 as the distance to the base."""
    total = torch.zeros((), dtype=torch.float64)
    found = sequences(terms)
    for places in found:
        for t in places:
            ratio = terms.logprobs[t].exp() / terms.old_logprobs[t].exp()
            advantage = terms.advantages[t]
            gain = min(ratio * advantage, ratio.clip(1 - clip, 1 + clip) * advantage)
            distance = (terms.logprobs[t].exp() / terms.base_logprobs[t].exp()).log() ** 2 / 2
            total = total + (gain - kl * distance) / len(places)
    return -total / len(found)


@pytest.mark.parametrize("kl", [0.0, 0.4])
@pytest.mark.parametrize("seed", range(4))
def test_loss_and_gradient_are_the_papers(seed: int, kl: float) -> None:
    case = random_terms(seed, per_token=True)
    method = ReinforcePlusPlus(baseline=True, kl=kl)
    assert_same_loss(
        lambda: method.loss(case).loss, lambda: from_the_paper(case, 0.2, kl), case.logprobs
    )


def test_without_a_baseline_the_distance_is_grpos() -> None:
    case = random_terms(0)
    apart = case.base_logprobs - case.logprobs
    with_kl, without = (ReinforcePlusPlus(baseline=False, kl=k).loss(case).loss for k in (0.5, 0.0))
    expected = 0.5 * (case.weights * (apart.exp() - apart - 1)).sum()
    assert (with_kl - without).item() == pytest.approx(expected.item())
