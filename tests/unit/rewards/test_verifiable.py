import pytest

from practicum.core.task import Outcome, Task
from practicum.core.trace import Message, Trace
from practicum.gateway.scripted_conversation import ScriptedConversation
from practicum.rewards.verifiable import TurnRewards

TASK = Task(id="t", env="e", split="train")


async def trace_of(turns: int) -> Trace:
    conversation = ScriptedConversation(lambda actions: "go", name="script")
    for _ in range(turns):
        await conversation.complete([Message(role="user", content="?")])
    return Trace(id="one", task_id="t", env="e", nodes=tuple(conversation.nodes))


async def test_the_score_is_the_sum_and_keeps_each_turn() -> None:
    outcome = Outcome(success=True, turn_rewards=(1.5, 2.0, 2.0, 3.0))
    score = await TurnRewards().score(TASK, await trace_of(4), outcome)
    assert score.value == 8.5
    assert score.components == {"turns": 8.5}
    assert score.turn_values == (1.5, 2.0, 2.0, 3.0)


@pytest.mark.parametrize("paid", [(), (1.0,), (1.0, 2.0, 3.0)])
async def test_rewards_for_another_number_of_turns_are_no_score(paid: tuple[float, ...]) -> None:
    outcome = Outcome(success=False, turn_rewards=paid)
    score = await TurnRewards().score(TASK, await trace_of(2), outcome)
    assert score.value is None
    assert f"{len(paid)} turn rewards for 2 turns of one" in score.reason


async def test_a_reward_of_zero_is_a_score() -> None:
    score = await TurnRewards().score(
        TASK, await trace_of(1), Outcome(success=False, turn_rewards=(0.0,))
    )
    assert score.value == 0.0
