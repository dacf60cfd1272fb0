"""Files and folders that hold what people said: their owner's alone, whatever the umask.

What is there already keeps the mode that somebody has given it.
"""

import os
from pathlib import Path


def owner_only(path: str, flags: int) -> int:
    """For `open(path, "a", opener=owner_only)`."""
    return os.open(path, flags, 0o600)


def make_private_file(path: Path) -> None:
    """An empty file for whoever writes by its name and not by an `opener`."""
    os.close(owner_only(str(path), os.O_WRONLY | os.O_CREAT))


def make_private_folder(path: Path) -> None:
    """A folder; those above it that are missing are made as any others."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.mkdir(mode=0o700, exist_ok=True)


def others_may_read(path: Path) -> bool:
    """Whether users besides its owner may read a file."""
    return bool(path.stat().st_mode & 0o077)
