"""Episodes from elsewhere, each one once, and how far the import of a file has got.

The episodes of a batch, their tasks, their labels and the new position in the file are one
transaction: a process killed at any moment leaves a store from which the import goes on with
nothing lost and nothing doubled.
"""

import time
from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass, fields, replace

from practicum.core.label import Label
from practicum.core.sample import Episode
from practicum.core.task import Task
from practicum.store.episode_codec import encode_hashed_episode, encode_task
from practicum.store.labels import LabelTable
from practicum.store.search import COLUMNS
from practicum.store.summaries import summarise

__all__ = ["ImportProgress", "ImportTable", "Stored"]

INSERT_EPISODE = (
    f"INSERT INTO episodes ({', '.join(COLUMNS)}, content_hash) "
    f"VALUES ({', '.join('?' for _ in COLUMNS)}, ?) "
    "ON CONFLICT (content_hash) WHERE content_hash IS NOT NULL DO NOTHING"
)
IMPORTED_ATTEMPT = 1
IMPORTED_STEP = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportProgress:
    """How far the import of one file has got; files are known by what they contain."""

    content: str
    """Hash of the file."""
    format: str
    options: str = ""
    """What else decides what is stored, such as that secrets stay: another one starts anew."""
    file: str = ""
    """Where it was, when it was last seen."""
    position: int = 0
    """How many of the file's parts have been dealt with."""
    is_done: bool = False
    kept: int = 0
    """Episodes that are stored because of it."""
    doubled: int = 0
    """Episodes that were there before."""
    refused: int = 0
    """Parts that could not be read."""


@dataclass(frozen=True, slots=True)
class Stored:
    """What became of a batch."""

    kept: int
    doubled: int


class ImportTable(LabelTable):
    """What a store keeps of traces that others recorded."""

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
        """Keep the episodes that are not there yet, with all that belongs to them, or nothing.

        Two episodes are the same when what happened in them is the same, whatever they scored.

        Args:
            episodes: From elsewhere.
            tasks: What they are about; a task that is known stays as it was.
            labels: Verdicts that came with them.
            identities: What makes an episode the same one, by its id, where that is not all of
                what happened in it.
            purpose: `import`, or `record` for agents in this process.
            progress: Where the file has got to with this batch, its counts from before it.
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
            self._db.executemany("INSERT OR IGNORE INTO tasks VALUES (?, ?, ?)", task_rows)
            kept = sum(self._insert(columns, body) for columns, body in rows)
            self._write_labels(labels)
            stored = Stored(kept, len(rows) - kept)
            if progress is not None:
                self._write_progress(progress, stored)
        return stored

    def import_progress(self, content: str, format: str, options: str = "") -> ImportProgress:
        """How far the import of a file with this content has got; at its start if never begun."""
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
        """What an episode from elsewhere is known by; None for a rollout of our own."""
        found = self._query("SELECT content_hash FROM episodes WHERE row = ?", (row,))
        value: bytes | None = found[0][0] if found else None
        return value

    def forget_import(self, content: str) -> None:
        """Begin a file anew the next time; what is stored of it stays."""
        with self._transaction():
            self._db.execute("DELETE FROM imports WHERE content = ?", (content,))

    def _insert(self, columns: tuple[object, ...], body: bytes) -> int:
        cursor = self._db.execute(INSERT_EPISODE, columns)
        if cursor.rowcount:
            self._db.execute("INSERT INTO bodies VALUES (?, ?)", (cursor.lastrowid, body))
        return cursor.rowcount

    def _write_progress(self, progress: ImportProgress, stored: Stored) -> None:
        now = replace(
            progress,
            kept=progress.kept + stored.kept,
            doubled=progress.doubled + stored.doubled,
        )
        marks = ", ".join("?" for _ in PROGRESS)
        self._db.execute(
            f"INSERT OR REPLACE INTO imports ({', '.join(PROGRESS)}, updated_at) "
            f"VALUES ({marks}, ?)",
            (*astuple(now), time.time()),
        )


PROGRESS = tuple(field.name for field in fields(ImportProgress))
