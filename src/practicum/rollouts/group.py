"""Several episodes of each task, all under way at once."""

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import replace

from practicum.core.errors import UserError
from practicum.core.interfaces import GroupReward
from practicum.core.sample import Episode, Group
from practicum.core.score import Score
from practicum.core.task import Task
from practicum.rollouts.rollout import RolloutParts, run_episode

__all__ = ["episode_seed", "run_groups", "run_persistently"]


async def run_groups(
    parts: RolloutParts,
    tasks: Sequence[Task],
    group_size: int,
    *,
    label: str,
    seed: int,
    on_episode: Callable[[Episode], None] = lambda episode: None,
) -> list[Group]:
    """A group of `group_size` episodes for each task, in the order of the tasks.

    `label` names the occasion, such as `step-3`: it is part of trace ids and of every seed.
    """

    async def one(task: Task, place: int, number: int) -> Episode:
        trace_id = f"{label}/{place}/{task.id}/{number}"
        episode = await run_persistently(parts, task, trace_id, seed)
        on_episode(episode)
        return episode

    try:
        async with _reachable(parts), asyncio.TaskGroup() as together:
            running = [
                [together.create_task(one(task, place, number)) for number in range(group_size)]
                for place, task in enumerate(tasks)
            ]
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None  # the first to fail; it stopped the others
    groups = [
        Group(task=task, episodes=tuple(job.result() for job in jobs))
        for task, jobs in zip(tasks, running, strict=True)
    ]
    if parts.group_reward is None:
        return groups
    return await _compared(groups, parts.group_reward)


async def run_persistently(parts: RolloutParts, task: Task, trace_id: str, seed: int) -> Episode:
    """An episode, played again where its agent or its environment failed.

    Each try has a seed of its own, so that it does not run into the same wall for the same reason;
    only the last is kept, so that a group has as many episodes as were asked for.
    """
    async with parts.places or nullcontext():
        episode = await run_episode(parts, task, trace_id, episode_seed(seed, trace_id))
        for again in range(1, parts.retries + 1):
            if episode.trace.failure is None:
                break
            other = episode_seed(seed, f"{trace_id} again {again}")
            episode = await run_episode(parts, task, trace_id, other)
    return episode


def _reachable(parts: RolloutParts) -> AbstractAsyncContextManager[None]:
    """One server for all episodes, where their agent needs one."""
    return nullcontext() if parts.reach is None else parts.reach.serving()


async def _compared(groups: Sequence[Group], reward: GroupReward) -> list[Group]:
    """The groups with the scores their episodes have beside each other."""
    try:
        async with asyncio.TaskGroup() as together:
            running = [together.create_task(_rescored(group, reward)) for group in groups]
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None
    return [job.result() for job in running]


async def _rescored(group: Group, reward: GroupReward) -> Group:
    """One group; where its reward fails, none of its episodes is scored."""
    try:
        return await reward.rescore(group)
    except UserError:
        raise
    except Exception as error:  # noqa: BLE001 - a reward is user code; its failure is data
        unscored = Score.unscored(
            f"reward {type(reward).__name__}: {type(error).__name__}: {error}"
        )
        return replace(group, episodes=tuple(replace(e, score=unscored) for e in group.episodes))


def episode_seed(seed: int, trace_id: str) -> int:
    """The seed of one episode: the run's seed and the episode's name decide it, nothing else."""
    digest = hashlib.blake2b(f"{seed}/{trace_id}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big")
