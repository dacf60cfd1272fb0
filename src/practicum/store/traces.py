"""`traces.sqlite`: every episode of a run, whole, with the columns to find it by.

A store of its own, of traces from elsewhere, is such a file too.
"""

from collections.abc import Iterable, Iterator
from dataclasses import astuple
from typing import Any

from practicum.core.sample import Episode
from practicum.core.task import Task
from practicum.store.episode_codec import decode_episode, decode_task, encode_episode, encode_task
from practicum.store.imports import ImportTable
from practicum.store.search import COLUMNS, TraceSearch, to_summary
from practicum.store.summaries import EpisodeSummary, summarise

__all__ = ["SqliteTraceStore"]

INSERT = f"INSERT INTO episodes ({', '.join(COLUMNS)}) VALUES ({', '.join('?' for _ in COLUMNS)})"


class SqliteTraceStore(TraceSearch, ImportTable):
    """Episodes in an SQLite file in WAL mode: readers and one writer do not block each other.

    A committed episode survives `kill -9` and a power cut. One object belongs to one thread.

    Example:
        ```
        with SqliteTraceStore(run.traces_path) as store:
            store.begin_attempt(attempt=1, from_step=0)
            store.add_many(episodes, attempt=1, step=1, purpose="train", tasks=tasks)
            good = list(store.query("success and score > 0.5"))
        ```
    """

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
            rows.append((astuple(row), encode_episode(episode)))
        task_rows = [(*key, encode_task(task).decode()) for key, task in known.items()]
        with self._transaction():
            self._db.executemany("INSERT OR REPLACE INTO tasks VALUES (?, ?, ?)", task_rows)
            for columns, body in rows:
                row_id = self._db.execute(INSERT, columns).lastrowid
                self._db.execute("INSERT INTO bodies VALUES (?, ?)", (row_id, body))

    def episodes(
        self, *, step: int | None = None, purpose: str | None = None, limit: int | None = None
    ) -> Iterator[Episode]:
        """Episodes that count, oldest first; with a limit only the newest so many."""
        # One short query each, so that a slow reader never holds back the writer's clean-up.
        for (row,) in self._select("row", step, purpose, limit):
            found = self._query("SELECT body FROM bodies WHERE row = ?", (row,))
            yield decode_episode(found[0][0])

    def summaries(
        self, *, step: int | None = None, purpose: str | None = None, limit: int | None = None
    ) -> list[EpisodeSummary]:
        """The same episodes in a row each, without reading the whole of them."""
        rows = self._select(", ".join(COLUMNS), step, purpose, limit)
        return [to_summary(row) for row in rows]

    def get(self, episode_id: str) -> Episode | None:
        """The episode of that id that counts, the newest if several do."""
        found = self._query(
            "SELECT body FROM bodies WHERE row = "
            "(SELECT MAX(row) FROM current_episodes WHERE id = ?)",
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
