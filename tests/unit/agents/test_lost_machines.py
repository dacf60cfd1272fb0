"""Episodes whose machine is lost under them: begun anew, as they would have been."""

import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from practicum.agents.rollout import MOST_MACHINES, run_with_retries
from practicum.assemble.environments import open_environment
from practicum.assemble.policies import scripted_policy
from practicum.config_files import read_config
from practicum.core.errors import EnvironmentFailure, MachineFailure
from practicum.core.task import Task


class Losing:
    """An environment that loses its sessions some times before it opens one."""

    def __init__(self, inner: Any, times: int, kind: type[EnvironmentFailure]) -> None:
        self._inner, self._times, self._kind = inner, times, kind
        self.name = inner.name
        self.opened = 0
        self.places = 0

    @contextlib.asynccontextmanager
    async def room_for_episode(self) -> AsyncIterator[None]:
        self.places += 1
        yield

    @contextlib.asynccontextmanager
    async def open(self, task: Task) -> AsyncIterator[Any]:
        self.opened += 1
        if self.opened <= self._times:
            raise self._kind("it is gone")
        async with self._inner.open(task) as session:
            yield session


async def played(times: int, kind: type[EnvironmentFailure] = MachineFailure) -> Any:
    config = read_config("math", ["model=tiny"])
    inner = open_environment(config.env)
    task = next(iter(inner.tasks("train", 0)))
    parts = scripted_policy("reference", inner).parts(inner, config)
    losing: Any = Losing(inner, times, kind)
    episode = await run_with_retries(replace(parts, environment=losing, retries=0), task, "a/0", 1)
    return losing, episode


@pytest.mark.parametrize("times", [0, 1, MOST_MACHINES - 1])
async def test_an_episode_is_begun_anew_on_another_machine(times: int) -> None:
    losing, episode = await played(times)
    assert (losing.opened, losing.places) == (times + 1, 1)
    assert episode.is_usable
    assert episode.outcome.success


async def test_one_that_is_lost_with_every_machine_is_masked() -> None:
    losing, episode = await played(MOST_MACHINES)
    assert losing.opened == MOST_MACHINES
    assert episode.trace.is_masked


async def test_a_failure_of_the_environment_itself_is_not_begun_anew() -> None:
    losing, episode = await played(1, EnvironmentFailure)
    assert losing.opened == 1
    assert episode.trace.is_masked
