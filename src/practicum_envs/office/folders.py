"""Folders that a policy filled: removed, measured and copied whatever their depth and size.

Nothing here recurses, and removing needs no path that grows with the depth: what a policy nested
too deep for a path must still go when its company does.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

BLOCK = 4096
"""Bytes of a disk that every file and folder takes at least; sizes are counted in whole blocks."""
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove_folder(path: Path | str) -> None:
    """Remove a folder and all that is in it; what cannot be removed stays, without an error.

    It goes down and up again by `..`, so that one descriptor is enough for any depth.
    """
    with suppress(OSError):
        place = os.open(path, FOLDER)
        above: list[tuple[str, list[str]]] = []
        inside = _emptied(place)
        while inside or above:
            if inside:
                name = inside.pop()
                with suppress(OSError):
                    place = _stepped(place, name)
                    above.append((name, inside))
                    inside = _emptied(place)
            else:
                place = _stepped(place, "..")
                name, inside = above.pop()
                with suppress(OSError):
                    os.rmdir(name, dir_fd=place)
        os.close(place)
        os.rmdir(path)


def _stepped(place: int, name: str) -> int:
    """Another folder in the place of one."""
    found = os.open(name, FOLDER, dir_fd=place)
    os.close(place)
    return found


def _emptied(place: int) -> list[str]:
    """The folders in a folder; all else in it is removed."""
    folders = []
    with os.scandir(place) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.name)
            else:
                with suppress(OSError):
                    os.unlink(entry.name, dir_fd=place)
    return folders


def entries_below(path: Path | str) -> Iterator[tuple[str, os.stat_result]]:
    """Every file and folder below a folder, by its relative path; folders before what they hold."""
    waiting = [""]
    while waiting:
        inside = waiting.pop()
        with suppress(OSError), os.scandir(os.path.join(path, inside)) as found:
            for entry in found:
                name = f"{inside}/{entry.name}".lstrip("/")
                yield name, entry.stat(follow_symlinks=False)
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(name)


def disk_bytes(path: Path | str) -> int:
    """Bytes of the disk that all below a folder takes.

    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> _ = Path(folder, "a").write_bytes(b"x")
    >>> disk_bytes(folder)
    4096
    """
    return sum(in_blocks(found.st_size) for _, found in entries_below(path))


def in_blocks(size: int) -> int:
    """Bytes that a file of this size takes on a disk; an empty one has an entry at least.

    >>> in_blocks(0), in_blocks(4096), in_blocks(4097)
    (4096, 4096, 8192)
    """
    return max(1, -(-size // BLOCK)) * BLOCK


def copy_folder(source: Path, target: Path) -> None:
    """Copy a folder with all that is in it; links are not followed, and there are none."""
    target.mkdir()
    for name, _ in list(entries_below(source)):
        if (source / name).is_dir():
            (target / name).mkdir()
        else:
            shutil.copyfile(source / name, target / name, follow_symlinks=False)
