"""`SqliteTraceStore`: episodes with searchable columns, their tasks and labels, and imports.

`traces.sqlite` of a run is such a file, and so is a store of imported traces.

Queries scan a table of short rows; the encoded episodes are in another table and are read one by
one. Pages continue after the last row (keyset pagination), not at an offset, so that the thousandth
page costs as much as the first.

An imported batch (episodes, tasks, labels, position in the file) is one transaction, so an import
that was killed continues without losing or repeating anything.
"""

import time
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import astuple, dataclass, fields, replace
from typing import Any, Literal, NamedTuple

from practicum.core.errors import UserError
from practicum.core.sample import Episode
from practicum.core.score import Label
from practicum.core.task import Task
from practicum.store.database import TraceDatabase
from practicum.store.episode_codec import (
    decode_episode,
    decode_task,
    encode_episode,
    encode_hashed_episode,
    encode_task,
)
from practicum.store.row_checksums import DamagedRow
from practicum.store.where import FIELDS, parse_where

TaskKey = tuple[str, str]
"""A task's environment and id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeSummary:
    """The searchable columns of an episode."""

    id: str
    attempt: int
    step: int
    purpose: str
    """`train`, `eval`, `import`, `record`, `gateway` or `traffic`."""
    task_id: str
    level: int | None
    """None when the task was not stored with the episode."""
    env: str
    score: float | None
    success: bool | None
    stop: str
    n_turns: int
    sampled_tokens: int
    created_at: float
    """Seconds since the epoch: when it was stored, or began if it was imported."""
    source: str = ""
    """See `Trace.source`."""
    model: str = ""


def summarise(
    episode: Episode, *, attempt: int, step: int, purpose: str, task: Task | None
) -> EpisodeSummary:
    """The columns of an episode that is stored now."""
    trace, outcome = episode.trace, episode.outcome
    began = trace.started_at if trace.source else 0.0
    return EpisodeSummary(
        id=trace.id,
        attempt=attempt,
        step=step,
        purpose=purpose,
        task_id=trace.task_id,
        level=task.level if task else None,
        env=trace.env,
        score=episode.score.value,
        success=outcome.success if outcome else None,
        stop=trace.stop.value,
        n_turns=len(trace.turns),
        sampled_tokens=trace.sampled_tokens,
        created_at=began or time.time(),
        source=trace.source,
        model=trace.model,
    )


class KeptEpisode(NamedTuple):
    """An episode and its columns."""

    summary: EpisodeSummary
    episode: Episode


class EpisodeAdder(ABC):
    """The `add` methods that all stores share."""

    def add(
        self, episode: Episode, *, attempt: int, step: int, purpose: str, task: Task | None = None
    ) -> None:
        """See `TraceStore`."""
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
        """See `TraceStore`."""
        known = {(task.env, task.id): task for task in tasks}

        def row(episode: Episode) -> EpisodeSummary:
            task = known.get((episode.trace.env, episode.trace.task_id))
            return summarise(episode, attempt=attempt, step=step, purpose=purpose, task=task)

        self._keep((KeptEpisode(row(episode), episode) for episode in episodes), known)

    @abstractmethod
    def _keep(self, episodes: Iterable[KeptEpisode], tasks: Mapping[TaskKey, Task]) -> None:
        """Store episodes with their columns, and tasks, in one transaction."""


INSERT_ONCE = """
INSERT INTO main.labels
    (episode_id, value, author, created_at, note, is_suggestion, confidence, correction)
SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8 WHERE NOT EXISTS (
    SELECT 1 FROM labels WHERE episode_id = ?1 AND is_suggestion = ?6 AND value = ?2
    AND author = ?3 AND created_at = ?4
)
"""


class LabelTable(TraceDatabase):
    """Labels of the episodes of a store, by people and by the labeler."""

    def add_label(self, label: Label) -> None:
        """Store one label; earlier ones of the same episode stay but no longer count."""
        self.add_labels([label])

    def add_labels(self, labels: Iterable[Label]) -> None:
        """Store all in one transaction, without those already stored."""
        given = list(labels)
        with self._transaction():
            for label in given:
                if not self._knows(label.episode_id):
                    raise UserError(
                        f"{self.path} has no episode {label.episode_id!r} to label; "
                        "practicum traces list shows those it has"
                    )
            self._write_labels(given)

    def labels(
        self, episode_id: str | None = None, *, suggestions: bool | None = None
    ) -> Iterator[Label]:
        """Labels, oldest first.

        Args:
            episode_id: Only of this episode.
            suggestions: True for the labeler's only, False for people's only.
        """
        after = 0
        while True:
            rows = self._query(
                "SELECT row, episode_id, value, author, created_at, note, is_suggestion, "
                "confidence, correction FROM labels "
                "WHERE row > ?1 AND (?2 IS NULL OR episode_id = ?2) "
                "AND (?3 IS NULL OR is_suggestion = ?3) ORDER BY row LIMIT 1000",
                (after, episode_id, suggestions),
            )
            for row, name, value, author, at, note, suggested, confidence, correction in rows:
                after = row
                yield Label(
                    episode_id=name,
                    value=value,
                    author=author,
                    created_at=at,
                    note=note,
                    is_suggestion=bool(suggested),
                    confidence=confidence,
                    correction=correction,
                )
            if not rows:
                return

    def remove_label(self, label: Label) -> None:
        """Delete the newest label that equals this one (undo)."""
        with self._transaction():
            self._db.execute(
                "DELETE FROM main.labels WHERE row = "
                "(SELECT MAX(row) FROM labels WHERE episode_id = ? AND value = ? "
                "AND author = ? AND created_at = ? AND is_suggestion = ?)",
                (
                    label.episode_id,
                    label.value,
                    label.author,
                    label.created_at,
                    label.is_suggestion,
                ),
            )

    def _write_labels(self, labels: Iterable[Label]) -> None:
        """Write labels inside the caller's transaction."""
        rows = (
            (
                label.episode_id,
                label.value,
                label.author,
                label.created_at,
                label.note,
                label.is_suggestion,
                label.confidence,
                label.correction,
            )
            for label in labels
        )
        self._db.executemany(INSERT_ONCE, rows)

    def _knows(self, episode_id: str) -> bool:
        found = self._db.execute("SELECT 1 FROM episodes WHERE id = ? LIMIT 1", (episode_id,))
        return found.fetchone() is not None


COLUMNS = tuple(field.name for field in fields(EpisodeSummary))
PAGE = 500
"""Rows per query. Between queries SQLite can checkpoint its write-ahead log, which an open reader
would prevent."""

COUNTED = tuple(name for name, field in FIELDS.items() if field.kind in ("text", "truth"))


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundEpisode:
    """A search result."""

    row: int
    """Its row id; the next page starts after it."""
    summary: EpisodeSummary
    label: float | None
    """The newest label by a person."""


Order = Literal["newest", "oldest", "best", "worst"]
ORDERS: dict[Order, str] = {
    "newest": "e.row DESC",
    "oldest": "e.row",
    "best": "e.score DESC NULLS LAST, e.row",
    "worst": "e.score NULLS LAST, e.row",
}
"""Orders of `TraceSearch.ranked`, in SQL."""


class EpisodeBodies(TraceDatabase):
    """The encoded episodes."""

    def episode_at(self, row: int) -> Episode | None:
        """The episode of a row; None where there is none, or none that can be decoded."""
        return self._episode(row)

    def raw_bodies(
        self, where: str = "", before: int | None = None, limit: int = 200
    ) -> list[tuple[int, bytes]]:
        """Rows and compressed JSON of episodes that match, the newest first, from before a row."""
        condition = parse_where(where)
        return self._query(
            "SELECT e.row, b.body FROM current_episodes AS e JOIN bodies AS b ON b.row = e.row "
            f"WHERE (? IS NULL OR e.row < ?) AND {condition.sql} ORDER BY e.row DESC LIMIT ?",
            (before, before, *condition.values, limit),
        )

    def _episode(self, row: int) -> Episode | None:
        """The episode of a row; None, and its row is named, where it cannot be decoded any more."""
        found = self._query(
            "SELECT e.id, b.body FROM episodes AS e JOIN bodies AS b ON b.row = e.row "
            "WHERE e.row = ?",
            (row,),
        )
        with suppress(ValueError, zlib.error):
            for name, body in found:
                episode = decode_episode(body)
                if episode.trace.id == name:
                    return episode
        damaged = DamagedRow("bodies", row)
        if damaged not in self.damaged:
            self.damaged.append(damaged)
            self._say_damaged(str(damaged))
        return None


