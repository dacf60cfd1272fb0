"""`within`: a timeout that is not triggered by a blocked event loop.

Sampling and learning block the event loop for many seconds. When it runs again, an answer may wait
in the socket although the time has passed; `asyncio.timeout` would then raise without reading it.
"""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

Result = TypeVar("Result")
SECOND_LOOK_S = 0.5


async def within(seconds: float, work: Coroutine[Any, Any, Result]) -> Result:
    """The result of the work; `TimeoutError` after `seconds` and one more short wait."""
    task = asyncio.ensure_future(work)
    try:
        for timeout_s in (seconds, SECOND_LOOK_S):
            done, _ = await asyncio.wait({task}, timeout=timeout_s)
            if done:
                return task.result()
    finally:
        if not task.done():
            task.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await task
    raise TimeoutError
