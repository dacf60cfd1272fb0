"""Time limits that a busy event loop does not trip.

Learning and sampling hold the event loop for many seconds. An answer that came meanwhile lies in
its socket when the loop looks again, but so does the passed limit, and asyncio's own timeouts then
prefer the limit.
"""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

__all__ = ["within"]

Result = TypeVar("Result")
SECOND_LOOK_S = 0.5


async def within(seconds: float, work: Coroutine[Any, Any, Result]) -> Result:
    """The work's result; `TimeoutError` when it is not there after so long, and a second look."""
    task = asyncio.ensure_future(work)
    try:
        for patience in (seconds, SECOND_LOOK_S):
            done, _ = await asyncio.wait({task}, timeout=patience)
            if done:
                return task.result()
    finally:
        if not task.done():
            task.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await task
    raise TimeoutError
