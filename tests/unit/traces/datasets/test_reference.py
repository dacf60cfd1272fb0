"""Reference solutions: of training tasks, none twice, in order."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from itertools import cycle
from typing import Any

import pytest
from tests.unit.traces.datasets.made import make_episode

from practicum.core.errors import UserError
from practicum.core.sample import Episode
from practicum.core.task import Split, Task
from practicum.traces.datasets.examples import reference_episodes


class Few:
    """An environment with a few training tasks that come again and again."""

    name = "few"

    def __init__(self, count: int, *, endless: bool = True) -> None:
        self._count = count
        self._endless = endless

    def tasks(self, split: Split, seed: int) -> Iterator[Task]:
        assert split == "train"
        tasks = [Task(id=f"{i}", env="few", split=split) for i in range(self._count)]
        return cycle(tasks) if self._endless else iter(tasks)

    def open(self, task: Task) -> AbstractAsyncContextManager[Any]:
        raise NotImplementedError

    def reference(self, task: Task) -> Sequence[str]:
        raise NotImplementedError


async def play(task: Task) -> Episode:
    return make_episode(task.id, "a", task=task.id)


@pytest.mark.parametrize(
    ("environment", "n", "expected"),
    [(Few(5), 3, "012"), (Few(5), 50, "01234"), (Few(5, endless=False), 50, "01234")],
)
async def test_each_task_is_played_once_in_order(environment: Few, n: int, expected: str) -> None:
    seen: list[Episode] = []
    episodes = await reference_episodes(environment, n, 0, play, seen.append)
    assert [episode.trace.task_id for episode in episodes] == list(expected)
    assert sorted(episode.trace.task_id for episode in seen) == list(expected)


async def test_an_environment_without_training_tasks_is_refused() -> None:
    with pytest.raises(UserError, match="'few' has no training tasks"):
        await reference_episodes(Few(0, endless=False), 3, 0, play)


async def test_a_solution_that_is_not_known_says_so() -> None:
    async def unknown(task: Task) -> Episode:
        raise UserError(f"the solution of {task.id!r} is not known")

    with pytest.raises(UserError, match="solution of '0' is not known"):
        await reference_episodes(Few(2), 2, 0, unknown)
