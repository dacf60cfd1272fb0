"""`traces.sqlite`: every episode of a run, whole, with the columns to find it by."""

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import astuple, fields
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from practicum.core.errors import UserError
from practicum.core.sample import Episode
from practicum.core.task import Task
from practicum.store.episode_codec import decode_episode, decode_task, encode_episode, encode_task
from practicum.store.failpoints import DurableStep, durable_step
from practicum.store.migrations import check_version, migrate
from practicum.store.summaries import EpisodeSummary, summarise

__all__ = ["SqliteTraceStore"]

COLUMNS = tuple(field.name for field in fields(EpisodeSummary))
INSERT = (
    f"INSERT INTO episodes ({', '.join(COLUMNS)}, body) "
    f"VALUES ({', '.join('?' for _ in COLUMNS)}, ?)"
)
WAIT_S = 30.0
"""How long to wait for another process's transaction."""


class SqliteTraceStore:
    """Episodes in an SQLite file in WAL mode: readers and one writer do not block each other.

    A committed episode survives `kill -9` and a power cut. One object belongs to one thread.

    Example:
        ```
        with SqliteTraceStore(run.traces_path) as store:
            store.begin_attempt(attempt=1, from_step=0)
            store.add_many(episodes, attempt=1, step=1, purpose="train", tasks=tasks)
        ```
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

    def begin_attempt(self, attempt: int, from_step: int) -> None:
        """From now on, what earlier attempts recorded after `from_step` no longer counts."""
        with self._transaction():
            self._db.execute("INSERT OR REPLACE INTO attempts VALUES (?, ?)", (attempt, from_step))

    def add(
        self, episode: Episode, *, attempt: int, step: int, purpose: str, task: Task | None = None
    ) -> None:
        """Keep one episode, and its task if given."""
        tasks = () if task is None else (task,)
        self.add_many([episode], attempt=attempt, step=step, purpose=purpose, tasks=tasks)

    def add_many(
        self,
        episodes: Iterable[Episode],
        *,
        attempt: int,
        step: int,
        purpose: str,
        tasks: Iterable[Task] = (),
    ) -> None:
        """Keep all of them and the tasks they are about, or, if anything fails, none."""
        known = {(task.env, task.id): task for task in tasks}
        rows = []
        for episode in episodes:
            task = known.get((episode.trace.env, episode.trace.task_id))
            row = summarise(episode, attempt=attempt, step=step, purpose=purpose, task=task)
            rows.append((*astuple(row), encode_episode(episode)))
        task_rows = [(*key, encode_task(task).decode()) for key, task in known.items()]
        with self._transaction():
            self._db.executemany("INSERT OR REPLACE INTO tasks VALUES (?, ?, ?)", task_rows)
            self._db.executemany(INSERT, rows)

    def episodes(
        self, *, step: int | None = None, purpose: str | None = None, limit: int | None = None
    ) -> Iterator[Episode]:
        """Episodes that count, oldest first; with a limit only the newest so many."""
        # One short query each, so that a slow reader never holds back the writer's clean-up.
        for (row,) in self._select("row", step, purpose, limit):
            found = self._query("SELECT body FROM episodes WHERE row = ?", (row,))
            yield decode_episode(found[0][0])

    def summaries(
        self, *, step: int | None = None, purpose: str | None = None, limit: int | None = None
    ) -> list[EpisodeSummary]:
        """The same episodes in a row each, without reading the whole of them."""
        rows = self._select(", ".join(COLUMNS), step, purpose, limit)
        return [_to_summary(row) for row in rows]

    def get(self, episode_id: str) -> Episode | None:
        """The episode of that id that counts, the newest if several do."""
        found = self._query(
            "SELECT body FROM current_episodes WHERE id = ? ORDER BY row DESC LIMIT 1",
            (episode_id,),
        )
        return decode_episode(found[0][0]) if found else None

    def task(self, env: str, task_id: str) -> Task | None:
        """A task that was given with an episode."""
        found = self._query("SELECT body FROM tasks WHERE env = ? AND id = ?", (env, task_id))
        return decode_task(found[0][0].encode()) if found else None

    def count(self) -> int:
        """How many episodes count."""
        return int(self._query("SELECT COUNT(*) FROM current_episodes", ())[0][0])

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
            self._db.execute("PRAGMA query_only = ON")
            check_version(self._db, self.path)
            return
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = FULL")
        with self._transaction():
            migrate(self._db, self.path)

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

    def _select(
        self, columns: str, step: int | None, purpose: str | None, limit: int | None
    ) -> list[tuple[Any, ...]]:
        rows = self._query(
            f"SELECT {columns} FROM current_episodes "
            "WHERE (?1 IS NULL OR step = ?1) AND (?2 IS NULL OR purpose = ?2) "
            "ORDER BY row DESC LIMIT ?3",
            (step, purpose, -1 if limit is None else max(0, limit)),
        )
        return rows[::-1]

    def _query(self, sql: str, values: tuple[object, ...]) -> list[tuple[Any, ...]]:
        with _sentences(self.path):
            return self._db.execute(sql, values).fetchall()


def _to_summary(row: tuple[Any, ...]) -> EpisodeSummary:
    values = dict(zip(COLUMNS, row, strict=True))
    success = values["success"]
    values["success"] = None if success is None else bool(success)
    return EpisodeSummary(**values)


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
