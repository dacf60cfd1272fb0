"""Append-only JSON lines: `metrics.jsonl` and `events.jsonl`; and which rows count after a resume.

An attempt (one start of a run) that resumes at step s repeats every step after s; what earlier
attempts recorded about those steps is then ignored. Two attempts can also record the same about
step s itself (an evaluation just before a kill and again after it): the newer one counts.

    attempt 1: step 1, 2, 3, 4, killed      attempt 2 resumes at 2: step 3, 4, 5
    what counts: 1 and 2 of attempt 1; 3, 4 and 5 of attempt 2

A row is one line, written by one `write` call. A process killed meanwhile leaves at most an
incomplete last line, which readers skip and the next writer truncates. The last value of a line,
`crc`, is a checksum of all before it: a line whose bits have changed is named and left out. Lines
of older versions have none, and are believed.
"""

import json
import math
import os
import sys
import time
import zlib
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Self, TypeVar

from practicum.core.errors import FolderMoved
from practicum.core.task import JSON
from practicum.store.durable import DurableStep, durable_step, storage_errors, sync_folder

T = TypeVar("T")

ATTEMPT = "attempt"
"""Kind of the first row of every attempt; its `from_step` is where the attempt resumed."""


class EventLog:
    """Writes one attempt's rows.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp(), "metrics.jsonl")
        >>> with EventLog(path, attempt=1, from_step=0) as log:
        ...     log.append("step", step=1, values={"loss": 0.5})
        >>> [(row.kind, row.step, row.values["loss"]) for row in read_metrics(path).rows]
        [('step', 1, 0.5)]
    """

    def __init__(self, path: Path, *, attempt: int, from_step: int) -> None:
        self.path = path
        self.attempt = attempt
        with storage_errors(path):
            self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
            self._folder = _open_folder(path.parent)
            self._cut_torn_line()
            sync_folder(path.parent)
        self.append(ATTEMPT, step=from_step, values={"from_step": from_step})
        self.sync()

    def append(self, kind: str, *, step: int, values: Mapping[str, JSON]) -> None:
        """Add one row; numbers that are not finite are written as null."""
        stamp: dict[str, JSON] = {
            "kind": kind,
            "attempt": self.attempt,
            "step": step,
            "time": time.time(),
        }
        if clash := stamp.keys() & values.keys():
            raise ValueError(f"values may not be named {sorted(clash)}: every row has these")
        line = _with_checksum(json.dumps(_finite({**stamp, **values}), allow_nan=False)) + b"\n"
        with durable_step(DurableStep.METRICS_APPEND), storage_errors(self.path):
            self._write(line)

    def sync(self) -> None:
        """fsync; called before a checkpoint, so that it never knows more than the log."""
        with storage_errors(self.path):
            os.fsync(self._handle)

    def check_place(self) -> None:
        """Raise `FolderMoved` unless its folder is where it was opened.

        What is written through the open file follows a folder that is renamed; what is written by
        a path does not, and would begin another folder.
        """
        if self._folder is None:
            return
        held, place = os.fstat(self._folder), self.path.parent
        with suppress(OSError):
            if os.path.samestat(held, os.stat(place)):
                return
        raise FolderMoved(place, _path_of(self._folder) if held.st_nlink else None)

    def close(self) -> None:
        """Close the file."""
        os.close(self._handle)
        if self._folder is not None:
            os.close(self._folder)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def _write(self, line: bytes) -> None:
        end = os.fstat(self._handle).st_size
        written = 0
        try:
            # A full disk gives a short write before its error, hence the loop.
            while written < len(line):
                written += os.write(self._handle, line[written:])
        except OSError:
            os.ftruncate(self._handle, end)
            raise

    def _cut_torn_line(self) -> None:
        size = os.fstat(self._handle).st_size
        content = os.pread(self._handle, size, 0)
        complete = content.rfind(b"\n") + 1
        if complete < size:
            os.ftruncate(self._handle, complete)


def _open_folder(folder: Path) -> int | None:
    """A handle that stays with the folder; None on Windows, where open files hold it in place."""
    return None if sys.platform == "win32" else os.open(folder, os.O_RDONLY | os.O_DIRECTORY)


def _path_of(handle: int) -> Path | None:
    """Where an open folder is now, where the system tells."""
    try:
        return Path(os.readlink(f"/proc/self/fd/{handle}"))
    except OSError:
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRow:
    """One line."""

    kind: str
    attempt: int
    step: int
    """Steps completed when it was recorded."""
    time: float
    """Seconds since the epoch."""
    values: Mapping[str, JSON]


