"""Trajectories and groups."""

import asyncio
import copy

import pytest

from practicum.compat.art.trajectories import Trajectory, TrajectoryGroup

CHOICE = {
    "index": 0,
    "message": {"role": "assistant", "content": None, "tool_calls": [{"id": "a"}]},
}


class ScoredTrajectory(Trajectory):
    answer: str = ""


async def attempt(reward: float, wait: float = 0.0) -> Trajectory:
    await asyncio.sleep(wait)
    return Trajectory(reward=reward)


async def failing() -> Trajectory:
    raise RuntimeError("the tool broke")


def test_messages_have_texts_and_keep_tool_calls() -> None:
    trajectory = Trajectory(
        messages_and_choices=[
            {"role": "system", "content": "be brief"},
            CHOICE,
            {"role": "assistant", "content": None, "name": "other"},
        ]
    )
    assert trajectory.messages() == [
        {"role": "system", "content": "be brief"},
        {"role": "assistant", "content": "", "tool_calls": [{"id": "a"}]},
        {"role": "assistant", "content": "", "name": "other"},
    ]
    trained = [message["trainable"] for message in trajectory.for_logging()["messages"]]
    assert trained == [False, True, False]


def test_a_choice_of_the_openai_package_is_read_like_one_that_went_through_json() -> None:
    types = pytest.importorskip("openai.types.chat.chat_completion")
    choice = types.Choice.model_validate(
        {
            "index": 0,
            "finish_reason": "stop",
            "message": {"role": "assistant", "content": "4"},
            "practicum_turn": 3,
        }
    )
    trajectory = Trajectory(messages_and_choices=[choice])
    read_back = Trajectory.model_validate_json(trajectory.model_dump_json())
    assert trajectory.messages() == read_back.messages()
    assert trajectory.messages() == [{"role": "assistant", "content": "4"}]


def test_two_trajectories_share_nothing() -> None:
    one, other = Trajectory(), Trajectory()
    one.metrics["steps"] = 1
    one.log("begun")
    one.messages_and_choices.append({"role": "user", "content": "hello"})
    assert (other.metrics, other.logs, other.messages_and_choices) == ({}, [], [])


async def test_durations_add_up() -> None:
    trajectory = Trajectory()
    for _ in range(2):
        async with trajectory.track_duration("tool"):
            await asyncio.sleep(0.01)
    assert trajectory.metrics["tool_duration"] >= 0.02
    assert trajectory.finish().metrics["duration"] >= trajectory.metrics["tool_duration"]


def test_exceptions_among_the_attempts_are_kept_apart() -> None:
    group = TrajectoryGroup(
        [Trajectory(reward=1.0), RuntimeError("no"), Trajectory()], metadata={"scenario": 3}
    )
    assert [t.reward for t in group] == [1.0, 0.0]
    assert len(group) == 2
    assert [e.message for e in group.exceptions] == ["no"]
    assert group.metadata == {"scenario": 3}


def test_a_group_is_made_from_a_generator_and_copied_whole() -> None:
    group = TrajectoryGroup(ScoredTrajectory(reward=r, answer="a") for r in (0.0, 1.0))
    for other in (copy.copy(group), copy.deepcopy(group)):
        assert [t.reward for t in other] == [0.0, 1.0]
    assert isinstance(group.trajectories[0], ScoredTrajectory)
    assert group.trajectories[0].answer == "a"


async def test_a_group_of_coroutines_keeps_their_order() -> None:
    group = await TrajectoryGroup(
        (attempt(r, wait) for r, wait in ((1.0, 0.02), (2.0, 0.0), (3.0, 0.01))), metadata={"n": 1}
    )
    assert [t.reward for t in group] == [1.0, 2.0, 3.0]
    assert group.metadata == {"n": 1}


async def test_a_group_that_is_awaited_alone_raises_what_its_attempt_raised() -> None:
    cancelled = []

    async def slow() -> Trajectory:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.append(True)
            raise
        return Trajectory()

    with pytest.raises(RuntimeError, match="the tool broke"):
        await TrajectoryGroup([slow(), failing()])
    await asyncio.sleep(0)
    assert cancelled == [True]