class TraceSearch(EpisodeBodies):
    """Searching, counting and rescoring episodes; see `where` for the conditions."""

    def find(self, where: str = "", limit: int = 50, after: int = 0) -> list[FoundEpisode]:
        """One page of the episodes that match, oldest first, from after row `after`."""
        label = FIELDS["label"].sql
        rows = self._page(
            f"e.row, {', '.join('e.' + c for c in COLUMNS)}, {label}", where, after, limit
        )
        return [
            FoundEpisode(row=row[0], summary=to_summary(row[1:-1]), label=row[-1]) for row in rows
        ]

    def ranked(
        self, where: str = "", order: Order = "newest", limit: int = 50, skip: int = 0
    ) -> list[FoundEpisode]:
        """One page of the episodes that match in an order, after so many of them."""
        condition, label = parse_where(where), FIELDS["label"].sql
        rows = self._query(
            f"SELECT e.row, {', '.join('e.' + c for c in COLUMNS)}, {label} "
            f"FROM current_episodes AS e WHERE {condition.sql} "
            f"ORDER BY {ORDERS[order]} LIMIT ? OFFSET ?",
            (*condition.values, max(0, limit), max(0, skip)),
        )
        return [
            FoundEpisode(row=row[0], summary=to_summary(row[1:-1]), label=row[-1]) for row in rows
        ]

    def query(self, where: str = "", limit: int | None = None, after: int = 0) -> Iterator[Episode]:
        """The episodes that match, oldest first, decoded one at a time.

        Example:
            `store.query("success and source = art")`
        """
        for _, episode in self.query_rows(where, limit, after):
            yield episode

    def query_rows(
        self, where: str = "", limit: int | None = None, after: int = 0
    ) -> Iterator[tuple[int, Episode]]:
        """The same with their row ids, for `rescore` and for continuing later."""
        parse_where(where)  # raise now, not when the generator is first advanced
        return self._iterate(where, limit, after)

    def count_where(self, where: str = "") -> int:
        """Number of episodes that match."""
        condition = parse_where(where)
        sql = f"SELECT COUNT(*) FROM current_episodes AS e WHERE {condition.sql}"
        return int(self._query(sql, condition.values)[0][0])

    def counts_by(self, field: str, where: str = "") -> dict[str | bool | None, int]:
        """Number of episodes that match by value of a field, the most frequent first."""
        if field not in COUNTED:
            raise UserError(f"episodes are counted by {', '.join(COUNTED)}, not by {field!r}")
        column, condition = FIELDS[field], parse_where(where)
        rows = self._query(
            f"SELECT {column.sql}, COUNT(*) FROM current_episodes AS e WHERE {condition.sql} "
            f"GROUP BY 1 ORDER BY 2 DESC, 1",
            condition.values,
        )
        if column.kind == "truth":
            return {None if value is None else bool(value): n for value, n in rows}
        return dict(rows)

    def rescore(self, scored: Iterable[tuple[int, Episode]]) -> None:
        """Replace episodes, by row id, with rescored ones in one transaction."""
        rows = [(encode_episode(e), e.score.value, row) for row, e in scored]
        with self._transaction():
            for body, value, row in rows:
                self._db.execute("UPDATE main.bodies SET body = ? WHERE row = ?", (body, row))
                self._db.execute("UPDATE main.episodes SET score = ? WHERE row = ?", (value, row))

    def _iterate(self, where: str, limit: int | None, after: int) -> Iterator[tuple[int, Episode]]:
        left = limit
        while left is None or left > 0:
            page = self._page("e.row", where, after, PAGE if left is None else min(PAGE, left))
            for (row,) in page:
                episode = self._episode(row)
                if episode is not None:
                    yield row, episode
                after = row
            left = None if left is None else left - len(page)
            if len(page) < PAGE:
                return

    def _page(self, columns: str, where: str, after: int, limit: int) -> list[tuple[Any, ...]]:
        condition = parse_where(where)
        return self._query(
            f"SELECT {columns} FROM current_episodes AS e WHERE e.row > ? AND {condition.sql} "
            "ORDER BY e.row LIMIT ?",
            (after, *condition.values, max(0, limit)),
        )


