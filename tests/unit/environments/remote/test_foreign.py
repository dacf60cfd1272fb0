"""Any OpenEnv server as an environment, also one that misbehaves."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import islice
from typing import Any

import pytest
from tests.unit.environments.remote.foreign import SILENCE, Foreign, foreign_server

from practicum.core.errors import EnvironmentFailure, UserError
from practicum.core.task import Task
from practicum.environments.registry import build_environment
from practicum.environments.remote.remote_environment import RemoteEnvironment

TASK = Task(id="seed-4", env="remote", split="train", data={"seed": 4})


@pytest.fixture
async def foreign() -> AsyncIterator[Foreign]:
    async with foreign_server() as server:
        yield server


@asynccontextmanager
async def session_on(foreign: Foreign, **options: Any) -> AsyncIterator[Any]:
    async with environment_on(foreign, **options) as environment, environment.open(TASK) as session:
        yield session


@asynccontextmanager
async def environment_on(foreign: Foreign, **options: Any) -> AsyncIterator[RemoteEnvironment]:
    made = build_environment("remote", {"url": foreign.address, **options})
    assert isinstance(made, RemoteEnvironment)
    try:
        yield made
    finally:
        await made.close()


async def test_an_episode_is_played_and_its_rewards_added_up(foreign: Foreign) -> None:
    async with session_on(foreign, instruction="Count.", success_at=1.5) as session:
        assert [(m.role, m.content) for m in session.prompt()] == [
            ("system", "Count."),
            ("user", '{"left": 3, "said": ""}'),
        ]
        assert session.actions() == ()
        seen = [await session.act(word) for word in ("a", "b", "c")]
        assert [s.terminated for s in seen] == [False, False, True]
        assert seen[1].message.content == '{"left": 1, "said": "b"}'
        outcome = await session.outcome()
        assert outcome.success is True
        assert outcome.turn_rewards == (0.5, 0.5, 0.5)
        assert foreign.seeds == [4]


async def test_less_reward_than_asked_for_is_no_success(foreign: Foreign) -> None:
    async with session_on(foreign, success_at=2.0) as session:
        await session.act("a")
        assert (await session.outcome()).success is False


async def test_one_part_of_the_observation_can_be_chosen(foreign: Foreign) -> None:
    async with session_on(foreign, observation_field="said") as session:
        assert (await session.act("hello")).message.content == "hello"
    async with session_on(foreign, observation_field="text") as session:
        with pytest.raises(EnvironmentFailure, match="no 'text'; it has left, said"):
            session.prompt()


async def test_the_connection_ends_with_the_session(foreign: Foreign) -> None:
    async with environment_on(foreign) as environment:
        async with environment.open(TASK):
            assert foreign.open_now == 1
        while foreign.open_now:
            await asyncio.sleep(0.001)


def result(reward: Any = 0.5, done: Any = False, observation: Any = None) -> str:
    shown = {"left": 1} if observation is None else observation
    data = {"observation": shown, "reward": reward, "done": done}
    return json.dumps({"type": "observation", "data": data})


@pytest.mark.parametrize(
    "answer",
    [
        "not json",
        "[]",
        '{"type": "observation"}',
        '{"type": "observation", "data": [1]}',
        '{"type": "error", "data": {"message": "broken", "code": "EXECUTION_ERROR"}}',
        result(reward=float("nan")),
        result(reward=float("inf")),
        result(reward="1.0"),
        result(reward=[1]),
        result(done="yes"),
        result(done=None),
        result(observation="text"),
        "[" * 50_000,
        "hang up",
        SILENCE,
    ],
    ids=lambda a: str(a)[:60],
)
async def test_a_server_that_misbehaves_fails_the_episode_and_never_pays(
    answer: Any, foreign: Foreign
) -> None:
    foreign.step = answer
    async with session_on(foreign, call_timeout_s=0.3) as session:
        with pytest.raises(EnvironmentFailure):
            await session.act("a")


@pytest.mark.parametrize("answer", ["not json", result(done=3), "hang up", SILENCE], ids=str)
async def test_a_reset_that_goes_wrong_fails_the_episode(answer: Any, foreign: Foreign) -> None:
    foreign.reset = answer
    async with environment_on(foreign, open_timeout_s=0.3) as environment:
        with pytest.raises(EnvironmentFailure, match="no episode could be opened"):
            async with environment.open(TASK):
                pass


@pytest.mark.parametrize("way", ["refuses", "turns_away"])
async def test_a_full_server_is_waited_for(way: str, foreign: Foreign) -> None:
    setattr(foreign, way, 1)
    async with session_on(foreign) as session:
        assert (await session.act("a")).reward == 0.5


async def test_a_server_that_stays_full_fails_the_episode(foreign: Foreign) -> None:
    foreign.turns_away = 100
    async with environment_on(foreign, open_timeout_s=1.0) as environment:
        with pytest.raises(EnvironmentFailure, match="at capacity"):
            async with environment.open(TASK):
                pass


async def test_tasks_are_seeds_and_splits_share_none(foreign: Foreign) -> None:
    async with environment_on(foreign) as environment:

        def seeds(split: Any, seed: int) -> list[Any]:
            return [task.data["seed"] for task in islice(environment.tasks(split, seed), 50)]

        train = await asyncio.to_thread(seeds, "train", 0)
        again = await asyncio.to_thread(seeds, "train", 0)
        other = await asyncio.to_thread(seeds, "train", 1)
        heldout = await asyncio.to_thread(seeds, "heldout", 0)
    assert train == again != other
    assert not set(train) & set(heldout)
    assert {seed % 2 for seed in train + other} == {0}


async def test_where_the_text_goes_is_asked_for_when_it_cannot_be_known(foreign: Foreign) -> None:
    foreign.schema = {
        "action": {"properties": {"code": {"type": "string"}, "name": {"type": "string"}}}
    }
    async with environment_on(foreign) as environment:
        with pytest.raises(UserError, match=r"code, name.*env\.action_field"):
            async with environment.open(TASK):
                pass
    async with session_on(foreign, action_field="message") as session:
        assert (await session.act("a")).reward == 0.5


async def test_a_server_that_is_not_there_masks_and_then_ends_the_run() -> None:
    async with foreign_server() as foreign:
        address = foreign.address
    options = {"url": address, "open_timeout_s": 0.6, "give_up_s": 0.2}
    environment = build_environment("remote", options)
    assert isinstance(environment, RemoteEnvironment)
    environment._server_info = {}  # it was there when the run began
    with pytest.raises(UserError, match=r"for 0\.2 s"):
        async with environment.open(TASK):
            pass
    await environment.close()


async def test_no_reference_is_made_up(foreign: Foreign) -> None:
    async with environment_on(foreign) as environment:
        with pytest.raises(UserError, match="no references"):
            await asyncio.to_thread(environment.reference, TASK)
