"""Where several roles take the turns of an episode, each is credited among its own. By hand."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.training.algorithms.cases import group, make_episode, paid

from practicum.core.errors import UserError
from practicum.core.sample import TURN_ROLES, Episode
from practicum.core.score import Score
from practicum.core.task import Outcome
from practicum.training.algorithms.credit import group_credit, has_spread, turn_rewards
from practicum.training.algorithms.grpo import Grpo
from practicum.training.algorithms.ppo import Ppo
from practicum.training.rollout_steps import credit_step

HOW = {"credit_by": "turn", "discount": 1.0, "scale": "none", "kl_in_reward": 0.0}


def acted(roles: str, rewards: Sequence[float], tokens: int = 1, rest: float = 0.0) -> Episode:
    """An episode of one turn a letter, the name of its role; each turn in a state of its own."""
    turns = [(100 * tokens + at,) for at in range(len(roles))]
    score = Score(components={"turns": sum(rewards), "rest": rest}, turn_values=tuple(rewards))
    found = make_episode(*turns, score=score, name=f"{roles} {rewards} {tokens}")
    return replace(found, outcome=Outcome(success=None, evidence={TURN_ROLES: list(roles)}))


def test_a_roles_returns_are_of_its_own_later_turns_and_its_peers_are_its_own() -> None:
    """Writer returns 1, 1 and 0, 0 (by turn); reviewer's 0, -1 and 2, 1.

    First turns are in the same state, so writers compare 1 with 0: 0.5 and -0.5. Later states
    differ, so each turn of a role is compared with the same turn of that role: the reviewer's
    first 0 with 2, its second -1 with 1.
    """
    one = acted("wrwr", (0.0, 1.0, 1.0, -1.0), tokens=1)
    two = acted("wrwr", (0.0, 1.0, 0.0, 1.0), tokens=2)
    [first, second] = group_credit(group(one, two), {}, **HOW)
    assert first == pytest.approx((0.5, -1.0, 0.5, -1.0))
    assert second == pytest.approx((-0.5, 1.0, -0.5, 1.0))


def test_without_roles_the_same_rewards_would_blame_the_wrong_one() -> None:
    """The one who did nothing wrong pays for the other where an episode is one's work."""
    one = acted("wr", (1.0, 0.0), tokens=1)
    two = acted("wr", (1.0, -4.0), tokens=2)
    assert group_credit(group(one, two), {}, **HOW) == [(0.0, 2.0), (0.0, -2.0)]
    alone = [replace(e, outcome=None) for e in (one, two)]
    assert group_credit(group(*alone), {}, **HOW) == [(2.0, 2.0), (-2.0, -2.0)]


def test_credit_by_episode_is_each_roles_own_sum() -> None:
    """Writer sums 3 and 1, reviewer sums 0 and 1; deviations sqrt 2 and sqrt 0.5."""
    one, two = acted("wrw", (1.0, 0.0, 2.0), 1), acted("wr", (1.0, 1.0), 2)
    how = {**HOW, "credit_by": "episode", "scale": "std"}
    [first, second] = group_credit(group(one, two), {}, **how)
    writer, reviewer = 1.0 / (math.sqrt(2.0) + 1e-4), 0.5 / (math.sqrt(0.5) + 1e-4)
    assert first == pytest.approx((writer, -reviewer, writer))
    assert second == pytest.approx((-writer, reviewer))


def test_a_role_that_acted_in_one_episode_alone_has_nothing_to_be_compared_with() -> None:
    one, two = acted("ms", (0.0, 5.0), 1), acted("m", (1.0,), 2)
    assert group_credit(group(one, two), {}, **HOW) == [(-0.5, 0.0), (0.5,)]


def test_what_is_not_paid_by_turn_is_each_roles() -> None:
    assert turn_rewards(acted("wrw", (1.0, 0.0, 2.0), rest=10.0), {}, 0.0) == (1.0, 10.0, 12.0)


def test_a_group_whose_sums_are_equal_tells_something_where_its_roles_differ() -> None:
    """A game of two in which one wins what the other loses."""
    one, two = acted("ab", (1.0, -1.0), 1), acted("ab", (-1.0, 1.0), 2)
    assert has_spread(group(one, two))
    assert not has_spread(group(one, acted("ab", (1.0, -1.0), 2)))
    assert not has_spread(group(*(replace(e, outcome=None) for e in (one, two))))


@given(
    roles=st.lists(st.sampled_from("abc"), min_size=1, max_size=6),
    rewards=st.lists(st.lists(st.floats(-3, 3), min_size=6, max_size=6), min_size=2, max_size=4),
    scale=st.sampled_from(["std", "none"]),
    by=st.sampled_from(["turn", "episode"]),
)
def test_a_roles_credit_is_that_of_episodes_with_its_turns_alone(
    roles: list[str], rewards: list[list[float]], scale: str, by: str
) -> None:
    """Independent of what others earned: each role cut out as episodes of one gives the same."""
    how = {**HOW, "scale": scale, "credit_by": by}
    named, n = "".join(roles), len(roles)
    episodes = [acted(named, paid_[:n], at + 1) for at, paid_ in enumerate(rewards)]
    found = group_credit(group(*episodes), {}, **how)
    for role in set(roles):
        turns = [at for at, name in enumerate(roles) if name == role]
        alone = [
            make_episode(
                *[(100 * (at + 1) + turn,) for turn in turns],
                score=paid(*(paid_[turn] for turn in turns)),
                name=f"{role} {at}",
            )
            for at, paid_ in enumerate(rewards)
        ]
        expected = group_credit(group(*alone), {}, **how)
        for one, other in zip(found, expected, strict=True):
            assert np.allclose([one[turn] for turn in turns], other, atol=1e-6)


def test_an_algorithm_that_knows_one_actor_refuses_several() -> None:
    groups = [group(acted("wr", (1.0, 0.0), 1), acted("wr", (0.0, 0.0), 2))]
    with pytest.raises(UserError, match=r"as the work of one, and r, w took turns"):
        credit_step(groups, Ppo(), {})
    assert len(credit_step(groups, Grpo(), {})) == 2
