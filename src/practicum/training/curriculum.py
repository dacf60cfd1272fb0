"""The environment's own task order, also for steps in flight at the same time.

Curricula that choose by how earlier groups went are in `curricula`.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

from practicum.core.capabilities import GivesJumpStarts
from practicum.core.errors import UserError
from practicum.core.interfaces import Curriculum
from practicum.core.sample import Group
from practicum.core.task import JSON, Task


class SharedCurriculum(Curriculum, Protocol):
    """A curriculum for several steps in flight."""

    def draw(self, step: int, count: int) -> list[Task]:
        """The next tasks for a step; unused until `hand_over(step)`."""

    def observe_in(self, step: int, group: Group) -> None:
        """Take note of a finished group of a step that is in flight."""

    def hand_over(self, step: int) -> None:
        """The step has its groups and will train on them before the state is saved."""


def endless(open_stream: Callable[[], Iterator[Task]]) -> Iterator[Task]:
    """The tasks of a stream, from its beginning again where it ends; none where it has none."""
    found = True
    while found:
        found = False
        for task in open_stream():
            found = True
            yield task


class TaskStream:
    """Tasks in the environment's order, over and over; the state is the number of tasks drawn."""

    def __init__(self, open_stream: Callable[[], Iterator[Task]]) -> None:
        self._open = open_stream
        self._tasks = endless(open_stream)
        self._drawn = 0

    def next_tasks(self, count: int) -> list[Task]:
        """The next `count` tasks."""
        tasks = list(islice(self._tasks, count))
        if len(tasks) < count:
            raise UserError("the environment has no training tasks; look at its options")
        self._drawn += count
        return tasks

    def observe(self, group: Group) -> None:
        """Ignored: the order is fixed."""

    def state(self) -> dict[str, JSON]:
        """See `Curriculum.state`."""
        return {"drawn": self._drawn}

    def restore(self, state: Mapping[str, JSON]) -> None:
        """See `Curriculum.restore`."""
        drawn = state["drawn"]
        assert isinstance(drawn, int)
        self._tasks, self._drawn = endless(self._open), drawn
        next(islice(self._tasks, drawn - 1, drawn), None) if drawn else None


class TaskLedger(TaskStream):
    """A task stream shared by several steps in flight, so that a resumed run loses no task.

    Steps draw as they need, so the tasks trained on are not simply the beginning of the stream.
    The state holds how many were drawn (`drawn`) and the indices of those that no completed step
    has used (`again`); a resumed run starts with the latter.
    """

    def __init__(self, open_stream: Callable[[], Iterator[Task]]) -> None:
        super().__init__(open_stream)
        self._again: deque[tuple[int, Task]] = deque()
        self._in_flight: dict[int, list[int]] = {}

    def next_tasks(self, count: int) -> list[Task]:
        """The next tasks, without a step: they count as used."""
        return [task for _, task in self._draw(count)]

    def draw(self, step: int, count: int) -> list[Task]:
        """The next tasks for a step; unused until `hand_over(step)`."""
        drawn = self._draw(count)
        self._in_flight.setdefault(step, []).extend(number for number, _ in drawn)
        return [task for _, task in drawn]

    def observe_in(self, step: int, group: Group) -> None:
        """Ignored: the order is fixed."""

    def hand_over(self, step: int) -> None:
        """The step has its groups and will train on them before the state is saved."""
        self._in_flight.pop(step, None)

    def _draw(self, count: int) -> list[tuple[int, Task]]:
        left = max(0, count - len(self._again))
        fresh = super().next_tasks(left)  # first: it raises where there are none
        first = self._drawn - left
        again = [self._again.popleft() for _ in range(count - left)]
        return [*again, *enumerate(fresh, start=first)]

    def state(self) -> dict[str, JSON]:
        """The number of tasks drawn, and the indices of the unused ones."""
        undone = [number for numbers in self._in_flight.values() for number in numbers]
        undone += [number for number, _ in self._again]
        again: list[JSON] = [*sorted(undone)]
        return {"drawn": self._drawn, "again": again} if again else {"drawn": self._drawn}

    def restore(self, state: Mapping[str, JSON]) -> None:
        """See `Curriculum.restore`; no step is in flight then."""
        super().restore(state)
        numbers = state.get("again") or []
        assert isinstance(numbers, list)
        wanted = {number for number in numbers if isinstance(number, int)}
        self._in_flight = {}
        self._again = deque(
            (number, task)
            for number, task in enumerate(islice(endless(self._open), self._drawn))
            if number in wanted
        )


@dataclass(frozen=True, slots=True)
class StepTasks:
    """The curriculum of one step: draws from the ledger in its name."""

    ledger: SharedCurriculum
    step: int

    def next_tasks(self, count: int) -> list[Task]:
        """The next tasks, recorded for the step."""
        return self.ledger.draw(self.step, count)

    def observe(self, group: Group) -> None:
        """Passed on to the ledger, in the name of the step."""
        self.ledger.observe_in(self.step, group)

    def given_turns(self, task: Task) -> int:
        """How many turns of the task's reference its episodes begin after, as the ledger says."""
        return self.ledger.given_turns(task) if isinstance(self.ledger, GivesJumpStarts) else 0

    def state(self) -> dict[str, JSON]:
        """The ledger's."""
        return self.ledger.state()

    def restore(self, state: Mapping[str, JSON]) -> None:
        """The ledger's."""
        self.ledger.restore(state)
