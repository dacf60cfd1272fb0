"""One trainer at a time in a run folder.

The kernel holds the lock for as long as the process lives, so a process that died, however it died,
leaves nothing to clean up. The pid in the file is only for the message.
"""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from practicum.core.errors import RunBusy
from practicum.store.durable import storage_errors

__all__ = ["hold_lock", "lock_holder"]

TRIES = 5
"""Tries before giving up, because `lock_holder` takes the lock for a moment to look at it."""
PAUSE_S = 0.02


@contextmanager
def hold_lock(path: Path) -> Iterator[None]:
    """Hold the lock file for the block.

    Raises:
        RunBusy: when another process holds it, with its pid.
    """
    with storage_errors(path):
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        if not _take(handle):
            pid = _read_pid(handle)
            who = f"process {pid}" if pid else "another process"
            raise RunBusy(
                f"{path.parent} is being trained by {who}; only one may train in a run folder: "
                f"wait for it, stop it{f' (kill -INT {pid})' if pid else ''}, or start another "
                "run with --name"
            )
        _write_pid(handle, str(os.getpid()))
        yield
        _write_pid(handle, "")
    finally:
        os.close(handle)


def lock_holder(path: Path) -> int | None:
    """The pid of the process that holds the lock (0 if it cannot be told), None if nobody does."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _read_pid(handle) or 0
    else:
        return None
    finally:
        os.close(handle)


def _take(handle: int) -> bool:
    for attempt in range(TRIES):
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if attempt + 1 < TRIES:
                time.sleep(PAUSE_S)
        else:
            return True
    return False


def _read_pid(handle: int) -> int | None:
    text = os.pread(handle, 32, 0).strip()
    return int(text) if text.isdigit() else None


def _write_pid(handle: int, pid: str) -> None:
    os.ftruncate(handle, 0)
    os.pwrite(handle, pid.encode(), 0)