class DamagedLine(NamedTuple):
    """An unreadable line, other than an incomplete last one."""

    number: int
    reason: str


class Rows(NamedTuple):
    """The rows of a file, and its damaged lines."""

    rows: list[EventRow]
    damaged: list[DamagedLine]


def read_rows(path: Path) -> Rows:
    """All rows of all attempts, in the order written; none if there is no file."""
    rows: list[EventRow] = []
    damaged: list[DamagedLine] = []
    if not path.exists():
        return Rows(rows, damaged)
    complete, _, torn = path.read_bytes().rpartition(b"\n")
    lines = complete.split(b"\n") if complete else []
    if _is_whole_but_for_its_end(torn):
        lines.append(torn)
    for number, line in enumerate(lines, start=1):
        try:
            rows.append(_parse(line))
        except (ValueError, KeyError, TypeError) as error:
            damaged.append(DamagedLine(number, f"{type(error).__name__}: {error}"))
    return Rows(rows, damaged)


def _is_whole_but_for_its_end(torn: bytes) -> bool:
    """Whether a last line without its newline is no line cut off, but one whose newline changed."""
    try:
        return len(torn) > len(ENDING) and _without_checksum(torn[:-1]) != torn[:-1]
    except ValueError:
        return False


def read_metrics(path: Path) -> Rows:
    """The rows that count: a repeated step is counted once (see the module docstring)."""
    rows, damaged = read_rows(path)
    starts = {row.attempt: row.step for row in rows if row.kind == ATTEMPT}
    recorded = [row for row in rows if row.kind != ATTEMPT]
    current = current_rows(
        recorded, stamp=lambda row: Stamp(row.attempt, row.step, row.kind), starts=starts
    )
    return Rows(current, damaged)


class Stamp(NamedTuple):
    """The attempt and step of a row, and its kind."""

    attempt: int
    step: int
    kind: str


def current_rows(
    rows: Iterable[T], *, stamp: Callable[[T], Stamp], starts: Mapping[int, int]
) -> list[T]:
    """The rows that count, in order (the rule is in the module docstring).

    Args:
        rows: The rows of all attempts.
        stamp: Gives a row's attempt, step and kind.
        starts: The step each attempt resumed at.
    """
    stamped = [(stamp(row), row) for row in rows]
    live = [(at, row) for at, row in stamped if not _is_rolled_back(at, starts)]
    newest: dict[tuple[str, int], int] = {}
    for at, _ in live:
        newest[at.kind, at.step] = max(at.attempt, newest.get((at.kind, at.step), at.attempt))
    return [row for at, row in live if at.attempt == newest[at.kind, at.step]]


def _is_rolled_back(at: Stamp, starts: Mapping[int, int]) -> bool:
    return any(later > at.attempt and at.step > start for later, start in starts.items())


ENDING = b', "crc": "00000000"}'
DIGITS = slice(10, 18)


def _with_checksum(line: str) -> bytes:
    """A JSON object with its checksum as the last value."""
    raw = line.encode()[:-1]
    return raw + ENDING.replace(b"00000000", b"%08x" % zlib.crc32(raw))


def _without_checksum(line: bytes) -> bytes:
    """The line as it was before `_with_checksum`; `ValueError` where it has changed since."""
    ending = line[-len(ENDING) :]
    form = ending[: DIGITS.start] + ENDING[DIGITS] + ending[DIGITS.stop :]
    alike = sum(one == other for one, other in zip(form, ENDING, strict=False))
    if len(line) <= len(ENDING) or alike < len(ENDING) - 2:
        return line  # of an older version: an ending that was damaged is still much like it
    raw = line[: -len(ENDING)]
    if ending != ENDING.replace(b"00000000", b"%08x" % zlib.crc32(raw)):
        raise ValueError("its checksum is wrong: the file was damaged")
    return raw + b"}"


def _parse(line: bytes) -> EventRow:
    values = json.loads(_without_checksum(line))
    if not isinstance(values, dict):
        raise TypeError("not a JSON object")
    return EventRow(
        kind=str(values.pop("kind")),
        attempt=int(values.pop("attempt")),
        step=int(values.pop("step")),
        time=float(values.pop("time")),
        values=values,
    )


def _finite(value: JSON) -> JSON:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return value
