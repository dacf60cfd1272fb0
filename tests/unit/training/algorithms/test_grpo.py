"""The arithmetic of GRPO by hand. Small numbers, so that each can be followed."""

import math
from typing import Any

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
from practicum.core.sample import Episode
from practicum.core.score import Score
from practicum.core.trace import StopReason
from practicum.training.algorithms.grpo import Grpo, grpo_loss


def credited(algorithm: Grpo, *episodes: Episode) -> list[Any]:
    """Advantages of one group that is all there is to a step."""
    [credits] = algorithm.credit([group(*episodes)], {})
    return [credit.advantages for credit in credits]


def test_turns_are_compared_with_those_from_the_same_state() -> None:
    """Three episodes open alike; two then act alike (5) and stand in the same state.

    Returns to go: a 3, 3   b 1, 1   c 2. Start: mean 2, so 1, -1, 0. After 5: mean 2, so 1, -1.
    """
    a = make_episode((5,), (6,), score=paid(0.0, 3.0))
    b = make_episode((5,), (7,), score=paid(0.0, 1.0))
    c = make_episode((9,), score=paid(2.0))
    credit = credited(Grpo(scale="none"), a, b, c)
    assert credit == [(1.0, 1.0), (-1.0, -1.0), (0.0,)]


def test_a_state_of_its_own_is_compared_with_the_groups_returns_at_that_turn() -> None:
    """Turn 2 of each is in a state of its own: returns there 4, 1, and 0 for the one that ended.

    Mean 5/3, so 4 - 5/3 and 1 - 5/3. Start: returns 6, 1, 2, mean 3.
    """
    a = make_episode((5,), (6,), score=paid(2.0, 4.0))
    b = make_episode((7,), (6,), score=paid(0.0, 1.0))
    c = make_episode((9,), score=paid(2.0))
    credit = credited(Grpo(scale="none"), a, b, c)
    assert credit[0] == pytest.approx((3.0, 4 - 5 / 3))
    assert credit[1] == pytest.approx((-2.0, 1 - 5 / 3))
    assert credit[2] == pytest.approx((-1.0,))


def test_what_is_paid_for_the_whole_episode_belongs_to_its_last_turn() -> None:
    """Turn values 1 and 2, and a weighted component 0.5 * 4 beside them: rewards 1 and 4."""
    with_bonus = Score(
        components={"turns": 3.0, "solved": 4.0}, weights={"solved": 0.5}, turn_values=(1.0, 2.0)
    )
    a = make_episode((5,), (6,), score=with_bonus)
    b = make_episode((5,), (6,), score=paid(0.0, 0.0))
    assert credited(Grpo(scale="none"), a, b) == [(2.5, 2.0), (-2.5, -2.0)]


def test_an_episode_scored_as_a_whole_is_paid_at_its_end() -> None:
    a = make_episode((5,), (6,), score=whole(1.0))
    b = make_episode((5,), (6,), score=whole(0.0))
    credit = credited(Grpo(scale="none", discount=0.5), a, b)
    assert credit == [(0.25, 0.5), (-0.25, -0.5)]


def test_credit_by_episode_gives_every_turn_the_same() -> None:
    a = make_episode((5,), (6,), (7,), score=paid(1.0, 1.0, 1.0))
    b = make_episode((5,), score=paid(1.0))
    credit = credited(Grpo(credit="episode", scale="none"), a, b)
    assert credit == [(1.0, 1.0, 1.0), (-1.0,)]


@pytest.mark.parametrize("credit_by", ["turn", "episode"])
def test_masked_and_unscored_episodes_are_left_out(credit_by: str) -> None:
    good = make_episode((5,), score=paid(3.0))
    bad = make_episode((6,), score=paid(1.0))
    broken = make_episode((5,), score=paid(100.0), stop=StopReason.ENVIRONMENT_FAILED)
    unscored = make_episode((5,), score=Score.unscored("judge was away"))
    algorithm = Grpo(credit=credit_by, scale="none")
    assert credited(algorithm, broken, good, unscored, bad) == [(1.0,), (-1.0,)]