def to_summary(row: tuple[Any, ...]) -> EpisodeSummary:
    """A row of `COLUMNS` as a record."""
    values = dict(zip(COLUMNS, row, strict=True))
    success = values["success"]
    values["success"] = None if success is None else bool(success)
    return EpisodeSummary(**values)


INSERT_EPISODE = (
    f"INSERT INTO main.episodes ({', '.join(COLUMNS)}, content_hash) "
    f"VALUES ({', '.join('?' for _ in COLUMNS)}, ?) "
    "ON CONFLICT (content_hash) WHERE content_hash IS NOT NULL DO NOTHING"
)
IMPORTED_ATTEMPT = 1
IMPORTED_STEP = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportProgress:
    """Progress of the import of one file, which is identified by its content."""

    content: str
    """Hash of the file."""
    format: str
    options: str = ""
    """Options that change what is stored (whether secrets are kept, say); others start anew."""
    file: str = ""
    """Its path when it was last imported."""
    position: int = 0
    """Number of the file's records processed."""
    is_done: bool = False
    kept: int = 0
    """Episodes stored."""
    doubled: int = 0
    """Episodes that were already in the store."""
    refused: int = 0
    """Records that could not be read."""


@dataclass(frozen=True, slots=True)
class Stored:
    """Counts of an imported batch: stored, and already there."""

    kept: int
    doubled: int


class ImportTable(LabelTable):
    """Imported episodes, deduplicated by content, and import progress."""

    def add_imported(
        self,
        episodes: Iterable[Episode],
        *,
        tasks: Iterable[Task] = (),
        labels: Iterable[Label] = (),
        identities: Mapping[str, str] | None = None,
        purpose: str = "import",
        progress: ImportProgress | None = None,
    ) -> Stored:
        """Store the episodes that are new, with their tasks and labels, in one transaction.

        Two episodes are the same when all but their scores is equal.

        Args:
            episodes: The batch.
            tasks: Their tasks; known tasks are not replaced.
            labels: Their labels.
            identities: By episode id, a text that identifies the episode in place of its content.
            purpose: `import`, or `record` for agents in this process.
            progress: The position after this batch, with the counts from before it.
        """
        known = {(task.env, task.id): task for task in tasks}
        rows = []
        for episode in episodes:
            task = known.get((episode.trace.env, episode.trace.task_id))
            row = summarise(
                episode, attempt=IMPORTED_ATTEMPT, step=IMPORTED_STEP, purpose=purpose, task=task
            )
            identity = (identities or {}).get(episode.trace.id, "")
            body, content = encode_hashed_episode(episode, identity)
            rows.append(((*astuple(row), content), body))
        task_rows = [(*key, encode_task(task).decode()) for key, task in known.items()]
        with self._transaction():
            self._db.executemany("INSERT OR IGNORE INTO main.tasks VALUES (?, ?, ?)", task_rows)
            kept = sum(self._insert(columns, body) for columns, body in rows)
            self._write_labels(labels)
            stored = Stored(kept, len(rows) - kept)
            if progress is not None:
                self._write_progress(progress, stored)
        return stored

    def import_progress(self, content: str, format: str, options: str = "") -> ImportProgress:
        """Progress of the import of a file; position 0 if it was never started."""
        columns = ", ".join(PROGRESS)
        rows = self._query(
            f"SELECT {columns} FROM imports WHERE content = ? AND format = ? AND options = ?",
            (content, format, options),
        )
        if not rows:
            return ImportProgress(content=content, format=format, options=options)
        values = dict(zip(PROGRESS, rows[0], strict=True))
        return ImportProgress(**{**values, "is_done": bool(values["is_done"])})

    def content_hash(self, row: int) -> bytes | None:
        """The hash that identifies an imported episode; None for a rollout."""
        found = self._query("SELECT content_hash FROM episodes WHERE row = ?", (row,))
        value: bytes | None = found[0][0] if found else None
        return value

    def forget_import(self, content: str) -> None:
        """Forget the progress of a file; its episodes stay."""
        with self._transaction():
            self._db.execute("DELETE FROM main.imports WHERE content = ?", (content,))

    def _insert(self, columns: tuple[object, ...], body: bytes) -> int:
        cursor = self._db.execute(INSERT_EPISODE, columns)
        if cursor.rowcount:
            self._db.execute("INSERT INTO main.bodies VALUES (?, ?)", (cursor.lastrowid, body))
        return cursor.rowcount

    def _write_progress(self, progress: ImportProgress, stored: Stored) -> None:
        now = replace(
            progress,
            kept=progress.kept + stored.kept,
            doubled=progress.doubled + stored.doubled,
        )
        marks = ", ".join("?" for _ in PROGRESS)
        self._db.execute(
            f"INSERT OR REPLACE INTO main.imports ({', '.join(PROGRESS)}, updated_at) "
            f"VALUES ({marks}, ?)",
            (*astuple(now), time.time()),
        )


