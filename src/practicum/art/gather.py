"""Many attempts at once."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from practicum.art.counting import Counting, counting_as
from practicum.art.trajectories import PendingGroup, Trajectory, TrajectoryGroup

__all__ = ["gather_trajectories", "gather_trajectory_groups"]

AfterEach = Callable[[TrajectoryGroup], Awaitable[TrajectoryGroup | list[TrajectoryGroup] | None]]


async def gather_trajectory_groups(
    groups: Iterable[Awaitable[TrajectoryGroup]],
    *,
    pbar_desc: str | None = "gather",
    pbar_total_completion_tokens: bool = False,
    max_exceptions: int | float = 0,
    max_metrics: int | None = None,
    after_each: AfterEach | None = None,
) -> list[TrajectoryGroup]:
    """Make all groups at once; they come back in the order they were given.

    Args:
        groups: `TrajectoryGroup(...)` over coroutines, or coroutines that return a group.
        pbar_desc: What stands before the count in a terminal; None shows none.
        pbar_total_completion_tokens: Taken for the sake of older scripts; has no effect.
        max_exceptions: How many attempts may fail, or below 1 which share of them. The exception
            that is one too many is raised, and all other attempts are cancelled.
        max_metrics: Taken for the sake of older scripts; has no effect.
        after_each: Told of each group when it is complete, and returns what is kept of it: a group,
            several, or None.
    """
    waiting = list(groups)
    total = sum(len(g) if isinstance(g, PendingGroup) else 1 for g in waiting)
    counting = Counting(total=total, max_exceptions=max_exceptions, label=pbar_desc)

    async def made(group: Awaitable[TrajectoryGroup]) -> list[TrajectoryGroup]:
        found = await _one_group(group, counting)
        if found is not None and after_each is not None:
            kept = await after_each(found)
            return kept if isinstance(kept, list) else [kept] if kept is not None else []
        return [] if found is None else [found]

    with counting_as(counting):
        results = await _all_or_none([made(group) for group in waiting])
    return [group for several in results for group in several]


async def _one_group(
    group: Awaitable[TrajectoryGroup], counting: Counting
) -> TrajectoryGroup | None:
    """A group; None where what should have made it failed and that is allowed."""
    if isinstance(group, PendingGroup):  # it counts its attempts itself
        return await group
    try:
        found = await group
    except Exception as error:  # noqa: BLE001 - raised again where it is one too many
        counting.failed(error)
        return None
    counting.total += len(found) - 1
    for trajectory in found:
        counting.done(trajectory)
    return found


async def gather_trajectories(
    trajectories: Iterable[Awaitable[Any]],
    *,
    pbar_desc: str | None = "gather",
    pbar_total_completion_tokens: bool = False,
    max_exceptions: int | float = 0,
) -> list[Any]:
    """Make all attempts at once: trajectories, or lists of them, in the order they were given.

    In the place of one that failed stands its exception, where `max_exceptions` allows that.
    """
    waiting = list(trajectories)
    counting = Counting(total=len(waiting), max_exceptions=max_exceptions, label=pbar_desc)

    async def made(attempt: Awaitable[Any]) -> Any:
        try:
            found = await attempt
        except Exception as error:  # noqa: BLE001 - raised again where it is one too many
            counting.failed(error)
            return error
        several = [found] if isinstance(found, Trajectory) else list(found)
        counting.total += len(several) - 1
        for trajectory in several:
            counting.done(trajectory)
        return found if isinstance(found, Trajectory) else several

    with counting_as(counting):
        return await _all_or_none([made(attempt) for attempt in waiting])


async def _all_or_none(waiting: list[Any]) -> list[Any]:
    """What all of them return; where one raises, the others are cancelled."""
    tasks = [asyncio.ensure_future(one) for one in waiting]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
