"""Places where a test can kill the process, one before and one after every durable step.

`PRACTICUM_FAILPOINT=checkpoint.publish.before` makes the process kill itself, as `kill -9` would,
the first time it gets there; `checkpoint.publish.before:3` the third time.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum

from practicum.core.errors import UserError

__all__ = ["FAILPOINTS", "VARIABLE", "DurableStep", "arm", "durable_step", "failpoint"]

VARIABLE = "PRACTICUM_FAILPOINT"


class DurableStep(StrEnum):
    """Every step that changes what a later process finds on disk."""

    FILE_STAGE = "file.stage"
    """A file's new content is written beside it."""
    FILE_RENAME = "file.rename"
    """The new content takes the file's name."""
    FOLDER_DISPLACE = "folder.displace"
    """A folder about to be replaced is renamed out of the way."""
    FOLDER_RENAME = "folder.rename"
    """A finished folder takes its name."""
    CHECKPOINT_FOLDER = "checkpoint.folder"
    """The folder a checkpoint is written in is made."""
    CHECKPOINT_FILES = "checkpoint.files"
    """The learner and the loop write their files."""
    CHECKPOINT_MANIFEST = "checkpoint.manifest"
    """The manifest is added."""
    CHECKPOINT_PUBLISH = "checkpoint.publish"
    """The folder becomes `step_N`."""
    CHECKPOINT_LATEST = "checkpoint.latest"
    """The `latest` pointer is moved."""
    CHECKPOINT_BEST = "checkpoint.best"
    """The `best` pointer is moved."""
    CHECKPOINT_PRUNE = "checkpoint.prune"
    """Checkpoints that are no longer kept are removed."""
    RUN_CREATE = "run.create"
    """A run folder appears, with its config and facts in it."""
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
    """The one failpoint this process is to die at, and how many hits are left."""

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
    """Set, from inside, what the environment variable set when the process began."""
    global _setting, _armed
    _setting, _armed = setting, None


def failpoint(name: str) -> None:
    """Die here if this process was told to; otherwise do nothing.

    A name that does not exist is refused at the first failpoint reached, because a test that waits
    for it would pass without ever having killed anything.
    """
    global _armed
    if not _setting:
        return
    if _armed is None:
        _armed = _Armed(_setting)
    _armed.hit(name)


@contextmanager
def durable_step(step: DurableStep) -> Iterator[None]:
    """Put the step's two failpoints around a block.

    >>> with durable_step(DurableStep.CHECKPOINT_MANIFEST):
    ...     pass  # checkpoint.manifest.before and checkpoint.manifest.after are around this
    """
    failpoint(f"{step}.before")
    yield
    failpoint(f"{step}.after")
