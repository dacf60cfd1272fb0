"""An SQLite file of traces: opening it, transactions, and its failures as sentences."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from practicum.core.errors import UserError
from practicum.store.failpoints import DurableStep, durable_step
from practicum.store.migrations import SHOWN_TO_OLD_FILES, check_version, migrate

__all__ = ["TraceDatabase"]

WAIT_S = 30.0
"""How long to wait for another process's transaction."""


class TraceDatabase:
    """The open file, in WAL mode: readers and one writer do not block each other.

    What is committed survives `kill -9` and a power cut. One object belongs to one thread.
    """

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self.path = path
        if read_only and not path.is_file():
            raise UserError(f"{path} does not exist: no episodes have been stored there")
        with _sentences(path):
            mode = "rw" if read_only else "rwc"
            self._db = sqlite3.connect(
                f"{path.absolute().as_uri()}?mode={mode}",
                uri=True,
                timeout=WAIT_S,
                isolation_level=None,
            )
            try:
                self._prepare(read_only)
            except BaseException:
                self._db.close()
                raise

    def close(self) -> None:
        """Let go of the file."""
        self._db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _prepare(self, read_only: bool) -> None:
        if read_only:
            for statement in SHOWN_TO_OLD_FILES.get(self._version(), ()):
                self._db.execute(statement)
            self._db.execute("PRAGMA query_only = ON")
            return
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = FULL")
        with self._transaction():
            migrate(self._db, self.path)

    def _version(self) -> int:
        try:
            return check_version(self._db, self.path)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_ERROR:  # anything but a missing table
                raise
            raise UserError(
                f"{self.path} has no tables of traces: nothing has been stored there yet, or it is "
                "another program's database"
            ) from None

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with _sentences(self.path):
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
                with durable_step(DurableStep.TRACES_COMMIT):
                    self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise

    def _query(self, sql: str, values: tuple[object, ...] = ()) -> list[tuple[Any, ...]]:
        with _sentences(self.path):
            return self._db.execute(sql, values).fetchall()


@contextmanager
def _sentences(path: Path) -> Iterator[None]:
    """Turn the ways a database file can fail its user into sentences."""
    try:
        yield
    except sqlite3.Error as error:
        # The low byte is the kind of error; the rest is detail.
        kind = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if kind not in _PROBLEMS:
            raise
        raise UserError(f"{path} {_PROBLEMS[kind]} ({error})") from error


_PROBLEMS = {
    sqlite3.SQLITE_FULL: "could not be written: the disk is full; what was saved before is "
    "intact; free some space there and go on with --resume",
    sqlite3.SQLITE_IOERR: "could not be read or written; what was saved before is intact; look "
    "for a full or failing disk and go on with --resume",
    sqlite3.SQLITE_READONLY: "may not be written; give yourself write permission there, or choose "
    "another folder with runs_dir=DIR",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened; check that its folder exists and that you may "
    "write there",
    sqlite3.SQLITE_BUSY: "is locked by another process; wait for it or stop it, then try again",
    sqlite3.SQLITE_CORRUPT: "is damaged; move it away to go on without the old episodes",
    sqlite3.SQLITE_NOTADB: "is not a trace database; move it away to go on without it",
}
