"""Many attempts at once, counted, and tried again where they fail."""

import asyncio
import functools
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from inspect import iscoroutinefunction
from typing import Any, TypeVar

from practicum.compat.art.trajectories import (
    Counting,
    PendingGroup,
    Trajectory,
    TrajectoryGroup,
    counting_as,
)

F = TypeVar("F", bound=Callable[..., Any])


def retry(
    max_attempts: int = 3,
    delay: float = 0.25,
    backoff_factor: float = 2.0,
    exceptions: tuple[type[BaseException], ...] = (Exception,),
    on_retry: Callable[[Any, int], None] | None = None,
) -> Callable[[F], F]:
    """A function, or coroutine function, that is called again when it fails.

    Args:
        max_attempts: Calls in all; what the last one raises is raised.
        delay: Seconds before the second call.
        backoff_factor: What each further delay is multiplied by.
        exceptions: What is worth another call.
        on_retry: Told of the exception and of the number of the call that failed; a line is logged
            unless given.
    """

    def waits(name: str) -> Iterator[Callable[[BaseException], float]]:
        """For each call but the last: how long to wait, once told of its exception."""
        for attempt in range(1, max_attempts):

            def wait(error: BaseException, attempt: int = attempt) -> float:
                if on_retry is not None:
                    on_retry(error, attempt)
                else:
                    logging.getLogger(__name__).warning(
                        "%s failed, call %d of %d: %s", name, attempt, max_attempts, error
                    )
                return delay * backoff_factor ** (attempt - 1)

            yield wait

    def decorate(function: F) -> F:
        name = getattr(function, "__name__", "the function")

        @functools.wraps(function)
        async def call_again_async(*args: Any, **kwargs: Any) -> Any:
            for wait in waits(name):
                try:
                    return await function(*args, **kwargs)
                except exceptions as error:
                    pause = wait(error)
                await asyncio.sleep(pause)
            return await function(*args, **kwargs)

        @functools.wraps(function)
        def call_again(*args: Any, **kwargs: Any) -> Any:
            for wait in waits(name):
                try:
                    return function(*args, **kwargs)
                except exceptions as error:
                    pause = wait(error)
                time.sleep(pause)
            return function(*args, **kwargs)

        chosen: Any = call_again_async if iscoroutinefunction(function) else call_again
        return chosen  # type: ignore[no-any-return]

    return decorate


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
