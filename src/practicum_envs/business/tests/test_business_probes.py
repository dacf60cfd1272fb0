from statistics import fmean

import pytest

from practicum.environments.reference_policies import RandomActor, ScriptActor, play_episode
from practicum_envs.business.business_environment import (
    BusinessEnvironment,
    BusinessOptions,
    case_of_task,
    task_of,
)
from practicum_envs.business.business_probes import (
    HACKS,
    MOST_A_HACK_EARNS,
    Turns,
    near_misses,
    wasteful_turns,
)
from practicum_envs.business.case_families import FAMILIES
from practicum_envs.business.case_generator import LEVELS
from practicum_envs.business.decision_scoring import full_marks

ENVIRONMENT = BusinessEnvironment(BusinessOptions())
TASKS = {level: [task_of(name, level, 1) for name in FAMILIES] for level in LEVELS}
MANY = 30


async def share(task: object, turns: Turns, most: int = 8) -> float:
    """What turns earn of full marks."""
    play = await play_episode(ENVIRONMENT, task, ScriptActor(turns), most)
    assert play.outcome.success is False
    return play.total_reward / full_marks(case_of_task(task))


def test_there_are_eight_hacks_and_more() -> None:
    assert len(HACKS) >= 8


@pytest.mark.parametrize("name", HACKS)
async def test_a_hack_earns_less_than_half_and_solves_nothing(name: str) -> None:
    for level, tasks in TASKS.items():
        earned = [await share(task, HACKS[name](case_of_task(task))) for task in tasks]
        assert fmean(earned) < MOST_A_HACK_EARNS, (level, earned)
        assert max(earned) < 0.8


@pytest.mark.rare
@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
async def test_a_hack_earns_less_than_half_in_every_family(family: str) -> None:
    for level in LEVELS:
        tasks = [task_of(family, level, key) for key in range(MANY)]
        for name, hack in HACKS.items():
            earned = [await share(task, hack(case_of_task(task))) for task in tasks]
            assert fmean(earned) < MOST_A_HACK_EARNS, (level, name)


async def test_a_look_at_everything_costs_a_quarter_where_the_rest_is_right() -> None:
    for tasks in TASKS.values():
        for task in tasks:
            turns = wasteful_turns(case_of_task(task))
            play = await play_episode(ENVIRONMENT, task, ScriptActor(turns), len(turns))
            assert play.outcome.success is True
            assert play.total_reward < 0.75 * full_marks(case_of_task(task))


async def test_no_near_miss_succeeds_or_earns_full_marks() -> None:
    for tasks in TASKS.values():
        for task in tasks:
            for turns in near_misses(case_of_task(task)):
                assert await share(task, turns, most=len(turns)) < 1


def test_no_near_miss_is_the_solution() -> None:
    for tasks in TASKS.values():
        for task in tasks:
            of = case_of_task(task)
            assert tuple(ENVIRONMENT.reference(task)) not in near_misses(of)


async def test_random_actions_earn_less_than_doing_nothing() -> None:
    actor = RandomActor(0)
    plays = [
        await play_episode(ENVIRONMENT, task, actor) for tasks in TASKS.values() for task in tasks
    ]
    assert fmean(play.total_reward for play in plays) < 0
    assert not any(play.outcome.success for play in plays)
