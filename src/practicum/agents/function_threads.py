"""Where functions of the user's run: in threads of their own, away from the model's event loop.

A function that blocks, such as one that calls a blocking client inside `async def`, would stop the
very loop that is to answer it. So async functions share a loop in a thread of their own, and each
blocking function has a thread. Threads cannot be ended from outside: one that hangs is left behind,
and does not keep the process alive.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import Any

from practicum.core.errors import AgentFailure

__all__ = ["FunctionThreads"]

ANSWER_S = 2.0
"""A loop that does not answer for so long after a deadline is taken to be blocked for good."""


class FunctionThreads:
    """Runs functions, and starts afresh when one of them has blocked the loop they share."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None

    async def run(self, call: Callable[[], Awaitable[Any]]) -> Any:
        """Await an async function on the loop that such functions share."""
        loop = self._running_loop()
        pending = asyncio.run_coroutine_threadsafe(_guarded(call), loop)
        try:
            return await asyncio.wrap_future(pending)
        except asyncio.CancelledError:
            pending.cancel()
            await self._leave_if_blocked(loop)
            raise

    async def run_blocking(self, call: Callable[[], Any]) -> Any:
        """Call a blocking function in a thread of its own."""
        done: Future[Any] = Future()

        def thread() -> None:
            if not done.set_running_or_notify_cancel():
                return
            try:
                done.set_result(call())
            except BaseException as error:  # noqa: BLE001 - a thread's error belongs to its caller
                done.set_exception(_as_failure(error))

        threading.Thread(target=thread, name="practicum function", daemon=True).start()
        return await asyncio.wrap_future(done)

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            threading.Thread(
                target=self._loop.run_forever, name="practicum functions", daemon=True
            ).start()
        return self._loop

    async def _leave_if_blocked(self, loop: asyncio.AbstractEventLoop) -> None:
        answered: Future[None] = Future()
        loop.call_soon_threadsafe(answered.set_result, None)
        try:
            await asyncio.wait_for(asyncio.wrap_future(answered), ANSWER_S)
        except TimeoutError:
            if self._loop is loop:
                self._loop = None


async def _guarded(call: Callable[[], Awaitable[Any]]) -> Any:
    try:
        return await call()
    except SystemExit as error:  # it would end the loop, and every other function with it
        raise _as_failure(error) from None


def _as_failure(error: BaseException) -> BaseException:
    if isinstance(error, SystemExit):
        return AgentFailure(f"it left the program with exit code {error.code}")
    return error
