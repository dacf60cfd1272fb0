"""An environment's tasks as a LifelongAgentBench client knows them: by sample index."""

from collections.abc import Iterable, Iterator
from itertools import islice

from practicum.core.interfaces import Environment
from practicum.core.task import Split, Task
from practicum.env_server.refusals import Refusal

__all__ = ["Samples"]

FROM_FILE = "lab-"
"""How ids of tasks from a LifelongAgentBench file begin; the rest is their index there."""

SPLITS: tuple[Split, ...] = ("train", "heldout")


class Samples:
    """At most so many tasks, each under the index that the client will name."""

    def __init__(self, environment: Environment, most: int) -> None:
        self._environment = environment
        self._most = most
        self._tasks: dict[str, Task] | None = None

    def indices(self) -> list[str]:
        """Every index, numbers in order."""
        return list(self._all())

    def task(self, index: int | str) -> Task:
        """The task behind an index."""
        found = self._all().get(str(index))
        if found is None:
            raise Refusal.unknown(
                f"there is no sample {str(index)[:80]!r}; /api/get_sample_index_list lists them"
            )
        return found

    def skills(self, index: int | str) -> list[str]:
        """The skills a task asks for; none where the environment does not say."""
        listed = self.task(index).data.get("skills") or self.task(index).data.get("skill_list")
        return [str(skill) for skill in listed] if isinstance(listed, list) else []

    def all_skills(self) -> set[str]:
        """Every skill of any task."""
        return {skill for index in self._all() for skill in self.skills(index)}

    def _all(self) -> dict[str, Task]:
        if self._tasks is None:
            every = getattr(self._environment, "every_task", lambda: None)()
            tasks = self._both_splits() if every is None else islice(every, self._most)
            found = {_index(task): task for task in tasks}
            if all(index.isdigit() for index in found):
                found = dict(sorted(found.items(), key=lambda pair: int(pair[0])))
            self._tasks = found
        return self._tasks

    def _both_splits(self) -> Iterator[Task]:
        """Training and held-out tasks in turn; a client of this kind knows no splits."""
        streams = [_distinct(self._environment.tasks(s, 0), self._most) for s in SPLITS]
        given = 0
        while streams and given < self._most:
            for stream in list(streams):
                task = next(stream, None)
                if task is None:
                    streams.remove(stream)
                elif given < self._most:
                    given += 1
                    yield task


def _distinct(tasks: Iterable[Task], most: int) -> Iterator[Task]:
    """Each task once, from a stream that may go round for ever."""
    seen: set[str] = set()
    for task in islice(tasks, 4 * most):
        if task.id not in seen:
            seen.add(task.id)
            yield task


def _index(task: Task) -> str:
    """The index in the user's own file where the task comes from one, or else the task's id."""
    return task.id.removeprefix(FROM_FILE)
