import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from tests.unit.environments.serving.toy import SETTINGS, ToyEnvironment, toy_task

from practicum.core.task import Task
from practicum.environments.serving.env_records import Refusal
from practicum.environments.serving.served_episodes import ServedEpisodes


def book(environment: Any = None, **settings: Any) -> tuple[ServedEpisodes, Any]:
    chosen = environment or ToyEnvironment()
    return ServedEpisodes(chosen, replace(SETTINGS, **settings)), chosen


async def test_an_episode_is_opened_played_checked_and_closed() -> None:
    episodes, environment = book()
    episode = await episodes.open(toy_task(3))
    assert [m["content"] for m in episode.first_observation["messages"]] == ["Say right.", "task 3"]
    assert not (await episodes.act(episode, {"text": "more"})).terminated
    assert (await episodes.act(episode, {"text": "right"})).terminated
    assert (await episodes.outcome(episode)).success is True
    await episodes.close(episode)
    assert (len(episodes), environment.open_now) == (0, 0)


async def test_no_turn_is_taken_after_the_end() -> None:
    episodes, _ = book()
    ended = await episodes.open(toy_task(0))
    await episodes.act(ended, {"text": "wrong"})
    checked = await episodes.open(toy_task(1))
    await episodes.outcome(checked)
    for episode in (ended, checked):
        with pytest.raises(Refusal, match="the episode is over"):
            await episodes.act(episode, {"text": "right"})


async def test_the_number_of_episodes_is_limited_also_while_they_open() -> None:
    episodes, environment = book(max_episodes=2)
    results = await asyncio.gather(
        *(episodes.open(toy_task(n)) for n in range(4)), return_exceptions=True
    )
    refused = [r for r in results if isinstance(r, Refusal)]
    assert [r.status for r in refused] == [429, 429]
    assert environment.opened == 2
    await episodes.close_all()
    await episodes.open(toy_task(0))


async def test_an_id_may_be_chosen_and_is_used_once_at_a_time() -> None:
    episodes, _ = book()
    mine = await episodes.open(toy_task(0), "mine")
    assert episodes.get("mine") is mine
    with pytest.raises(Refusal, match="already under way"):
        await episodes.open(toy_task(0), "mine")
    await episodes.close(mine)
    with pytest.raises(Refusal, match="there is no episode 'mine'"):
        episodes.get("mine")
    for bad in ("", "x" * 256):
        with pytest.raises(Refusal, match="1 to 255"):
            await episodes.open(toy_task(0), bad)


async def test_ids_that_are_made_up_cannot_be_guessed() -> None:
    episodes, _ = book()
    ids = [(await episodes.open(toy_task(0))).id for _ in range(8)]
    assert len(set(ids)) == 8
    assert all(len(one) >= 20 for one in ids)


@pytest.mark.parametrize(
    ("word", "sentence"),
    [("boom", "the toy broke"), ("nan", "paid nan"), ("hang", "more than 0.05 s")],
)
async def test_a_failing_turn_is_a_failure_and_ends_its_episode(word: str, sentence: str) -> None:
    episodes, environment = book(step_timeout_s=0.05)
    episode = await episodes.open(toy_task(0))
    with pytest.raises(Refusal, match=sentence) as caught:
        await episodes.act(episode, {"text": word})
    assert caught.value.status == 502
    assert (len(episodes), environment.open_now) == (0, 0)


async def test_a_wrong_action_is_refused_and_costs_nothing() -> None:
    episodes, _ = book()
    episode = await episodes.open(toy_task(0))
    for action in ({}, {"text": 3}, {"tool": "say"}):
        with pytest.raises(Refusal) as caught:
            await episodes.act(episode, action)
        assert caught.value.status == 422
    assert (await episodes.act(episode, {"text": "right"})).terminated
    assert episode.turns == 1


async def test_tool_calls_reach_sessions_with_tools() -> None:
    episodes, _ = book(ToyEnvironment(tools=True))
    episode = await episodes.open(toy_task(0))
    assert episode.first_observation["tools"] == [
        {"name": "say", "description": "Say it.", "parameters": {"type": "object"}}
    ]
    with pytest.raises(Refusal, match='"tool"'):
        await episodes.act(episode, {"text": "right"})
    with pytest.raises(Refusal, match="id of a tool call"):
        await episodes.act(episode, {"tool": "say", "arguments": {}, "id": 7})
    seen = await episodes.act(episode, {"tool": "say", "arguments": {"word": "right"}})
    assert seen.terminated


async def test_a_failing_check_is_no_verdict() -> None:
    episodes, environment = book()
    episode = await episodes.open(toy_task(0))
    await episodes.act(episode, {"text": "uncheckable"})
    with pytest.raises(Refusal, match="the check broke"):
        await episodes.outcome(episode)
    assert environment.open_now == 0


async def test_an_environment_that_does_not_open_leaves_its_place_free() -> None:
    episodes, environment = book(ToyEnvironment(fails_to_open=True), max_episodes=1)
    for _ in range(2):
        with pytest.raises(Refusal, match="no machine"):
            await episodes.open(toy_task(0))
    environment.fails_to_open = False
    await episodes.open(toy_task(0))


async def test_a_turn_limit_of_the_server_ends_episodes() -> None:
    episodes, _ = book(max_turns=2)
    episode = await episodes.open(toy_task(0))
    await episodes.act(episode, {"text": "more"})
    assert not episode.is_over
    await episodes.act(episode, {"text": "more"})
    assert episode.is_over


async def test_abandoned_episodes_are_closed_and_busy_ones_are_not() -> None:
    episodes, environment = book()
    left, used = await episodes.open(toy_task(0)), await episodes.open(toy_task(1))
    busy = await episodes.open(toy_task(2))
    working = asyncio.create_task(episodes.act(busy, {"text": "hang"}))
    await asyncio.sleep(0)
    for episode in (left, busy):
        episode.last_used -= 700
    assert await episodes.close_idle() == 1
    with pytest.raises(Refusal, match="600 s of silence"):
        episodes.get(left.id)
    assert episodes.get(used.id) is used
    assert environment.open_now == 2
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working
    assert environment.open_now == 1, "a turn that is cut off ends its episode"


async def test_turns_of_one_episode_wait_for_each_other() -> None:
    class Slow(ToyEnvironment):
        @asynccontextmanager
        async def _session(self, task: Task) -> AsyncIterator[Any]:
            async with super()._session(task) as session:
                inner, session.act = session.act, None
                running = 0

                async def act(text: str) -> Any:
                    nonlocal running
                    running += 1
                    assert running == 1
                    await asyncio.sleep(0.01)
                    running -= 1
                    return await inner(text)

                session.act = act
                yield session

    episodes, _ = book(Slow())
    episode = await episodes.open(toy_task(0))
    await asyncio.gather(*(episodes.act(episode, {"text": "more"}) for _ in range(4)))
    assert episode.turns == 4
