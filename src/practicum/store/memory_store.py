"""`InMemoryTraceStore`, for tests."""

from collections.abc import Iterable, Iterator, Mapping

from practicum.core.sample import Episode
from practicum.core.task import Task
from practicum.store.events import Stamp, current_rows
from practicum.store.trace_store import EpisodeAdder, EpisodeSummary, KeptEpisode, TaskKey


class InMemoryTraceStore(EpisodeAdder):
    """A `TraceStore` in memory that behaves like `SqliteTraceStore`."""

    def __init__(self) -> None:
        self._stored: list[KeptEpisode] = []
        self._starts: dict[int, int] = {}
        self._tasks: dict[tuple[str, str], Task] = {}

    def begin_attempt(self, attempt: int, from_step: int) -> None:
        """See `TraceStore`."""
        self._starts[attempt] = from_step

    def _keep(self, episodes: Iterable[KeptEpisode], tasks: Mapping[TaskKey, Task]) -> None:
        self._tasks.update(tasks)
        self._stored += episodes

    def episodes(
        self, *, step: int | None = None, purpose: str | None = None, limit: int | None = None
    ) -> Iterator[Episode]:
        """See `TraceStore`."""
        return iter([s.episode for s in self._select(step, purpose, limit)])

    def summaries(
        self, *, step: int | None = None, purpose: str | None = None, limit: int | None = None
    ) -> list[EpisodeSummary]:
        """The summaries of the same episodes."""
        return [s.summary for s in self._select(step, purpose, limit)]

    def get(self, episode_id: str) -> Episode | None:
        """The newest episode with this id that counts; None if there is none."""
        found = [s.episode for s in self._current() if s.summary.id == episode_id]
        return found[-1] if found else None

    def task(self, env: str, task_id: str) -> Task | None:
        """A task that was stored with an episode."""
        return self._tasks.get((env, task_id))

    def count(self) -> int:
        """Number of episodes that count."""
        return len(self._current())

    def _current(self) -> list[KeptEpisode]:
        return current_rows(self._stored, stamp=_stamp, starts=self._starts)

    def _select(
        self, step: int | None, purpose: str | None, limit: int | None
    ) -> list[KeptEpisode]:
        chosen = [
            s
            for s in self._current()
            if step in (None, s.summary.step) and purpose in (None, s.summary.purpose)
        ]
        return chosen if limit is None else chosen[max(0, len(chosen) - limit) :]


def _stamp(stored: KeptEpisode) -> Stamp:
    return Stamp(stored.summary.attempt, stored.summary.step, stored.summary.purpose)
