"""The arithmetic of GRPO by hand. Small numbers, so that each can be followed."""

import math

import numpy as np
import pytest
import torch

from practicum.algorithms.grpo import (
    Grpo,
    episode_advantages,
    grpo_loss,
    returns_to_go,
    turn_advantages,
)
from practicum.core.loss import LossTerms
from practicum.core.sample import Episode, Group
from practicum.core.score import Score
from practicum.core.task import Task
from practicum.core.trace import Node, SampledSpan, StopReason, Trace


def make_trace(name: str, turns: list[tuple[int, ...]], stop: StopReason) -> Trace:
    """One given token, then each turn's tokens with one given token between turns."""
    nodes = [Node(parent=None, messages=(), token_ids=(0,))]
    for turn, ids in enumerate(turns):
        if turn:
            nodes.append(Node(parent=len(nodes) - 1, messages=(), token_ids=(0,)))
        span = SampledSpan(logprobs=(-1.0,) * len(ids), loss_mask=(True,) * len(ids))
        nodes.append(Node(parent=len(nodes) - 1, messages=(), token_ids=ids, sampled=span))
    return Trace(id=name, task_id="t", env="e", nodes=tuple(nodes), stop=stop)


def make_episode(
    *turns: tuple[int, ...], score: Score, stop: StopReason = StopReason.FINISHED
) -> Episode:
    return Episode(trace=make_trace(str(turns), list(turns), stop), outcome=None, score=score)


def paid(*rewards: float) -> Score:
    return Score(components={"turns": sum(rewards)}, turn_values=rewards)


def group(*episodes: Episode) -> Group:
    return Group(task=Task(id="t", env="e", split="train"), episodes=episodes)


def test_episode_advantages_are_centred_and_scaled_by_the_sample_deviation() -> None:
    """Scores 1 0 0 1 0: mean 0.4, variance (2 * 0.36 + 3 * 0.16) / 4 = 0.3."""
    found = episode_advantages((1.0, 0.0, 0.0, 1.0, 0.0), "std")
    deviation = math.sqrt(0.3) + 1e-4
    assert found == pytest.approx([d / deviation for d in (0.6, -0.4, -0.4, 0.6, -0.4)])
    assert episode_advantages((1.0, 0.0), "none") == [0.5, -0.5]


def test_returns_to_go_discount_what_comes_later() -> None:
    """G3 = 4, G2 = 2 + 0.5 * 4 = 4, G1 = 1 + 0.5 * 4 = 3."""
    assert returns_to_go((1.0, 2.0, 4.0), 0.5) == (3.0, 4.0, 4.0)
    assert returns_to_go((), 0.9) == ()


def test_turns_are_compared_with_those_from_the_same_state() -> None:
    """Three episodes open alike; two then act alike (5) and stand in the same state.

    Returns to go: a 3, 3   b 1, 1   c 2. Start: mean 2, so 1, -1, 0. After 5: mean 2, so 1, -1.
    """
    a = make_episode((5,), (6,), score=paid(0.0, 3.0))
    b = make_episode((5,), (7,), score=paid(0.0, 1.0))
    c = make_episode((9,), score=paid(2.0))
    credit = Grpo(scale="none").credit(group(a, b, c))
    assert credit == [(1.0, 1.0), (-1.0, -1.0), (0.0,)]


def test_a_state_of_its_own_is_compared_with_the_groups_returns_at_that_turn() -> None:
    """Turn 2 of each is in a state of its own: returns there 4, 1, and 0 for the one that ended.

    Mean 5/3, so 4 - 5/3 and 1 - 5/3. Start: returns 6, 1, 2, mean 3.
    """
    a = make_episode((5,), (6,), score=paid(2.0, 4.0))
    b = make_episode((7,), (6,), score=paid(0.0, 1.0))
    c = make_episode((9,), score=paid(2.0))
    credit = Grpo(scale="none").credit(group(a, b, c))
    assert credit is not None
    assert credit[0] == pytest.approx((3.0, 4 - 5 / 3))
    assert credit[1] == pytest.approx((-2.0, 1 - 5 / 3))
    assert credit[2] == pytest.approx((-1.0,))


def test_the_spread_of_whole_returns_scales_every_turn() -> None:
    """Whole returns 3, 1, 2: deviation 1."""
    returns = [(3.0, 3.0), (1.0, 1.0), (2.0,)]
    states = [("s", "x"), ("s", "x"), ("s",)]
    plain = turn_advantages(returns, states, "none")
    scaled = turn_advantages(returns, states, "std")
    for one, other in zip(plain, scaled, strict=True):
        assert other == pytest.approx([value / (1.0 + 1e-4) for value in one])


def test_what_is_paid_for_the_whole_episode_belongs_to_its_last_turn() -> None:
    """Turn values 1 and 2, and a weighted component 0.5 * 4 beside them: rewards 1 and 4."""
    with_bonus = Score(
        components={"turns": 3.0, "solved": 4.0}, weights={"solved": 0.5}, turn_values=(1.0, 2.0)
    )
    a = make_episode((5,), (6,), score=with_bonus)
    b = make_episode((5,), (6,), score=paid(0.0, 0.0))
    assert Grpo(scale="none").credit(group(a, b)) == [(2.5, 2.0), (-2.5, -2.0)]


