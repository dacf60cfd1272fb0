"""What the checker does with what an environment offers besides its contract."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from tests.unit.environments.test_checker import CoinEnvironment, CoinSession, check

from practicum.core.task import Task
from practicum.environments.checker import check_environment


class Tempting(CoinEnvironment):
    """Knows near-misses; the second of one task is no miss at all."""

    accepts: bool = False

    def near_misses(self, task: Task) -> Sequence[Sequence[str]]:
        second = ["heads", "heads"] if self.accepts and task.data["n"] == 3 else ["tails"]
        return [["heads"], second]


async def test_near_misses_must_fail() -> None:
    found = await check(Tempting())
    assert found.is_sound
    assert (found.near_misses, found.near_miss_solved) == (24, 0)
    generous = Tempting()
    generous.accepts = True
    found = await check(generous)
    assert not found.is_sound
    assert found.near_miss_solved == 1
    assert found.problems == ("task 'coin-heldout-3': near-miss 2 is accepted",)


async def test_an_environment_without_near_misses_says_so() -> None:
    assert (await check(CoinEnvironment())).near_miss_solved is None


class Distant(CoinEnvironment):
    """Sessions that cost something; counts how many are open together."""

    sessions_at_once: int = 3

    def __init__(self) -> None:
        self.open_now = self.most = self.opened = 0

    @asynccontextmanager
    async def open(self, task: Task) -> AsyncIterator[CoinSession]:
        self.opened += 1
        self.open_now += 1
        self.most = max(self.most, self.open_now)
        await asyncio.sleep(0)
        try:
            yield self.session(task)
        finally:
            self.open_now -= 1


async def test_costly_sessions_are_opened_together_and_sparingly() -> None:
    """Reference, doing nothing and chance for each; three tasks are tried three times more."""
    environment = Distant()
    found = await check(environment, n=20)
    assert found.is_sound
    assert environment.most == 3
    assert environment.opened == 20 * 3 + 3 * 3


class Brought(CoinEnvironment):
    """A fixed list of tasks, some without a solution."""

    def every_task(self) -> Sequence[Task] | None:
        return [self.row("train", 1), self.row("heldout", 2), self.row("train", 3)]

    def reference(self, task: Task) -> Sequence[str]:
        return [] if task.data["n"] == 2 else ["heads", "heads"]


async def test_all_tasks_that_a_user_brings_are_checked_solved_where_a_solution_is_there() -> None:
    report = await check_environment(lambda level: Brought(), levels=[1], n=None)
    (found,) = report.levels
    assert (found.n, found.asked, found.with_reference, found.reference_solved) == (3, 3, 2, 2)
    assert report.is_sound


class Adaptive(CoinEnvironment):
    """The second turn of its solution repeats what the first was answered."""

    def reference_turn(self, task: Task, seen: Sequence[str]) -> str | None:
        return ["heads", *(text.removesuffix(" it is") for text in seen), None][len(seen)]


async def test_a_reference_may_depend_on_what_it_sees() -> None:
    assert (await check(Adaptive())).is_sound


async def test_every_checked_task_is_told_of() -> None:
    told: list[int] = []
    await check_environment(
        lambda level: CoinEnvironment(), levels=[1], n=5, on_task=lambda: told.append(1)
    )
    assert len(told) == 5


class Unreferenced(CoinEnvironment):
    def reference(self, task: Task) -> Sequence[str]:
        return []


async def test_a_task_of_our_own_without_a_reference_is_not_sound() -> None:
    found = await check(Unreferenced())
    assert not found.is_sound
    assert any("there is no reference" in problem for problem in found.problems)
