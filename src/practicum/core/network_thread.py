"""`NetworkThread`: an event loop for connections, beside the one that samples and learns.

The main event loop is blocked for seconds at a time by an update. On a thread of their own
connections stay alive meanwhile, and a timeout measures the server and not the learner.
"""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class NetworkThread:
    """An event loop on a thread of its own, started when first used."""

    def __init__(self, name: str = "network") -> None:
        self._name = name
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    async def run_async(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the thread, awaited from another loop; cancelled with its caller."""
        return await asyncio.wrap_future(
            asyncio.run_coroutine_threadsafe(work, self._running_loop())
        )

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the thread and block until its result."""
        return asyncio.run_coroutine_threadsafe(work, self._running_loop()).result()

    def stop(self) -> None:
        """End the thread; the next use starts another."""
        with self._lock:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is not None and thread is not None:
            asyncio.run_coroutine_threadsafe(_cancel_all(), loop).result()
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=self._loop.run_forever, name=self._name, daemon=True
                )
                self._thread.start()
            return self._loop


async def _cancel_all() -> None:
    """Cancel the other tasks of the loop, and let connections finish closing."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    await asyncio.sleep(0)
    await asyncio.get_running_loop().shutdown_default_executor()
