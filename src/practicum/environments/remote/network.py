"""A thread for everything that waits on the network.

The loop that samples and learns is busy for seconds at a time. On a thread of their own,
connections are answered meanwhile, and a time limit measures the server rather than the learner.
"""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

__all__ = ["NetworkThread"]

T = TypeVar("T")


class NetworkThread:
    """An event loop on a thread; started when first used."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()

    async def go(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of some work, awaited from another loop; cancelled with who waits."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._running()))

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of some work, for callers that cannot await."""
        return asyncio.run_coroutine_threadsafe(work, self._running()).result()

    def stop(self) -> None:
        """End the thread; the next use starts another."""
        with self._starting:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is not None and thread is not None:
            asyncio.run_coroutine_threadsafe(_wind_up(), loop).result()
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._starting:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=self._loop.run_forever, name="remote environment", daemon=True
                )
                self._thread.start()
            return self._loop


async def _wind_up() -> None:
    """End what is still under way, and let connections finish closing."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    await asyncio.sleep(0)
    await asyncio.get_running_loop().shutdown_default_executor()