def test_an_episode_scored_as_a_whole_is_paid_at_its_end() -> None:
    a = make_episode((5,), (6,), score=Score(components={"solved": 1.0}))
    b = make_episode((5,), (6,), score=Score(components={"solved": 0.0}))
    credit = Grpo(scale="none", discount=0.5).credit(group(a, b))
    assert credit == [(0.25, 0.5), (-0.25, -0.5)]


def test_credit_by_episode_gives_every_turn_the_same() -> None:
    a = make_episode((5,), (6,), (7,), score=paid(1.0, 1.0, 1.0))
    b = make_episode((5,), score=paid(1.0))
    credit = Grpo(credit_by="episode", scale="none").credit(group(a, b))
    assert credit == [(1.0, 1.0, 1.0), (-1.0,)]


@pytest.mark.parametrize("credit_by", ["turn", "episode"])
def test_masked_and_unscored_episodes_are_left_out(credit_by: str) -> None:
    good = make_episode((5,), score=paid(3.0))
    bad = make_episode((6,), score=paid(1.0))
    broken = make_episode((5,), score=paid(100.0), stop=StopReason.ENVIRONMENT_FAILED)
    unscored = make_episode((5,), score=Score.unscored("judge was away"))
    algorithm = Grpo(credit_by=credit_by, scale="none")  # type: ignore[arg-type]
    assert algorithm.credit(group(broken, good, unscored, bad)) == [(1.0,), (-1.0,)]


def test_a_group_without_a_difference_has_nothing_to_learn() -> None:
    same = [make_episode((5,), (6,), score=paid(1.0, 2.0)) for _ in range(4)]
    other_way = make_episode((7,), score=paid(3.0))
    assert Grpo().credit(group(*same, other_way)) is None
    assert Grpo().credit(group(same[0])) is None
    assert Grpo().credit(group()) is None


@pytest.mark.parametrize("credit_by", ["turn", "episode"])
def test_an_episode_that_sampled_nothing_is_compared_but_not_credited(credit_by: str) -> None:
    idle = make_episode(score=Score(components={"solved": 0.0}))
    busy = make_episode((5,), score=Score(components={"solved": 1.0}))
    algorithm = Grpo(credit_by=credit_by, scale="none")  # type: ignore[arg-type]
    credit = algorithm.credit(group(idle, busy))
    assert credit is not None
    assert credit[0] == ()
    assert credit[1][0] > 0


def test_turn_values_for_another_number_of_turns_are_refused() -> None:
    wrong = make_episode((5,), (6,), score=paid(1.0))
    other = make_episode((5,), (6,), score=paid(1.0, 2.0))
    with pytest.raises(ValueError, match="2 turns but 1 turn values"):
        Grpo().credit(group(wrong, other))


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
    report = grpo_loss(case, clip=0.2, kl=0.0)
    assert report.loss.item() == pytest.approx(-0.125)
    assert report.clipped.item() == pytest.approx(1.25)
    [gradient] = torch.autograd.grad(report.loss, case.logprobs)
    assert gradient.tolist() == pytest.approx([-1.0, 0.0, 0.375, 0.0])


def test_a_ratio_that_moved_against_its_advantage_is_not_clipped() -> None:
    """Ratio 0.5 with advantage 1 gives 0.5, ratio 1.5 with -1 gives -1.5: both as they are."""
    case = terms([-1 - math.log(2), -1 + math.log(1.5)], [-1.0] * 2, [1.0, -1.0])
    report = grpo_loss(case, clip=0.2, kl=0.0)
    assert report.loss.item() == pytest.approx(-(0.5 * 0.5) + 0.25 * 1.5)
    assert report.clipped.item() == 0.0


def test_the_distance_to_the_base_is_added_with_its_weight() -> None:
    """d = base - logp = ln 2: 2 - ln 2 - 1; d = -ln 2: 0.5 + ln 2 - 1. Advantages 0."""
    case = terms([-2.0, -2.0], [-2.0, -2.0], [0.0, 0.0], [-2 + math.log(2), -2 - math.log(2)])
    expected = 0.5 * (1 - math.log(2)) + 0.25 * (math.log(2) - 0.5)
    assert grpo_loss(case, clip=0.2, kl=3.0).loss.item() == pytest.approx(3 * expected)
    assert Grpo(kl=3.0).needs_base
    assert not Grpo().needs_base


def test_right_after_sampling_the_gradient_is_the_plain_policy_gradient() -> None:
    case = terms([-1.0, -2.0, -3.0], [-1.0, -2.0, -3.0], [1.0, -2.0, 0.5])
    report = Grpo().loss(case)
    [gradient] = torch.autograd.grad(report.loss, case.logprobs)
    assert gradient.tolist() == pytest.approx([-0.5, 0.5, -0.125])
    assert report.clipped.item() == 0.0


def test_credit_and_loss_of_many_random_groups_follow_the_formula() -> None:
    chance = np.random.default_rng(0)
    for _ in range(50):
        values = tuple(chance.normal(size=chance.integers(2, 9)).tolist())
        deviation = math.sqrt(
            sum((v - sum(values) / len(values)) ** 2 for v in values) / (len(values) - 1)
        )
        expected = [(v - sum(values) / len(values)) / (deviation + 1e-4) for v in values]
        assert episode_advantages(values, "std") == pytest.approx(expected)
