"""Checks that an environment is fit to train on: its tasks can be done, and not by accident.

Each task is played by the reference, which must solve it for full marks; by doing nothing, which
must earn nothing; by each near-miss that the environment knows, which must not succeed; and at
random where actions are listed, whose success is reported. Beside that the contract that every
environment promises is tried out.
"""

import asyncio
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice

from practicum.core.errors import EnvironmentFailure, RolloutFailure, boundary
from practicum.core.interfaces import Environment
from practicum.core.task import Task
from practicum.environments.check_report import EnvironmentCheck, LevelCheck
from practicum.environments.contract import CONTRACT_TASKS, session_problems, supply_problems
from practicum.environments.offers import Bounded, Elsewhere, Graded, Tempting
from practicum.environments.reference_policies import (
    Actor,
    Play,
    RandomActor,
    ReferenceActor,
    ScriptActor,
    play_episode,
)

__all__ = ["check_environment", "shares"]

SHOWN_PROBLEMS = 10
"""Problems listed for a level; the counts cover all of them."""
COSTLY_CONTRACT_TASKS = 3
"""Tasks that are played more than once where a session is not opened for nothing."""


async def check_environment(
    build: Callable[[int], Environment],
    *,
    levels: Sequence[int],
    n: int | None,
    seed: int = 0,
    report: Callable[[LevelCheck], None] = lambda _: None,
    on_task: Callable[[], None] = lambda: None,
) -> EnvironmentCheck:
    """Check an environment level by level.

    Args:
        build: Gives the environment with only the tasks of one level.
        levels: The levels to check.
        n: Tasks to play at each: the first of a finite environment, held-out ones otherwise; None
            plays all there are.
        seed: Which tasks, and the random policy's draws.
        report: Told of each level as soon as it is done.
        on_task: Told after each task.
    """
    checks = []
    name = ""
    for level in levels:
        environment = build(level)
        name = environment.name
        checks.append(await _Level(environment, level, seed, on_task).check(n))
        report(checks[-1])
    return EnvironmentCheck(env=name, seed=seed, levels=tuple(checks))


def shares(n: int, levels: Sequence[int]) -> list[int]:
    """How many of `n` tasks fall to each level, as evenly as can be.

    >>> shares(10, [1, 2, 3, 4])
    [3, 3, 2, 2]
    """
    each, rest = divmod(n, len(levels))
    return [each + (at < rest) for at in range(len(levels))]


@dataclass(slots=True, kw_only=True)
class _Found:
    """What was found at one task."""

    has_reference: bool = True
    reference_solved: bool = False
    do_nothing_paid: bool = False
    near_misses: int = 0
    near_miss_solved: bool = False
    lists_actions: bool = False
    random_solved: bool = False
    problems: list[str] = field(default_factory=list)

    @contextmanager
    def collecting_failures(self, where: str) -> Iterator[None]:
        """Make anything the environment raises in the block one of the problems."""
        try:
            with boundary(EnvironmentFailure, where):
                yield
        except RolloutFailure as failure:
            said = str(failure)
            sentence = said if said.startswith(where) else f"{where}: {said}"
            if sentence not in self.problems:
                self.problems.append(sentence)


