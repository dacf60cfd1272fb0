"""How files come into the cache: made beside their place, checked by digest, then renamed."""

import contextlib
import fcntl
import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

from practicum.core.errors import UserError

__all__ = [
    "POLL_S",
    "Progress",
    "make_in_place",
    "require_space",
    "sha256_of",
    "silent",
    "size_of",
]

POLL_S = 0.1
"""How often a growing download is looked at."""

MARGIN_BYTES = 64 * 1024 * 1024
"""Free space left over when the disk is checked."""


Progress: TypeAlias = Callable[[str, int, int], None]
"""Told the stage, how far it is, and how far it goes; 0 when that is not known."""


def silent(stage: str, done: int, total: int) -> None:
    """A progress that nobody watches."""


@contextlib.contextmanager
def make_in_place(folder: Path) -> Iterator[Path | None]:
    """A folder to fill; it becomes `folder` when the block ends well, and goes away when not.

    Yields None when another process finished the same folder first. Only one process fills it at
    a time, so whatever an earlier, killed one left behind is removed.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    staging = folder.parent / f".{folder.name}.partial"
    with (folder.parent / f".{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if folder.exists():
            yield None
            return
        shutil.rmtree(staging, ignore_errors=True)
        staging.mkdir()
        try:
            yield staging
            _flush(staging)
            staging.rename(folder)
        finally:
            shutil.rmtree(staging, ignore_errors=True)


def _flush(folder: Path) -> None:
    """Have every file on the disk before the rename that makes them count."""
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            with file.open("rb") as handle:
                os.fsync(handle.fileno())


def require_space(folder: Path, needed_bytes: int, what: str) -> None:
    """Stop before a fetch or a conversion that the disk cannot hold."""
    needed = needed_bytes + MARGIN_BYTES
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise UserError(
            f"{what} needs {needed >> 20} MiB of disk and {folder.parent} has {free >> 20} MiB "
            "free; make room, or set PRACTICUM_CACHE to a folder on another disk"
        )


def sha256_of(file: Path, progress: Progress = silent) -> str:
    """The digest of a file, read in pieces."""
    digest = hashlib.sha256()
    total = file.stat().st_size
    with file.open("rb") as handle:
        while piece := handle.read(1 << 22):
            digest.update(piece)
            progress(f"checking {file.name}", handle.tell(), total)
    return digest.hexdigest()


def size_of(folder: Path) -> int:
    """Bytes of all files under a folder, which may change while it is looked at."""
    total = 0
    for file in folder.rglob("*"):
        with contextlib.suppress(OSError):
            total += file.stat().st_size if file.is_file() else 0
    return total
