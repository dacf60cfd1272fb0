"""What an evaluation that was cut off had done, so that it can go on."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from practicum.core.cache_folder import cache_root
from practicum.core.sample import Episode
from practicum.core.task import JSON
from practicum.store.trace_store import SqliteTraceStore

FOLDER = "evaluations"
"""In the cache folder; a file in it is gone once its evaluation is done."""


class UnfinishedEvaluation:
    """The episodes of one evaluation, kept from the moment each has ended until all have.

    Use it as a context; leaving it without an error is the end of the evaluation.
    """

    def __init__(self, question: Mapping[str, JSON], *, resume: bool) -> None:
        """`question` is all that decides what is evaluated; `resume` keeps what was done before."""
        digest = hashlib.sha256(json.dumps(question, sort_keys=True).encode()).hexdigest()[:20]
        self.path: Path = cache_root() / FOLDER / f"{digest}.sqlite"
        self.was_cut_off = self.path.is_file()
        if self.was_cut_off and not resume:
            self._remove()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._store = SqliteTraceStore(self.path)
        self.done = {episode.trace.id: episode for episode in self._store.episodes()}

    def keep(self, episode: Episode) -> None:
        """Keep an episode that has ended; one that is told of again is kept as it was first."""
        if episode.trace.id not in self.done:
            self.done[episode.trace.id] = episode
            self._store.add(episode, attempt=1, step=0, purpose="eval")

    def __enter__(self) -> "UnfinishedEvaluation":
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._store.close()
        if kind is None:
            self._remove()

    def _remove(self) -> None:
        for end in ("", "-wal", "-shm"):
            self.path.with_name(self.path.name + end).unlink(missing_ok=True)
