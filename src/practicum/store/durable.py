"""Atomic, durable writes of files and folders, and failpoints to test them with.

New content is written to a temporary name beside its place, flushed with fsync and renamed, so a
reader sees the old or the new content and never a part. Storage errors become one sentence.

`PRACTICUM_FAILPOINT=checkpoint.publish.before` makes the process kill itself with SIGKILL at that
point; `checkpoint.publish.before:3` the third time it gets there.
"""

import errno
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import StrEnum
from pathlib import Path

from practicum.core.errors import PracticumError, UserError

VARIABLE = "PRACTICUM_FAILPOINT"

FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
DENIED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


def write_file(path: Path, content: bytes) -> None:
    """Replace a file's content atomically and durably.

    Example:
        `write_file(run / "run.json", b"{}")`
    """
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        with storage_errors(path):
            with durable_step(DurableStep.FILE_STAGE), open(temporary, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            with durable_step(DurableStep.FILE_RENAME):
                os.replace(temporary, path)
                sync_folder(path.parent)
    except BaseException:
        with suppress(OSError):  # a broken disk may refuse this as well
            temporary.unlink()
        raise


def publish_folder(temporary: Path, final: Path, *, displaced: Path | None = None) -> None:
    """Flush a complete folder to disk and rename it to its final name.

    POSIX cannot replace a folder that is not empty, so an existing one is renamed to `displaced`
    first; the caller removes it, or renames it back after a crash between the two renames.
    """
    with storage_errors(final):
        sync_tree(temporary)
        if displaced is not None and final.exists():
            with durable_step(DurableStep.FOLDER_DISPLACE):
                os.rename(final, displaced)
        with durable_step(DurableStep.FOLDER_RENAME):
            os.rename(temporary, final)
            sync_folder(final.parent)


def sync_tree(folder: Path) -> None:
    """Fsync every file and folder under `folder`, and the folder itself."""
    for parent, _, names in os.walk(folder):
        for name in names:
            _sync(Path(parent, name), os.O_RDONLY)
        sync_folder(Path(parent))


def sync_folder(folder: Path) -> None:
    """Fsync a folder, so that a rename in it survives a power cut; Windows opens no folders."""
    if sys.platform == "win32":
        return
    _sync(folder, os.O_RDONLY | os.O_DIRECTORY)


def _sync(path: Path, flags: int) -> None:
    handle = os.open(path, flags)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def storage_errors(path: Path) -> Iterator[None]:
    """Turn a full disk or a denied permission inside the block into a `UserError` about `path`.

    Other errors pass through unchanged. Clean up outside the block: whether the disk is full is
    also judged by its free space at the end of it.
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
            "free some space there, or choose another disk with runs_dir=DIR; a run that was saved "
            "goes on with: practicum train --resume RUN"
        )
    return None


def _is_full(error: Exception, path: Path) -> bool:
    """Whether a library's own exception means a full disk.

    Some tensor libraries quote the system's message, others only report a short write; then a
    file system without free space tells.
    """
    if os.strerror(errno.ENOSPC) in str(error):
        return True
    existing = next((p for p in (path, *path.parents) if p.exists()), None)
    if existing is None:
        return False
    usage = shutil.disk_usage(existing)
    return usage.total > 0 and usage.free == 0  # /proc and its like have no size at all


class DurableStep(StrEnum):
    """Every operation that changes what a later process finds on disk."""

    FILE_STAGE = "file.stage"
    """A file's new content is written to a temporary file."""
    FILE_RENAME = "file.rename"
    """The temporary file is renamed."""
    FOLDER_DISPLACE = "folder.displace"
    """A folder that is being replaced is renamed."""
    FOLDER_RENAME = "folder.rename"
    """A complete folder is renamed to its final name."""
    CHECKPOINT_FOLDER = "checkpoint.folder"
    """A checkpoint's temporary folder is created."""
    CHECKPOINT_FILES = "checkpoint.files"
    """The learner and the loop write their files."""
    CHECKPOINT_MANIFEST = "checkpoint.manifest"
    """The manifest is written."""
    CHECKPOINT_PUBLISH = "checkpoint.publish"
    """The folder becomes `step_N`."""
    CHECKPOINT_LATEST = "checkpoint.latest"
    """The `latest` pointer is moved."""
    CHECKPOINT_BEST = "checkpoint.best"
    """The `best` pointer is moved."""
    CHECKPOINT_PRUNE = "checkpoint.prune"
    """Old checkpoints are removed."""
    RUN_CREATE = "run.create"
    """A run folder is created, with its config and facts."""
    RUN_ATTEMPT = "run.attempt"
    """The start of an attempt is recorded."""
    METRICS_APPEND = "metrics.append"
    """A row is added to `metrics.jsonl` or `events.jsonl`."""
    TRACES_COMMIT = "traces.commit"
    """Episodes are committed to `traces.sqlite`."""


FAILPOINTS: tuple[str, ...] = tuple(
    f"{step}.{side}" for step in DurableStep for side in ("before", "after")
)
"""Every name `PRACTICUM_FAILPOINT` takes."""


class _Armed:
    """The failpoint at which this process kills itself, and after how many hits."""

    def __init__(self, setting: str) -> None:
        self.name, _, nth = setting.partition(":")
        if self.name not in FAILPOINTS or (nth and not (nth.isdecimal() and int(nth) > 0)):
            raise UserError(
                f"{VARIABLE}={setting!r} is not a failpoint; write a name, or a name and which "
                f"time (name:2), of: {', '.join(FAILPOINTS)}"
            )
        self.hits_left = int(nth or 1)

    def hit(self, name: str) -> None:
        if name == self.name:
            self.hits_left -= 1
            if self.hits_left == 0:
                os.kill(os.getpid(), signal.SIGKILL)


_setting = os.environ.get(VARIABLE, "")
_armed: _Armed | None = None


def arm(setting: str) -> None:
    """Set the failpoint from inside the process, like the environment variable."""
    global _setting, _armed
    _setting, _armed = setting, None


def failpoint(name: str) -> None:
    """Kill the process if this failpoint is set.

    An unknown name raises at the first failpoint reached: a crash test with a typo must not pass.
    """
    global _armed
    if not _setting:
        return
    if _armed is None:
        _armed = _Armed(_setting)
    _armed.hit(name)


@contextmanager
def durable_step(step: DurableStep) -> Iterator[None]:
    """The step's failpoints before and after a block.

    >>> with durable_step(DurableStep.CHECKPOINT_MANIFEST):
    ...     pass  # checkpoint.manifest.before and checkpoint.manifest.after are around this
    """
    failpoint(f"{step}.before")
    yield
    failpoint(f"{step}.after")
