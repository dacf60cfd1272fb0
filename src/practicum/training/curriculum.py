"""Which task comes next."""

from collections.abc import Callable, Iterator, Mapping
from itertools import islice

from practicum.core.errors import UserError
from practicum.core.sample import Group
from practicum.core.task import JSON, Task

__all__ = ["TaskStream"]


class TaskStream:
    """Tasks in the environment's own order; its state is how many have been drawn."""

    def __init__(self, open_stream: Callable[[], Iterator[Task]]) -> None:
        self._open = open_stream
        self._tasks = open_stream()
        self._drawn = 0

    def next_tasks(self, count: int) -> list[Task]:
        """The next tasks to train on."""
        tasks = list(islice(self._tasks, count))
        if len(tasks) < count:
            raise UserError(
                f"the environment has only {self._drawn + len(tasks)} training tasks and the run "
                "needs more; lower steps or rollouts.tasks_per_step"
            )
        self._drawn += count
        return tasks

    def observe(self, group: Group) -> None:
        """The order does not depend on how tasks went."""

    def state(self) -> dict[str, JSON]:
        """What a resumed run needs."""
        return {"drawn": self._drawn}

    def restore(self, state: Mapping[str, JSON]) -> None:
        """Go on from where `state` was taken."""
        drawn = state["drawn"]
        assert isinstance(drawn, int)
        self._tasks, self._drawn = self._open(), drawn
        next(islice(self._tasks, drawn - 1, drawn), None) if drawn else None
