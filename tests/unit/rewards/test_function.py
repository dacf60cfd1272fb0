import asyncio
from typing import Any

import pytest
from tests.unit.rewards.traces import make_task, make_trace

from practicum.core.score import Score
from practicum.core.task import Outcome
from practicum.rewards.verifiable import FunctionReward


async def scored(function: Any) -> Score:
    reward = FunctionReward(name="mine", function=function)
    return await reward.score(make_task(n=3), make_trace("a"), Outcome(success=True))


async def test_a_plain_function_sees_task_trace_and_outcome() -> None:
    score = await scored(
        lambda task, trace, outcome: task.data["n"] + len(trace.turns) + outcome.success
    )
    assert score.components == {"mine": 5.0}


async def test_it_may_be_async_and_may_give_a_whole_score() -> None:
    async def mine(task: Any, trace: Any, outcome: Any) -> Score:
        await asyncio.sleep(0)
        return Score(components={"x": 1.0, "y": 2.0}, weights={"y": 0.5}, reason="why")

    score = await scored(mine)
    assert score.components == {"mine": 2.0}
    assert score.reason == "why"


def raises(task: Any, trace: Any, outcome: Any) -> float:
    raise KeyError("colour")


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (raises, "mine: KeyError: 'colour'"),
        (lambda *_: None, "mine gave NoneType"),
        (lambda *_: "1", "mine gave str"),
        (lambda: 1.0, "mine: TypeError"),
    ],
)
async def test_what_goes_wrong_in_it_is_no_score_and_is_said(function: Any, reason: str) -> None:
    score = await scored(function)
    assert score.value is None
    assert reason in score.reason


async def test_a_score_without_a_value_stays_without() -> None:
    score = await scored(lambda *_: Score.unscored("cannot be said"))
    assert score.value is None
    assert score.reason == "cannot be said"
