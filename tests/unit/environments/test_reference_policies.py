from itertools import islice

import pytest

from practicum.core.errors import EnvironmentFailure
from practicum.core.task import Task
from practicum.environments.reference_policies import (
    RandomActor,
    ReferenceActor,
    ScriptActor,
    play_episode,
)
from practicum.environments.registry import build_environment

MATH = build_environment("math", {"level": 3})


async def test_the_reference_solves_and_says_what_it_did() -> None:
    task = next(MATH.tasks("heldout", 0))
    play = await play_episode(MATH, task, ReferenceActor(MATH))
    assert play.outcome.success is True
    assert play.terminated
    assert play.texts == tuple(MATH.reference(task))
    assert play.total_reward == sum(play.outcome.turn_rewards) > 0


async def test_one_reference_actor_plays_two_sessions_at_once() -> None:
    one, two = islice(MATH.tasks("heldout", 0), 2)
    actor = ReferenceActor(MATH)
    said: dict[str, list[str | None]] = {one.id: [], two.id: []}
    async with MATH.open(one) as first, MATH.open(two) as second:
        for _ in range(5):
            said[one.id].append(actor.next_text(first, one))
            said[two.id].append(actor.next_text(second, two))
    for task in (one, two):
        reference = list(MATH.reference(task))
        assert said[task.id] == (reference + [None] * 5)[:5]


async def test_doing_nothing_takes_no_turn() -> None:
    play = await play_episode(MATH, next(MATH.tasks("heldout", 0)), ScriptActor(()))
    assert (play.texts, play.total_reward, play.terminated) == ((), 0, False)


async def test_random_play_depends_on_seed_task_and_attempt_alone() -> None:
    one, two = islice(MATH.tasks("heldout", 0), 2)
    alone, mixed = RandomActor(seed=1), RandomActor(seed=1)
    await play_episode(MATH, two, mixed)
    first = await play_episode(MATH, one, alone)
    assert first == await play_episode(MATH, one, mixed)
    assert first.texts != (await play_episode(MATH, one, alone)).texts
    assert first.texts != (await play_episode(MATH, one, RandomActor(seed=2))).texts


async def test_the_turn_limit_cuts_a_play_off() -> None:
    task = next(MATH.tasks("heldout", 0))
    play = await play_episode(MATH, task, ReferenceActor(MATH), max_turns=2)
    assert len(play.texts) == 2
    assert play.outcome.success is False


async def test_an_environment_that_breaks_is_named_with_its_task() -> None:
    broken = Task(id="math-1-lost", env="math", split="train", data={})
    with pytest.raises(EnvironmentFailure, match="math-1-lost"):
        await play_episode(MATH, broken, ScriptActor(()))