class _Level:
    """The check of one level, several tasks at once where sessions run elsewhere."""

    def __init__(
        self, environment: Environment, level: int, seed: int, on_task: Callable[[], None]
    ) -> None:
        self._environment = environment
        self._level = level
        self._seed = seed
        self._on_task = on_task
        self._chance = RandomActor(seed)
        self._is_costly = isinstance(environment, Elsewhere)
        self._is_brought = isinstance(environment, Bounded) and environment.every_task() is not None
        at_once = environment.sessions_at_once if isinstance(environment, Elsewhere) else 1
        self._turnstile = asyncio.Semaphore(at_once)

    async def check(self, n: int | None) -> LevelCheck:
        """Play the tasks and count."""
        supply = _Found()
        tasks: list[Task] = []
        with supply.collecting_failures("its tasks"):
            tasks.extend(_tasks_to_check(self._environment, n, self._seed))
            supply.problems.extend(supply_problems(self._environment, self._level, self._seed))
        if n is not None and len(tasks) < n:
            which = "tasks" if self._is_brought else "held-out tasks"
            supply.problems.append(f"only {len(tasks)} {which}, {n} were asked for")
        tried = COSTLY_CONTRACT_TASKS if self._is_costly else CONTRACT_TASKS
        found = await asyncio.gather(
            *(self._check_task(task, at < tried) for at, task in enumerate(tasks))
        )
        problems = [problem for one in (supply, *found) for problem in one.problems]
        with_misses = [one for one in found if one.near_misses]
        with_actions = [one for one in found if one.lists_actions]
        return LevelCheck(
            level=self._level,
            n=len(tasks),
            asked=len(tasks) if n is None else n,
            with_reference=sum(one.has_reference for one in found),
            reference_solved=sum(one.reference_solved for one in found),
            do_nothing_paid=sum(one.do_nothing_paid for one in found),
            near_misses=sum(one.near_misses for one in found),
            near_miss_solved=(
                sum(one.near_miss_solved for one in with_misses) if with_misses else None
            ),
            random_solved=(
                sum(one.random_solved for one in with_actions) if with_actions else None
            ),
            problems=tuple(problems[:SHOWN_PROBLEMS]),
        )

    async def _check_task(self, task: Task, tries_contract: bool) -> _Found:
        found = _Found()
        async with self._turnstile:
            if tries_contract:
                with found.collecting_failures(f"task {task.id!r}"):
                    found.problems.extend(await session_problems(self._environment, task))
            with found.collecting_failures(f"task {task.id!r}"):
                await self._play_reference(task, found, again=self._plays_again(tries_contract))
            with found.collecting_failures(f"task {task.id!r}"):
                await self._play_others(task, found)
        self._on_task()
        return found

    def _plays_again(self, tries_contract: bool) -> bool:
        """Whether the same turns must lead to the same end; a user's set-up may draw lots."""
        return not self._is_brought and (tries_contract or not self._is_costly)

    async def _play_reference(self, task: Task, found: _Found, *, again: bool) -> None:
        turns = list(self._environment.reference(task))
        found.has_reference = bool(turns)
        if not turns:
            missing = f"task {task.id!r}: there is no reference"
            found.problems += [] if self._is_brought else [missing]
            return
        actor = ReferenceActor(self._environment)
        play = await self._played(task, actor, len(turns))
        wrong = self._reference_problem(task, turns, play)
        if wrong is None and again and await self._played(task, actor, len(turns)) != play:
            wrong = f"task {task.id!r}: the same actions gave another result the second time"
        found.reference_solved = wrong is None
        found.problems += [] if wrong is None else [wrong]

    def _reference_problem(self, task: Task, turns: Sequence[str], play: Play) -> str | None:
        """What is wrong with the reference's play, or None."""
        environment = self._environment
        if play.outcome.success is not True:
            return f"task {task.id!r}: the reference does not solve it{_why(play)}"
        if len(play.texts) < len(turns):
            return f"task {task.id!r}: the episode ends before the reference does"
        best = environment.full_marks(task) if isinstance(environment, Graded) else play.earned
        if not math.isclose(play.earned, best):
            return f"task {task.id!r}: the reference earns {play.earned}, full marks are {best}"
        return None

    async def _play_others(self, task: Task, found: _Found) -> None:
        """Doing nothing, the near-misses, and chance."""
        environment = self._environment
        async with environment.open(task) as session:
            found.lists_actions = bool(session.actions()) if hasattr(session, "actions") else False
            idle = await session.outcome()
        found.do_nothing_paid = idle.success is not False or any(idle.turn_rewards)
        if found.do_nothing_paid:
            found.problems.append(f"task {task.id!r}: doing nothing earns something")
        if isinstance(environment, Tempting):
            for number, turns in enumerate(environment.near_misses(task), 1):
                found.near_misses += 1
                play = await self._played(task, ScriptActor(turns), len(turns))
                if play.outcome.success is not False:
                    found.near_miss_solved = True
                    found.problems.append(f"task {task.id!r}: near-miss {number} is accepted")
        if found.lists_actions:
            drawn = await play_episode(environment, task, self._chance)
            found.random_solved = drawn.outcome.success is True

    async def _played(self, task: Task, actor: Actor, turns: int) -> Play:
        return await play_episode(self._environment, task, actor, max_turns=turns)


def _tasks_to_check(environment: Environment, n: int | None, seed: int) -> Iterator[Task]:
    every = environment.every_task() if isinstance(environment, Bounded) else None
    return islice(every if every is not None else environment.tasks("heldout", seed), n)


def _why(play: Play) -> str:
    """The first thing that the checker of a session found wrong, where it says so."""
    checks = play.outcome.evidence.get("checks")
    for one in checks if isinstance(checks, list) else []:
        if isinstance(one, dict) and one.get("ok") is False:
            return f" ({one.get('why')})"
    return ""