PROGRESS = tuple(field.name for field in fields(ImportProgress))


INSERT = (
    f"INSERT INTO main.episodes ({', '.join(COLUMNS)}) VALUES ({', '.join('?' for _ in COLUMNS)})"
)


class SqliteTraceStore(EpisodeAdder, TraceSearch, ImportTable):
    """A `TraceStore` in an SQLite file; see `TraceDatabase` for concurrency and durability.

    Example:
        ```
        with SqliteTraceStore(run.traces_path) as store:
            store.begin_attempt(attempt=1, from_step=0)
            store.add_many(episodes, attempt=1, step=1, purpose="train", tasks=tasks)
            good = list(store.query("success and score > 0.5"))
        ```
    """

    def begin_attempt(self, attempt: int, from_step: int) -> None:
        """See `TraceStore`."""
        with self._transaction():
            row = (attempt, from_step)
            self._db.execute("INSERT OR REPLACE INTO main.attempts VALUES (?, ?)", row)

    def _keep(self, episodes: Iterable[KeptEpisode], tasks: Mapping[TaskKey, Task]) -> None:
        rows = [(astuple(kept.summary), encode_episode(kept.episode)) for kept in episodes]
        task_rows = [(*key, encode_task(task).decode()) for key, task in tasks.items()]
        with self._transaction():
            self._db.executemany("INSERT OR REPLACE INTO main.tasks VALUES (?, ?, ?)", task_rows)
            for columns, body in rows:
                row_id = self._db.execute(INSERT, columns).lastrowid
                self._db.execute("INSERT INTO main.bodies VALUES (?, ?)", (row_id, body))

    def episodes(
        self, *, step: int | None = None, purpose: str | None = None, limit: int | None = None
    ) -> Iterator[Episode]:
        """See `TraceStore`."""
        # One short query each, for the reason given at `PAGE`.
        for (row,) in self._select("row", step, purpose, limit):
            episode = self._episode(row)
            if episode is not None:
                yield episode

    def summaries(
        self, *, step: int | None = None, purpose: str | None = None, limit: int | None = None
    ) -> list[EpisodeSummary]:
        """The columns of the same episodes, without decoding them."""
        rows = self._select(", ".join(COLUMNS), step, purpose, limit)
        return [to_summary(row) for row in rows]

    def get(self, episode_id: str) -> Episode | None:
        """The newest episode with this id that counts; None if there is none."""
        found = self._query("SELECT MAX(row) FROM current_episodes WHERE id = ?", (episode_id,))
        return None if found[0][0] is None else self._episode(found[0][0])

    def task(self, env: str, task_id: str) -> Task | None:
        """A task that was stored with an episode."""
        found = self._query("SELECT body FROM tasks WHERE env = ? AND id = ?", (env, task_id))
        return decode_task(found[0][0].encode("utf-8", "surrogateescape")) if found else None

    def count(self) -> int:
        """Number of episodes that count."""
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
