"""An environment's own solutions as examples: played in it, so that its answers are real."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from itertools import islice

from practicum.core.errors import UserError
from practicum.core.interfaces import Environment
from practicum.core.sample import Episode
from practicum.core.task import Task

__all__ = ["reference_episodes", "reference_tasks"]


async def reference_episodes(
    environment: Environment,
    n: int,
    seed: int,
    play: Callable[[Task], Awaitable[Episode]],
    on_episode: Callable[[Episode], None] = lambda episode: None,
) -> list[Episode]:
    """Play the solutions of `n` training tasks; held-out tasks are never touched.

    Args:
        environment: Whose tasks.
        n: How many; fewer where the environment has fewer.
        seed: Which tasks, and in which order.
        play: Plays a task's solution in the environment, from the prompt to the end.
        on_episode: Told of each one.
    """
    places = asyncio.Semaphore(AT_ONCE)

    async def one(task: Task) -> Episode:
        async with places:
            episode = await play(task)
        on_episode(episode)
        return episode

    try:
        async with asyncio.TaskGroup() as together:
            tasks = islice(reference_tasks(environment, seed), n)
            playing = [together.create_task(one(task)) for task in tasks]
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None  # the first to fail; it stopped the others
    if not playing:
        raise UserError(
            f"{environment.name!r} has no training tasks whose solution is known; "
            "choose another environment or other options"
        )
    return [job.result() for job in playing]


def reference_tasks(environment: Environment, seed: int) -> Iterator[Task]:
    """Training tasks, none twice; ends when the environment only repeats itself."""
    seen: set[str] = set()
    repeated = 0
    for task in environment.tasks("train", seed):
        if task.id in seen:
            repeated += 1
            if repeated > REPEATS_THAT_END:
                return
            continue
        seen.add(task.id)
        repeated = 0
        yield task


AT_ONCE = 32
"""Solutions played at the same time."""

REPEATS_THAT_END = 10_000
"""So many known tasks in a row, and there are no others."""
