"""Tasks drawn ahead of the steps that will learn from them, so that none is lost or done twice."""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from practicum.core.sample import Group
from practicum.core.task import JSON, Task
from practicum.training.curriculum import TaskStream

__all__ = ["StepTasks", "TaskLedger"]


class TaskLedger(TaskStream):
    """A task stream that knows which of its tasks no step has been handed yet.

    Steps under way at the same time draw as they need, so what has been learned from is not simply
    the beginning of the stream. The state says how far the stream was drawn and which tasks of
    that are still to be done; a run that goes on from it does those first.
    """

    def __init__(self, open_stream: Callable[[], Iterator[Task]]) -> None:
        super().__init__(open_stream)
        self._again: deque[tuple[int, Task]] = deque()
        self._under_way: dict[int, list[int]] = {}

    def next_tasks(self, count: int) -> list[Task]:
        """The next tasks, for whoever hands them over at once."""
        return [task for _, task in self._draw(count)]

    def draw(self, step: int, count: int) -> list[Task]:
        """The next tasks for a step, which are under way until it is handed over."""
        drawn = self._draw(count)
        self._under_way.setdefault(step, []).extend(number for number, _ in drawn)
        return [task for _, task in drawn]

    def hand_over(self, step: int) -> None:
        """A step's groups are complete, and will be learned from before the state is kept."""
        self._under_way.pop(step, None)

    def _draw(self, count: int) -> list[tuple[int, Task]]:
        left = max(0, count - len(self._again))
        fresh = super().next_tasks(left)  # first, because it may have too few
        first = self._drawn - left
        again = [self._again.popleft() for _ in range(count - left)]
        return [*again, *enumerate(fresh, start=first)]

    def state(self) -> dict[str, JSON]:
        """How far the stream was drawn, and the places of the tasks that are still to be done."""
        undone = [number for numbers in self._under_way.values() for number in numbers]
        undone += [number for number, _ in self._again]
        again: list[JSON] = [*sorted(undone)]
        return {"drawn": self._drawn, "again": again} if again else {"drawn": self._drawn}

    def restore(self, state: Mapping[str, JSON]) -> None:
        """Go on from where `state` was taken; nothing is under way."""
        super().restore(state)
        numbers = state.get("again") or []
        assert isinstance(numbers, list)
        wanted = {number for number in numbers if isinstance(number, int)}
        self._under_way = {}
        self._again = deque(
            (number, task)
            for number, task in enumerate(islice(self._open(), self._drawn))
            if number in wanted
        )


@dataclass(frozen=True, slots=True)
class StepTasks:
    """The ledger as the curriculum of one step."""

    ledger: TaskLedger
    step: int

    def next_tasks(self, count: int) -> list[Task]:
        """The next tasks, noted for the step."""
        return self.ledger.draw(self.step, count)

    def observe(self, group: Group) -> None:
        """How a task went."""
        self.ledger.observe(group)

    def state(self) -> dict[str, JSON]:
        """The ledger's."""
        return self.ledger.state()

    def restore(self, state: Mapping[str, JSON]) -> None:
        """The ledger's."""
        self.ledger.restore(state)
