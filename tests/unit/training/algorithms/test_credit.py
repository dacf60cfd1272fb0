"""What the credits of several methods share, by hand."""

import math

import numpy as np
import pytest
from tests.unit.training.algorithms.cases import (
    group,
    kl_estimates,
    make_episode,
    make_trace,
    paid,
    whole,
)

from practicum.core.trace import Node, SampledSpan, StopReason, Trace
from practicum.training.algorithms.credit import (
    episode_advantages,
    group_credit,
    has_spread,
    is_cut_off,
    loss_lengths,
    normalise,
    penalties_to_go,
    returns_to_go,
    sampler_logprobs,
    token_penalties,
    turn_advantages,
    turn_rewards,
    whole_reward,
)


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


def test_the_spread_of_whole_returns_scales_every_turn() -> None:
    """Whole returns 3, 1, 2: deviation 1."""
    returns = [(3.0, 3.0), (1.0, 1.0), (2.0,)]
    states = [("s", "x"), ("s", "x"), ("s",)]
    plain = turn_advantages(returns, states, "none")
    scaled = turn_advantages(returns, states, "std")
    for one, other in zip(plain, scaled, strict=True):
        assert other == pytest.approx([value / (1.0 + 1e-4) for value in one])


def test_advantages_of_many_random_groups_follow_the_formula() -> None:
    chance = np.random.default_rng(0)
    for _ in range(50):
        values = tuple(chance.normal(size=chance.integers(2, 9)).tolist())
        deviation = math.sqrt(
            sum((v - sum(values) / len(values)) ** 2 for v in values) / (len(values) - 1)
        )
        expected = [(v - sum(values) / len(values)) / (deviation + 1e-4) for v in values]
        assert episode_advantages(values, "std") == pytest.approx(expected)


def test_turns_of_one_busy_episode_beside_idle_ones_have_finite_advantages() -> None:
    """Return 1 against 0 for the idle one: mean 1/2; the only spread is the turn's own, 1/2."""
    idle, busy = make_episode(score=whole(0.0)), make_episode((5,), score=whole(1.0))
    [none, one] = group_credit(
        group(idle, busy), {}, credit_by="turn", discount=1.0, scale="std", kl_in_reward=0.0
    )
    assert none == ()
    assert one == pytest.approx((0.5 / (0.5 + 1e-4),))


def test_what_a_token_pays_is_beta_times_how_much_likelier_it_became() -> None:
    episode = make_episode((5, 6), (7,), score=paid(1.0, 2.0), name="a")
    estimates = {"a": kl_estimates([1.0, -0.5], [3.0])}
    first, second = token_penalties(episode.trace, estimates, 0.2)
    assert first == pytest.approx([0.2, -0.1], abs=1e-6)
    assert second == pytest.approx([0.6], abs=1e-6)
    assert turn_rewards(episode, estimates, 0.2) == pytest.approx((0.9, 1.4), abs=1e-6)
    assert whole_reward(episode, estimates, 0.2) == pytest.approx(2.3, abs=1e-6)
    assert turn_rewards(episode, {}, 0.0) == (1.0, 2.0)


def test_penalties_to_go_are_a_brute_force_sum() -> None:
    chance = np.random.default_rng(3)
    penalties = [chance.normal(size=n) for n in (3, 0, 2, 4)]
    for turn, found in enumerate(penalties_to_go(penalties, 0.7)):
        for place, value in enumerate(found):
            later = sum(
                0.7 ** (other - turn) * penalties[other][at]
                for other in range(turn, len(penalties))
                for at in range(place if other == turn else 0, penalties[other].size)
            )
            assert value == pytest.approx(later)


@pytest.mark.parametrize(
    ("stop", "limit", "expected"),
    [
        (StopReason.FINISHED, 0, False),
        (StopReason.MAX_TURNS, 0, True),
        (StopReason.CONTEXT_FULL, 0, True),
        (StopReason.FINISHED, 3, True),
        (StopReason.FINISHED, 4, False),
    ],
)
def test_an_episode_is_cut_off_by_its_turns_its_context_or_its_last_turns_length(
    stop: StopReason, limit: int, expected: bool
) -> None:
    assert is_cut_off(make_trace("a", [(1,), (2, 3, 4)], stop), limit) == expected


def test_an_episode_that_sampled_nothing_is_not_cut_off() -> None:
    assert not is_cut_off(make_trace("a", [], StopReason.FINISHED), 3)


def test_groups_differ_when_their_scores_do() -> None:
    one, two = make_episode((5,), score=whole(1.0)), make_episode((6,), score=whole(1.0 + 1e-12))
    assert not has_spread(group(one, two))
    assert has_spread(group(one, make_episode((6,), score=whole(1.1))))


def test_normalised_advantages_have_mean_0_and_deviation_1_over_all_tokens() -> None:
    chance = np.random.default_rng(0)
    groups = [
        [[chance.normal(3.0, 5.0, size=n) for n in (2, 0, 4)], [chance.normal(size=3)]],
        [[chance.normal(size=1)]],
    ]
    found = normalise(groups)
    assert [[[t.size for t in e] for e in g] for g in found] == [[[2, 0, 4], [3]], [[1]]]
    tokens = np.concatenate([t for g in found for e in g for t in e]).astype(np.float64)
    plain = np.concatenate([t for g in groups for e in g for t in e])
    assert tokens == pytest.approx((plain - plain.mean()) / (plain.std() + 1e-4), abs=1e-6)
    assert normalise([[[np.zeros(0)]]])[0][0][0].size == 0


def test_the_samplers_log_probabilities_are_those_before_the_cut_and_of_loss_tokens() -> None:
    span = SampledSpan(
        logprobs=(-1.0, 0.0, -2.0), loss_mask=(True, False, True), log_kept=(-0.5, 0.0, -0.25)
    )
    nodes = (
        Node(parent=None, messages=(), token_ids=(0,)),
        Node(parent=0, messages=(), token_ids=(1, 2, 3), sampled=span),
    )
    trace = Trace(id="a", task_id="t", env="e", nodes=nodes)
    [found] = sampler_logprobs(trace)
    assert found.tolist() == [-1.5, -2.25]
    assert loss_lengths(trace) == (2,)
