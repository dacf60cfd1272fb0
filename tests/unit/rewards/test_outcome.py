"""The reward by outcome, down to the advantages of a group."""

from typing import Any

import pytest

from practicum.core.sample import Episode, Group
from practicum.core.score import Score
from practicum.core.task import Outcome, Task
from practicum.core.trace import Message, StopReason, Trace
from practicum.gateway.scripted_conversation import ScriptedConversation
from practicum.rewards.verifiable import OutcomeReward
from practicum.training.algorithms.grpo import Grpo

TASK = Task(id="t", env="shell", split="train")


async def trace_of(turns: list[str], stop: StopReason = StopReason.FINISHED) -> Trace:
    left = iter(turns)
    conversation = ScriptedConversation(lambda actions: next(left), name="script")
    for _ in turns:
        await conversation.complete([Message(role="user", content="?")])
    nodes = tuple(conversation.nodes)
    return Trace(id="".join(turns), task_id="t", env="shell", nodes=nodes, stop=stop)


@pytest.mark.parametrize(
    ("success", "value", "reason"),
    [(True, 1.0, "correct"), (False, -0.5, "incorrect"), (None, 0.0, "unknown")],
)
async def test_each_outcome_has_its_value(success: bool | None, value: float, reason: str) -> None:
    score = await OutcomeReward().score(TASK, await trace_of(["a"]), Outcome(success=success))
    assert score == Score(components={"outcome": value}, reason=reason)


async def test_the_values_can_be_chosen() -> None:
    reward = OutcomeReward(correct=2.0, incorrect=0.0, unknown=-1.0)
    trace = await trace_of(["a"])
    found = [
        (await reward.score(TASK, trace, Outcome(success=success))).value
        for success in (True, False, None)
    ]
    assert found == [2.0, 0.0, -1.0]


@pytest.mark.parametrize(
    ("success", "status", "value"),
    [
        (False, "agent_validation_failed", -1.0),
        (False, "completed", -0.5),
        (True, "agent_validation_failed", 1.0),
    ],
)
async def test_a_turn_in_no_known_form_can_have_a_value_of_its_own(
    success: bool, status: str, value: float
) -> None:
    outcome, trace = Outcome(success=success, evidence={"status": status}), await trace_of(["a"])
    assert (await OutcomeReward(malformed=-1.0).score(TASK, trace, outcome)).value == value
    unmoved = await OutcomeReward().score(TASK, trace, outcome)
    assert unmoved.value == (1.0 if success else -0.5)


async def group_of_four() -> Group:
    """Correct in two turns, incorrect in one, incorrect in two, and one masked."""
    reward = OutcomeReward()
    episodes = []
    for turns, success in ((["a", "b"], True), (["c"], False), (["d", "e"], False)):
        trace, outcome = await trace_of(turns), Outcome(success=success)
        score = await reward.score(TASK, trace, outcome)
        episodes.append(Episode(trace=trace, outcome=outcome, score=score))
    broken = await trace_of(["f"], StopReason.ENVIRONMENT_FAILED)
    score = Score.unscored("the machine is gone")
    episodes.append(Episode(trace=broken, outcome=None, score=score))
    return Group(task=TASK, episodes=tuple(episodes))


async def credit_of(algorithm: Grpo) -> list[tuple[Any, ...]]:
    [credits] = algorithm.credit([await group_of_four()], {})
    return [credit.advantages for credit in credits]


async def test_credit_by_episode_is_the_score_against_the_groups_mean() -> None:
    """Scores 1, -0.5, -0.5: mean 0, so each is its own advantage, for every turn it has."""
    credit = await credit_of(Grpo(credit="episode", scale="none"))
    assert credit == [(1.0, 1.0), (-0.5,), (-0.5, -0.5)]


async def test_the_groups_deviation_scales_it() -> None:
    """Squares 1, 0.25, 0.25 over 3 - 1: variance 0.75."""
    credit = await credit_of(Grpo(credit="episode"))
    spread = 0.75**0.5 + 1e-4
    assert credit[0] == pytest.approx((1 / spread, 1 / spread))
    assert credit[1] == pytest.approx((-0.5 / spread,))


async def test_credit_by_turn_works_with_a_reward_for_the_whole() -> None:
    """It is earned at the end, so each turn's return is the score: 1, 1; -0.5; -0.5, -0.5.

    The first turns stand in the same state: mean 0. The second ones stand in states of their own,
    and are compared with 1, -0.5, and 0 for the one that had ended: mean 1/6.
    """
    credit = await credit_of(Grpo(credit="turn", scale="none"))
    assert credit[0] == pytest.approx((1.0, 1 - 1 / 6))
    assert credit[1] == pytest.approx((-0.5,))
    assert credit[2] == pytest.approx((-0.5, -0.5 - 1 / 6))
