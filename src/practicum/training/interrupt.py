"""Ctrl-C once: leave at a point the run can go on from. Twice: leave at once."""

import asyncio
import signal
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

__all__ = ["InterruptGate", "Interrupted"]

T = TypeVar("T")


class Interrupted(Exception):
    """The user asked the run to stop."""


class InterruptGate:
    """Turns SIGINT into `Interrupted` while something is awaited through the gate."""

    def __init__(self) -> None:
        self.asked = False
        self._running: asyncio.Future[Any] | None = None

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Handle SIGINT here for a block; the handler of before is back afterwards."""
        loop = asyncio.get_running_loop()
        before = signal.getsignal(signal.SIGINT)
        loop.add_signal_handler(signal.SIGINT, self._stop)
        try:
            yield
        finally:
            loop.remove_signal_handler(signal.SIGINT)
            signal.signal(signal.SIGINT, before)

    def _stop(self) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
        if self._running is not None:
            self._running.cancel()

    async def through(self, work: Awaitable[T]) -> T:
        """Await `work`, which a first SIGINT cancels."""
        if self.asked:
            if asyncio.iscoroutine(work):
                work.close()  # it never begins
            raise Interrupted
        job = asyncio.ensure_future(work)
        self._running = job
        try:
            return await job
        except asyncio.CancelledError:
            if self.asked:
                raise Interrupted from None
            raise
        finally:
            self._running = None