def test_a_group_without_a_difference_has_nothing_to_learn() -> None:
    same = [make_episode((5,), (6,), score=paid(1.0, 2.0)) for _ in range(4)]
    other_way = make_episode((7,), score=paid(3.0))
    assert not Grpo().is_informative(group(*same, other_way))
    assert not Grpo().is_informative(group(same[0]))
    assert not Grpo().is_informative(group())
    assert Grpo().is_informative(group(*same, make_episode((7,), score=paid(3.5))))
    assert Grpo(kl=0.1, kl_in="reward").is_informative(group(*same))
    assert not Grpo(kl=0.1, kl_in="reward").is_informative(group(same[0]))


@pytest.mark.parametrize("credit_by", ["turn", "episode"])
def test_an_episode_that_sampled_nothing_is_compared_but_not_credited(credit_by: str) -> None:
    idle = make_episode(score=whole(0.0))
    busy = make_episode((5,), score=whole(1.0))
    algorithm = Grpo(credit=credit_by, scale="none")
    credit = credited(algorithm, idle, busy)
    assert credit[0] == ()
    assert credit[1][0] > 0


def test_turn_values_for_another_number_of_turns_are_refused() -> None:
    wrong = make_episode((5,), (6,), score=paid(1.0))
    other = make_episode((5,), (6,), score=paid(1.0, 2.0))
    with pytest.raises(ValueError, match="2 turns but 1 turn values"):
        Grpo().credit([group(wrong, other)], {})


def terms(
    logprobs: list[float],
    old: list[float],
    advantages: list[float],
    base: list[float] | None = None,
) -> LossTerms:
    def tensor(values: list[float]) -> torch.Tensor:
        return torch.tensor(values, dtype=torch.float64)

    return LossTerms(
        logprobs=tensor(logprobs).requires_grad_(),
        old_logprobs=tensor(old),
        advantages=tensor(advantages),
        weights=tensor([0.5, 0.25, 0.25, 1.0][: len(logprobs)]),
        base_logprobs=None if base is None else tensor(base),
    )


def test_the_loss_is_the_clipped_gain_with_its_sign_turned() -> None:
    """Ratios 1, 1.5, 1.5, 0.5 with advantages 2, 1, -1, -1 and clip 0.2.

    Gains: 2; min(1.5, 1.2) = 1.2; min(-1.5, -1.2) = -1.5; min(-0.5, -0.8) = -0.8.
    Loss: -(0.5 * 2 + 0.25 * 1.2 + 0.25 * -1.5 + 1 * -0.8) = -0.125. Clipped: terms 2 and 4.
    Only unclipped terms have a gradient, - weight * ratio * advantage: -1, 0, 0.375, 0.
    """
    case = terms(
        [-1.0, -1 + math.log(1.5), -1 + math.log(1.5), -1 - math.log(2)],
        [-1.0] * 4,
        [2.0, 1.0, -1.0, -1.0],
    )
    report = grpo_loss(case, clip_low=0.2, clip_high=0.2, kl=0.0)
    assert report.loss.item() == pytest.approx(-0.125)
    assert report.clipped.item() == pytest.approx(1.25)
    [gradient] = torch.autograd.grad(report.loss, case.logprobs)
    assert gradient.tolist() == pytest.approx([-1.0, 0.0, 0.375, 0.0])


def test_a_ratio_that_moved_against_its_advantage_is_not_clipped() -> None:
    """Ratio 0.5 with advantage 1 gives 0.5, ratio 1.5 with -1 gives -1.5: both as they are."""
    case = terms([-1 - math.log(2), -1 + math.log(1.5)], [-1.0] * 2, [1.0, -1.0])
    report = grpo_loss(case, clip_low=0.2, clip_high=0.2, kl=0.0)
    assert report.loss.item() == pytest.approx(-(0.5 * 0.5) + 0.25 * 1.5)
    assert report.clipped.item() == 0.0


def test_the_distance_to_the_base_is_added_with_its_weight() -> None:
    """d = base - logp = ln 2: 2 - ln 2 - 1; d = -ln 2: 0.5 + ln 2 - 1. Advantages 0."""
    case = terms([-2.0, -2.0], [-2.0, -2.0], [0.0, 0.0], [-2 + math.log(2), -2 - math.log(2)])
    expected = 0.5 * (1 - math.log(2)) + 0.25 * (math.log(2) - 0.5)
    assert grpo_loss(case, clip_low=0.2, clip_high=0.2, kl=3.0).loss.item() == pytest.approx(
        3 * expected
    )
    assert Grpo(kl=3.0).loss_needs == {"base"}
    assert Grpo().loss_needs == frozenset()


