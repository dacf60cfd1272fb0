"""Large requests: one thread works on them, so that the event loop goes on serving all others.

Small ones are worked on in the event loop, which takes less than handing them to a thread.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TypeVar

from practicum.gateway.requests import Refused

INLINE_BYTES = 32 * 1024
"""Requests up to this length are parsed and tokenised in some 10 ms."""

READ_AT_ONCE = 16
"""Larger bodies that are read and parsed at once; others wait before they are read."""

MOST_IN_LINE = 32
"""Larger requests that wait for the thread; one more is refused."""

T = TypeVar("T")

_in_line = 0


@cache
def _thread() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix="large-requests")


async def in_large_thread(work: Callable[[], T]) -> T:
    """Does it in the thread of large requests, one after the other."""
    global _in_line
    if _in_line >= MOST_IN_LINE:
        raise Refused(
            503,
            f"{_in_line} large requests wait already; send this one again in a moment",
            "overloaded_error",
            retry_after_s=2,
        )
    _in_line += 1
    try:
        return await asyncio.get_running_loop().run_in_executor(_thread(), work)
    finally:
        _in_line -= 1


async def work_on(size: int, work: Callable[[], T]) -> T:
    """Does it here and now, or for a large request in the thread."""
    return work() if size <= INLINE_BYTES else await in_large_thread(work)
