"""Append-only rows of JSON: `metrics.jsonl` and `events.jsonl`.

A row is one line, written by one system call, and complete when its newline is there. A process
killed while it writes leaves at most a torn last line, which readers skip and the next writer cuts
off.
"""

import json
import math
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from practicum.core.task import JSON
from practicum.store.attempts import Stamp, current_rows
from practicum.store.durable import storage_errors, sync_folder
from practicum.store.failpoints import DurableStep, durable_step

__all__ = ["DamagedLine", "EventLog", "EventRow", "Rows", "read_metrics", "read_rows"]

ATTEMPT = "attempt"
"""Kind of the row every attempt begins with; its `from_step` is where the attempt resumed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRow:
    """One line: what (`kind`), when, and the values recorded."""

    kind: str
    attempt: int
    step: int
    """Steps completed when it was recorded."""
    time: float
    """Seconds since the epoch."""
    values: Mapping[str, JSON]


class DamagedLine(NamedTuple):
    """A line, other than a torn last one, that cannot be read."""

    number: int
    reason: str


class Rows(NamedTuple):
    """What a file holds, and the lines of it that cannot be read."""

    rows: list[EventRow]
    damaged: list[DamagedLine]


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
            self._cut_torn_line()
            sync_folder(path.parent)
        self.append(ATTEMPT, step=from_step, values={"from_step": from_step})
        self.sync()

    def append(self, kind: str, *, step: int, values: Mapping[str, JSON]) -> None:
        """Add one row.

        Numbers that are not finite are written as null, since JSON has no word for them.
        """
        stamp: dict[str, JSON] = {
            "kind": kind,
            "attempt": self.attempt,
            "step": step,
            "time": time.time(),
        }
        if clash := stamp.keys() & values.keys():
            raise ValueError(f"values may not be named {sorted(clash)}: every row has these")
        line = json.dumps(_finite({**stamp, **values}), allow_nan=False).encode() + b"\n"
        with durable_step(DurableStep.METRICS_APPEND), storage_errors(self.path):
            self._write(line)

    def sync(self) -> None:
        """Flush the rows to the disk; called before a checkpoint that counts on them."""
        with storage_errors(self.path):
            os.fsync(self._handle)

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._handle)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _write(self, line: bytes) -> None:
        end = os.fstat(self._handle).st_size
        written = 0
        try:
            # A second call only after a short write, which a full disk gives before its error.
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


def read_rows(path: Path) -> Rows:
    """Every row of every attempt, in the order written; no file, no rows."""
    rows: list[EventRow] = []
    damaged: list[DamagedLine] = []
    if not path.exists():
        return Rows(rows, damaged)
    complete, _, _torn = path.read_bytes().rpartition(b"\n")
    for number, line in enumerate(complete.split(b"\n") if complete else (), start=1):
        try:
            rows.append(_parse(line))
        except (ValueError, KeyError, TypeError) as error:
            damaged.append(DamagedLine(number, f"{type(error).__name__}: {error}"))
    return Rows(rows, damaged)


def read_metrics(path: Path) -> Rows:
    """The rows that count: a step done twice is counted once (the rule is in `attempts`)."""
    rows, damaged = read_rows(path)
    starts = {row.attempt: row.step for row in rows if row.kind == ATTEMPT}
    recorded = [row for row in rows if row.kind != ATTEMPT]
    current = current_rows(
        recorded, stamp=lambda row: Stamp(row.attempt, row.step, row.kind), starts=starts
    )
    return Rows(current, damaged)


def _parse(line: bytes) -> EventRow:
    values = json.loads(line)
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
