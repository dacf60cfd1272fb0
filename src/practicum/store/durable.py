"""Files and folders that are there whole or not at all, whenever the process dies.

New content is written beside its place, flushed to the disk and renamed; only then does a reader
see it. What cannot be written becomes a sentence, with the content that was there untouched.
"""

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from practicum.core.errors import PracticumError, UserError
from practicum.store.failpoints import DurableStep, durable_step

__all__ = ["publish_folder", "storage_errors", "sync_folder", "sync_tree", "write_file"]

FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
DENIED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


def write_file(path: Path, content: bytes) -> None:
    """Replace a file's content at once, flushed to the disk before the old content goes.

    Example:
        `write_file(run / "run.json", b"{}")`
    """
    staged = path.with_name(f".{path.name}.tmp")
    try:
        with storage_errors(path):
            with durable_step(DurableStep.FILE_STAGE), open(staged, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            with durable_step(DurableStep.FILE_RENAME):
                os.replace(staged, path)
                sync_folder(path.parent)
    except BaseException:
        with suppress(OSError):  # a disk that refused the file may refuse this as well
            staged.unlink()
        raise


def publish_folder(staged: Path, final: Path, *, displaced: Path | None = None) -> None:
    """Give a finished folder its name, with every file in it flushed to the disk first.

    A folder already at `final` is renamed to `displaced`, for the caller to remove once the new one
    is in place, or to put back if the process dies between the two renames.
    """
    with storage_errors(final):
        sync_tree(staged)
        if displaced is not None and final.exists():
            with durable_step(DurableStep.FOLDER_DISPLACE):
                os.rename(final, displaced)
        with durable_step(DurableStep.FOLDER_RENAME):
            os.rename(staged, final)
            sync_folder(final.parent)


def sync_tree(folder: Path) -> None:
    """Flush every file and folder under `folder`, and the folder itself, to the disk."""
    for parent, _, names in os.walk(folder):
        for name in names:
            _sync(Path(parent, name), os.O_RDONLY)
        sync_folder(Path(parent))


def sync_folder(folder: Path) -> None:
    """Flush a folder's list of names to the disk, so that a rename in it lasts."""
    _sync(folder, os.O_RDONLY | os.O_DIRECTORY)


def _sync(path: Path, flags: int) -> None:
    handle = os.open(path, flags)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def storage_errors(path: Path) -> Iterator[None]:
    """Turn a full disk or a refused permission inside the block into a sentence about `path`.

    Errors that are neither pass through unchanged. What the block left half written must still be
    there when the block ends, because a disk without a free block is evidence too.
    """
    try:
        yield
    except PracticumError:
        raise
    except Exception as error:
        sentence = _explain(error, path)
        if sentence is None:
            raise
        raise UserError(sentence) from error


def _explain(error: Exception, path: Path) -> str | None:
    number = error.errno if isinstance(error, OSError) else None
    if number in DENIED:
        return (
            f"{path} could not be written: {os.strerror(number or 0)}; what was saved before is "
            "intact; give yourself write permission there, or choose another folder with "
            "runs_dir=DIR"
        )
    if number in FULL or _is_full(error, path):
        return (
            f"{path} could not be written: the disk is full; what was saved before is intact; "
            "free some space there and go on with --resume, or choose another disk with "
            "runs_dir=DIR"
        )
    return None


def _is_full(error: Exception, path: Path) -> bool:
    """Whether a library's own error stands for a full disk.

    Tensor libraries report it as an exception of their own: some quote the system's words, others
    only say that a write came up short, and then the file system without a free block tells.
    """
    if os.strerror(errno.ENOSPC) in str(error):
        return True
    existing = next((p for p in (path, *path.parents) if p.exists()), None)
    return existing is not None and shutil.disk_usage(existing).free == 0
