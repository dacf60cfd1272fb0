import asyncio
import re
import sys
import threading
from typing import Any

import pytest
from tests.unit.agents.programs import ASSIGNMENT, Address, Note

from practicum.agents.function_agent import FunctionAgent
from practicum.core.errors import AgentFailure
from practicum.core.score import Score
from practicum.core.task import Task
from practicum.core.trace import StopReason


async def work(function: Any, session: Any = None, limit: StopReason | None = None) -> Any:
    agent = FunctionAgent(function=function, name="rollout")
    return await agent.work(ASSIGNMENT, session or Note(), Address(limit))


async def test_it_is_given_the_task_and_a_client_for_its_rollout_alone() -> None:
    seen = []

    async def rollout(task: Task, client: Any) -> float:
        seen.append((task.data["answer"], str(client.base_url).rstrip("/"), client.api_key))
        return 0.25

    report = await work(rollout)
    assert seen == [("4", "http://127.0.0.1:9/rollouts/r1/v1", "rk_r1_secret")]
    assert report.score.components == {"score": 0.25}
    assert (report.stop, report.success) == (StopReason.FINISHED, False)


@pytest.mark.parametrize(
    ("returned", "components", "success"),
    [
        (1, {"score": 1.0}, True),
        (True, {"score": 1.0}, True),
        ({"right": 1.0, "short": -0.5}, {"right": 1.0, "short": -0.5}, False),
        (Score(components={"right": 2.0}, weights={"right": 0.5}), {"right": 2.0}, True),
    ],
)
async def test_numbers_dicts_and_scores_are_scores(
    returned: Any, components: dict[str, float], success: bool
) -> None:
    async def rollout(task: Task, client: Any) -> Any:
        return returned

    def blocking(task: Task, client: Any) -> Any:
        return returned

    for function in (rollout, blocking):
        report = await work(function)
        assert report.score.components == components
        assert report.success is success


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        (float("nan"), "rollout returned nan; a score is a finite number"),
        ({"a": 1.0, "b": float("inf")}, "rollout returned inf; a score is a finite number"),
        ("4", "rollout returned str; return a number"),
        (None, "rollout returned NoneType; return a number"),
        ({"a": "b"}, "rollout returned str"),
    ],
)
async def test_what_is_no_score_is_the_agents_failure(returned: Any, said: str) -> None:
    async def rollout(task: Task, client: Any) -> Any:
        return returned

    with pytest.raises(AgentFailure) as failed:
        await work(rollout)
    told, place = re.subn(r" \(test_function\.py, line \d+\)", "", str(failed.value))
    assert told.startswith(said)
    assert place == 1


def leave(task: Task, client: Any) -> float:
    sys.exit(3)


def break_down(task: Task, client: Any) -> float:
    raise KeyError("tool")


async def leave_later(task: Task, client: Any) -> float:
    return leave(task, client)


async def break_down_later(task: Task, client: Any) -> float:
    return break_down(task, client)


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (leave, "exit code 3"),
        (leave_later, "exit code 3"),
        (break_down, "rollout: KeyError: 'tool'"),
        (break_down_later, "rollout: KeyError: 'tool'"),
    ],
)
async def test_one_that_raises_or_leaves_the_program_fails_alone(function: Any, said: str) -> None:
    with pytest.raises(AgentFailure, match=said):
        await work(function)


async def test_a_limit_of_the_episode_behind_an_error_is_the_policys_failure() -> None:
    report = await work(break_down, limit=StopReason.MAX_TURNS)
    assert report.stop is StopReason.MAX_TURNS
    assert (report.score.value, report.success) == (0.0, False)
    assert "KeyError" in report.score.reason


def test_a_cut_off_function_leaves_the_word_to_its_session_or_to_the_runs_reward() -> None:
    in_session = FunctionAgent(function=lambda task, client, session: None)
    elsewhere = FunctionAgent(function=lambda task, client: None, is_scored_elsewhere=True)
    for agent in (in_session, elsewhere):
        report = agent.cut_off(StopReason.MAX_TURNS)
        assert (report.score, report.success) == (None, None)
    assert in_session.cut_off(StopReason.TIMED_OUT).success is False


async def test_one_that_takes_a_session_may_leave_the_score_to_the_environment() -> None:
    async def rollout(task: Task, client: Any, session: Any) -> None:
        assert session.prompt()[0].content == "2 + 2 = ?"
        assert session.actions() == ()
        assert session.tools() == []
        await session.act("4")
        assert (await session.outcome()).success

    def blocking(task: Task, client: Any, session: Any) -> None:
        session.act("4")

    for function in (rollout, blocking):
        note = Note()
        report = await work(function, note)
        assert report.score is None
        assert note.said == ["4"]


async def test_one_that_blocks_its_loop_is_left_behind_and_the_next_gets_a_fresh_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("practicum.agents.function_agent.ANSWER_S", 0.05)
    blocks, over = True, threading.Event()

    async def rollout(task: Task, client: Any) -> float:
        if blocks:
            over.wait(600)
        return 1.0

    agent = FunctionAgent(function=rollout)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await agent.work(ASSIGNMENT, Note(), Address())
    blocks = False
    report = await agent.work(ASSIGNMENT, Note(), Address())
    assert not over.is_set()
    over.set()
    assert report.success


async def test_one_that_ignores_its_cancellation_does_not_hold_up_the_others() -> None:
    async def rollout(task: Task, client: Any) -> float:
        while task.id == "stubborn":
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                continue
        return 1.0

    agent = FunctionAgent(function=rollout)
    stubborn = type(ASSIGNMENT)(task=Task(id="stubborn", env="tasks", split="train"), trace_id="x")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await agent.work(stubborn, Note(), Address())
    assert (await agent.work(ASSIGNMENT, Note(), Address())).success
