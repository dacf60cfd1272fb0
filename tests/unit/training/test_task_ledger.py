from collections.abc import Iterator

import pytest

from practicum.core.errors import UserError
from practicum.core.task import Task
from practicum.training.curriculum import StepTasks, TaskLedger, TaskStream


def stream(count: int = 100) -> Iterator[Task]:
    return (Task(id=str(n), env="e", split="train") for n in range(count))


def ids(tasks: list[Task]) -> list[int]:
    return [int(task.id) for task in tasks]


def test_without_steps_under_way_it_is_a_task_stream() -> None:
    ledger, plain = TaskLedger(stream), TaskStream(stream)
    assert ledger.next_tasks(3) == plain.next_tasks(3)
    assert ledger.state() == plain.state() == {"drawn": 3}
    other = TaskLedger(stream)
    other.restore({"drawn": 3})
    assert ids(other.next_tasks(2)) == [3, 4]


def test_a_resumed_run_first_does_what_was_under_way_and_nothing_twice() -> None:
    ledger = TaskLedger(stream)
    one, two, three = (StepTasks(ledger, step) for step in (1, 2, 3))
    assert ids(one.next_tasks(2)) == [0, 1]
    assert ids(two.next_tasks(2)) == [2, 3]
    assert ids(one.next_tasks(1)) == [4]  # in place of a group without variance
    assert ids(three.next_tasks(2)) == [5, 6]
    ledger.hand_over(1)
    state = ledger.state()
    assert state == {"drawn": 7, "again": [2, 3, 5, 6]}
    ledger.draw(4, 2)  # after the state was taken
    resumed = TaskLedger(stream)
    resumed.restore(state)
    assert resumed.state() == state
    assert ids(resumed.draw(2, 2)) == [2, 3]
    assert ids(resumed.draw(3, 3)) == [5, 6, 7]
    resumed.hand_over(2)
    assert resumed.state() == {"drawn": 8, "again": [5, 6, 7]}


def test_a_stream_that_ends_begins_anew_also_after_a_resume() -> None:
    ledger = TaskLedger(lambda: stream(3))
    assert ids(ledger.draw(1, 2)) == [0, 1]
    assert ids(ledger.draw(2, 2)) == [2, 0]
    ledger.hand_over(1)
    resumed = TaskLedger(lambda: stream(3))
    resumed.restore(ledger.state())
    assert ids(resumed.draw(2, 3)) == [2, 0, 1]


def test_a_stream_without_tasks_is_said() -> None:
    with pytest.raises(UserError, match="has no training tasks"):
        TaskLedger(lambda: stream(0)).draw(1, 1)
