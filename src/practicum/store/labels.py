"""The labels of episodes: each one kept, with who gave it and when; the newest counts."""

from collections.abc import Iterable, Iterator

from practicum.core.errors import UserError
from practicum.core.label import Label
from practicum.store.database import TraceDatabase

__all__ = ["LabelTable"]

INSERT_ONCE = """
INSERT INTO labels (episode_id, value, author, created_at, note, is_suggestion, confidence)
SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7 WHERE NOT EXISTS (
    SELECT 1 FROM labels WHERE episode_id = ?1 AND is_suggestion = ?6 AND value = ?2
    AND author = ?3 AND created_at = ?4
)
"""


class LabelTable(TraceDatabase):
    """Verdicts on the episodes of a store, people's and suggested ones side by side."""

    def add_label(self, label: Label) -> None:
        """Keep one label; earlier ones of the same episode stay, and no longer count."""
        self.add_labels([label])

    def add_labels(self, labels: Iterable[Label]) -> None:
        """Keep all of them, or none; a label that is there already is not kept twice."""
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
        """Labels in the order they were given.

        Args:
            episode_id: Only of this episode.
            suggestions: Only suggested ones, or only people's; None for both.
        """
        after = 0
        while True:
            rows = self._query(
                "SELECT row, episode_id, value, author, created_at, note, is_suggestion, "
                "confidence FROM labels WHERE row > ?1 AND (?2 IS NULL OR episode_id = ?2) "
                "AND (?3 IS NULL OR is_suggestion = ?3) ORDER BY row LIMIT 1000",
                (after, episode_id, suggestions),
            )
            for row, name, value, author, time, note, suggested, confidence in rows:
                after = row
                yield Label(
                    episode_id=name,
                    value=value,
                    author=author,
                    created_at=time,
                    note=note,
                    is_suggestion=bool(suggested),
                    confidence=confidence,
                )
            if not rows:
                return

    def remove_label(self, label: Label) -> None:
        """Take back the newest label that equals this one, as `undo` does."""
        with self._transaction():
            self._db.execute(
                "DELETE FROM labels WHERE row = (SELECT MAX(row) FROM labels WHERE episode_id = ? "
                "AND value = ? AND author = ? AND created_at = ? AND is_suggestion = ?)",
                (
                    label.episode_id,
                    label.value,
                    label.author,
                    label.created_at,
                    label.is_suggestion,
                ),
            )

    def _write_labels(self, labels: Iterable[Label]) -> None:
        """Inside the caller's transaction."""
        rows = (
            (
                label.episode_id,
                label.value,
                label.author,
                label.created_at,
                label.note,
                label.is_suggestion,
                label.confidence,
            )
            for label in labels
        )
        self._db.executemany(INSERT_ONCE, rows)

    def _knows(self, episode_id: str) -> bool:
        found = self._db.execute("SELECT 1 FROM episodes WHERE id = ? LIMIT 1", (episode_id,))
        return found.fetchone() is not None
