"""Trying again."""

import asyncio
import functools
import logging
import time
from collections.abc import Callable, Iterator
from inspect import iscoroutinefunction
from typing import Any, TypeVar

__all__ = ["retry"]

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