def test_right_after_sampling_the_gradient_is_the_plain_policy_gradient() -> None:
    case = terms([-1.0, -2.0, -3.0], [-1.0, -2.0, -3.0], [1.0, -2.0, 0.5])
    report = Grpo().loss(case)
    [gradient] = torch.autograd.grad(report.loss, case.logprobs)
    assert gradient.tolist() == pytest.approx([-0.5, 0.5, -0.125])
    assert report.clipped.item() == 0.0


def test_groups_are_compared_within_themselves_and_keep_their_order() -> None:
    low = group(make_episode((5,), score=paid(0.0)), make_episode((6,), score=paid(1.0)))
    high = group(make_episode((5,), score=paid(9.0)), make_episode((6,), score=paid(3.0)))
    found = Grpo(scale="none").credit([low, high], {})
    assert [[c.advantages for c in of] for of in found] == [[(-0.5,), (0.5,)], [(3.0,), (-3.0,)]]


def test_kl_in_the_reward_is_paid_by_the_turn_that_left_the_base() -> None:
    """beta 0.5. Paid: a 0.5 * (1 + 1) = 1 and 0.5 * 2 = 1; b 0 and 0.5 * -2 = -1.

    Rewards: a 0 - 1, 4 - 1; b 0, 1 + 1. Returns to go: a 2, 3; b 2, 2. Same states: means 2, 2.5.
    """
    a = make_episode((5, 5), (6,), score=paid(0.0, 4.0), name="a")
    b = make_episode((5, 5), (7,), score=paid(0.0, 1.0), name="b")
    estimates = {"a": kl_estimates([1.0, 1.0], [2.0]), "b": kl_estimates([0.0, 0.0], [-2.0])}
    algorithm = Grpo(scale="none", kl=0.5, kl_in="reward")
    [[first, second]] = algorithm.credit([group(a, b)], estimates)
    assert first.advantages == pytest.approx((0.0, 0.5))
    assert second.advantages == pytest.approx((0.0, -0.5))
    assert algorithm.credit_needs == {"base"}
    assert algorithm.loss_needs == frozenset()
    assert Grpo().credit_needs == frozenset()


def test_kl_in_the_reward_of_a_whole_episode_is_paid_for_all_its_tokens() -> None:
    """Scores 4 and 1 less 0.5 * 4 and 0.5 * -2: 2 and 2, although the scores differ."""
    a = make_episode((5, 5), (6,), score=whole(4.0), name="a")
    b = make_episode((5, 5), (7,), score=whole(1.0), name="b")
    estimates = {"a": kl_estimates([1.0, 1.0], [2.0]), "b": kl_estimates([0.0, 0.0], [-2.0])}
    algorithm = Grpo(credit="episode", kl=0.5, kl_in="reward")
    [credits] = algorithm.credit([group(a, b)], estimates)
    for credit in credits:
        assert credit.advantages == pytest.approx((0.0, 0.0), abs=1e-2)


def from_the_paper(terms: LossTerms, clip: float, kl: float) -> torch.Tensor:
    """Equation 3 of arXiv 2402.03300, episode by episode and token by token."""
    total = torch.zeros((), dtype=torch.float64)
    episodes = sequences(terms)
    for places in episodes:
        inner = torch.zeros((), dtype=torch.float64)
        for t in places:
            ratio = terms.logprobs[t].exp() / terms.old_logprobs[t].exp()
            advantage = terms.advantages[t]
            plain, bounded = ratio * advantage, ratio.clip(1 - clip, 1 + clip) * advantage
            inverse = terms.base_logprobs[t].exp() / terms.logprobs[t].exp()
            distance = inverse - inverse.log() - 1
            inner = inner + (plain if plain <= bounded else bounded) - kl * distance
        total = total + inner / len(places)
    return -total / len(episodes)


@pytest.mark.parametrize("kl", [0.0, 0.3])
@pytest.mark.parametrize("seed", range(5))
def test_loss_and_gradient_are_the_papers(seed: int, kl: float) -> None:
    case = random_terms(seed, per_token=seed % 2 == 0)
    assert Grpo().loss(case).clipped > 0
    assert_same_loss(
        lambda: Grpo(kl=kl).loss(case).loss, lambda: from_the_paper(case, 0.2, kl), case.logprobs
    )
