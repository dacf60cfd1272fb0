"""`TrafficStore`: what a server keeps of its traffic, and what people say of it.

A trace store like any other: `practicum traces list --where "purpose = traffic"` shows it, and
labels by `feedback` are beside those that people give in `practicum traces label`.
"""

from collections.abc import Sequence
from pathlib import Path

from practicum.core.errors import UserError
from practicum.core.sample import Episode
from practicum.core.score import Label
from practicum.core.task import Task
from practicum.store.trace_store import SqliteTraceStore
from practicum.traces.redaction import Redactor

PURPOSE = "traffic"


class TrafficStore:
    """Traces of served answers, without the secrets in them. Not thread-safe."""

    def __init__(self, path: Path) -> None:
        if not path.parent.is_dir():
            raise UserError(
                f"there is no folder {path.parent} to record in; make it, or name another"
            )
        self._store = SqliteTraceStore(path)
        self._redactor = Redactor()

    def keep(self, episode: Episode, task: Task) -> None:
        """Store one episode and its task; one that is there already is left as it is."""
        clean = self._redactor.episode(episode)
        self._store.add_imported(
            [clean],
            tasks=[self._redactor.task(task)],
            # Two equal questions may have equal answers, and both count.
            identities={clean.trace.id: clean.trace.id},
            purpose=PURPOSE,
        )

    def client_of(self, trace_id: str) -> str | None:
        """Whose key asked for a stored episode, empty where nobody knows; None if there is none."""
        found = self._store.get(trace_id)
        return None if found is None else found.trace.client

    def label(self, labels: Sequence[Label]) -> None:
        """Store labels of episodes that are stored."""
        self._store.add_labels([self._redactor.label(label) for label in labels])

    def close(self) -> None:
        """Close the file."""
        self._store.close()
