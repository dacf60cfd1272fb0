"""`StoreThreads`: threads that answer requests, each with the trace stores that it has open.

Opening a store compares every row with its checksum, which takes a second where there are 100,000,
so a thread keeps the few that it used last. SQLite's connections belong to one thread.
"""

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from practicum.store.trace_store import SqliteTraceStore

T = TypeVar("T")

THREADS = 2
"""So that a search does not keep a page waiting."""
KEPT_OPEN = 4
"""Stores that a thread keeps open."""


class StoreThreads:
    """Runs functions in threads that have stores open for reading."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="monitor")
        self._own = threading.local()

    async def run(self, work: Callable[[], T]) -> T:
        """What a function gives, in one of the threads."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    def reading(self, path: Path) -> SqliteTraceStore:
        """The store at a path, opened read-only; for functions that `run` was given."""
        stores: OrderedDict[tuple[Path, int, int], SqliteTraceStore]
        stores = self._own.__dict__.setdefault("stores", OrderedDict())
        # By its inode too: a run that was removed may have come again under its name.
        at = path.stat() if path.is_file() else None
        place = (path, at.st_dev, at.st_ino) if at else (path, 0, 0)
        if place not in stores:
            stores[place] = SqliteTraceStore(path, read_only=True)
        stores.move_to_end(place)
        while len(stores) > KEPT_OPEN:
            stores.popitem(last=False)[1].close()
        return stores[place]

    def close(self) -> None:
        """Let the threads end; their stores are closed with them."""
        self._pool.shutdown(wait=True, cancel_futures=True)
