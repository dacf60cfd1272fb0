"""A trace store without a disk, for tests: ours and those of people who build on Practicum."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from practicum.core.sample import Episode
from practicum.core.task import Task
from practicum.store.attempts import Stamp, current_rows
from practicum.store.summaries import EpisodeSummary, summarise

__all__ = ["InMemoryTraceStore"]


class _Stored(NamedTuple):
    summary: EpisodeSummary
    episode: Episode


class InMemoryTraceStore:
    """Keeps episodes for as long as the object lives; behaves as `SqliteTraceStore` does."""

    def __init__(self) -> None:
        self._stored: list[_Stored] = []
        self._starts: dict[int, int] = {}
        self._tasks: dict[tuple[str, str], Task] = {}

    def begin_attempt(self, attempt: int, from_step: int) -> None:
        """From now on, what earlier attempts recorded after `from_step` no longer counts."""
        self._starts[attempt] = from_step

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
        """Keep all of them, and the tasks they are about."""
        known = {(task.env, task.id): task for task in tasks}
        self._tasks.update(known)
        for episode in episodes:
            task = known.get((episode.trace.env, episode.trace.task_id))
            row = summarise(episode, attempt=attempt, step=step, purpose=purpose, task=task)
            self._stored.append(_Stored(row, episode))

    def episodes(
        self, *, step: int | None = None, purpose: str | None = None, limit: int | None = None
    ) -> Iterator[Episode]:
        """Episodes that count, oldest first; with a limit only the newest so many."""
        return iter([s.episode for s in self._select(step, purpose, limit)])

    def summaries(
        self, *, step: int | None = None, purpose: str | None = None, limit: int | None = None
    ) -> list[EpisodeSummary]:
        """The same episodes in a row each."""
        return [s.summary for s in self._select(step, purpose, limit)]

    def get(self, episode_id: str) -> Episode | None:
        """The episode of that id that counts, the newest if several do."""
        found = [s.episode for s in self._current() if s.summary.id == episode_id]
        return found[-1] if found else None

    def task(self, env: str, task_id: str) -> Task | None:
        """A task that was given with an episode."""
        return self._tasks.get((env, task_id))

    def count(self) -> int:
        """How many episodes count."""
        return len(self._current())

    def _current(self) -> list[_Stored]:
        return current_rows(self._stored, stamp=_stamp, starts=self._starts)

    def _select(self, step: int | None, purpose: str | None, limit: int | None) -> list[_Stored]:
        chosen = [
            s
            for s in self._current()
            if step in (None, s.summary.step) and purpose in (None, s.summary.purpose)
        ]
        return chosen if limit is None else chosen[max(0, len(chosen) - limit) :]


def _stamp(stored: _Stored) -> Stamp:
    return Stamp(stored.summary.attempt, stored.summary.step, stored.summary.purpose)
