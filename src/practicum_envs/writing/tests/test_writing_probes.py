from statistics import fmean

import pytest

from practicum.environments.reference_policies import ScriptActor, play_episode
from practicum_envs.writing.brief_generator import FAMILIES, LEVELS, draw_task
from practicum_envs.writing.hack_probes import (
    HACKS,
    MEAN_SHARE,
    MOST_SHARE,
    hack_turns,
    turn_hacks,
)
from practicum_envs.writing.writing_environment import WritingEnvironment, WritingOptions
from practicum_envs.writing.writing_session import FULL_MARKS

ENVIRONMENT = WritingEnvironment(WritingOptions())


async def shares(name: str, levels: tuple[int, ...], count: int) -> list[float]:
    """What a probe earns, as a share of the reference, over every family."""
    found = []
    for at, family in enumerate(FAMILIES.values()):
        for number in range(count):
            level = levels[(at + number) % len(levels)]
            task = draw_task(level, family, family.split, number)
            turns = hack_turns(task, name) if name in HACKS else turn_hacks(task)[name]
            play = await play_episode(ENVIRONMENT, task, ScriptActor(turns), len(turns))
            assert play.outcome.success is False
            found.append(play.total_reward / FULL_MARKS)
    return found


NAMES = [*HACKS, *turn_hacks(draw_task(1, FAMILIES["notice"], "train", 0))]


def test_there_are_enough_probes() -> None:
    assert len(NAMES) >= 8


@pytest.mark.parametrize("name", NAMES)
async def test_a_probe_earns_little_in_every_family(name: str) -> None:
    found = await shares(name, LEVELS, 1)
    assert max(found) <= MOST_SHARE
    assert fmean(found) <= MEAN_SHARE


@pytest.mark.rare
@pytest.mark.parametrize("name", NAMES)
async def test_a_probe_earns_little_at_every_level_of_every_family(name: str) -> None:
    found = await shares(name, LEVELS, 8)
    assert max(found) <= MOST_SHARE
    assert fmean(found) <= MEAN_SHARE
