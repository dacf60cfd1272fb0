"""Checks that an environment is fit to train on: its tasks can be done, and not by accident.

Each held-out task is played three times: by the reference, which must solve it for full marks; by
doing nothing, which must earn nothing; and at random, whose success is reported. Beside that the
contract that every environment promises is tried out.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from itertools import islice
from typing import Protocol, runtime_checkable

from practicum.core.errors import EnvironmentFailure, RolloutFailure, boundary
from practicum.core.interfaces import Environment
from practicum.core.task import Task
from practicum.environments.contract import CONTRACT_TASKS, session_problems, supply_problems
from practicum.environments.reference_policies import (
    DoNothingActor,
    RandomActor,
    ReferenceActor,
    play_episode,
)

__all__ = ["EnvironmentCheck", "Graded", "LevelCheck", "check_environment"]

SHOWN_PROBLEMS = 10
"""Problems listed for a level; the counts cover all of them."""


@runtime_checkable
class Graded(Protocol):
    """An environment that says what its reference must earn."""

    def full_marks(self, task: Task) -> float:
        """The most that any play of the task can earn."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelCheck:
    """What was found at one level."""

    level: int
    n: int
    """Held-out tasks played."""
    asked: int
    """Held-out tasks asked for; more than `n` only when the level has no more."""
    reference_solved: int
    """Tasks the reference solved for full marks."""
    do_nothing_paid: int
    """Tasks where doing nothing succeeded or earned something; must be 0."""
    random_solved: int | None
    """Tasks solved at random; None where no actions are listed."""
    problems: tuple[str, ...] = ()
    """The first things found wrong, one sentence each."""

    @property
    def is_sound(self) -> bool:
        """Whether the level may be trained on."""
        return (
            not self.problems
            and 0 < self.n == self.asked == self.reference_solved
            and self.do_nothing_paid == 0
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentCheck:
    """What was found at every level."""

    env: str
    seed: int
    levels: tuple[LevelCheck, ...]

    @property
    def is_sound(self) -> bool:
        """Whether every level may be trained on."""
        return bool(self.levels) and all(level.is_sound for level in self.levels)

    def as_json(self) -> dict[str, object]:
        """The report as JSON values."""
        levels = [{**asdict(level), "is_sound": level.is_sound} for level in self.levels]
        return {"env": self.env, "seed": self.seed, "is_sound": self.is_sound, "levels": levels}


async def check_environment(
    build: Callable[[int], Environment],
    *,
    levels: Sequence[int],
    n: int,
    seed: int = 0,
    report: Callable[[LevelCheck], None] = lambda _: None,
) -> EnvironmentCheck:
    """Check an environment level by level.

    Args:
        build: Gives the environment with only the tasks of one level.
        levels: The levels to check.
        n: Held-out tasks to play at each.
        seed: Which tasks, and the random policy's draws.
        report: Told of each level as soon as it is done.
    """
    checks = []
    name = ""
    for level in levels:
        environment = build(level)
        name = environment.name
        checks.append(await _check_level(environment, level, n, seed))
        report(checks[-1])
    return EnvironmentCheck(env=name, seed=seed, levels=tuple(checks))


@dataclass(slots=True, kw_only=True)
class _Tally:
    """Counts while a level is being checked."""

    reference_solved: int = 0
    do_nothing_paid: int = 0
    random_played: int = 0
    random_solved: int = 0
    problems: list[str] = field(default_factory=list)

    @contextmanager
    def collecting_failures(self, where: str) -> Iterator[None]:
        """Make anything the environment raises in the block one of the problems."""
        try:
            with boundary(EnvironmentFailure, where):
                yield
        except RolloutFailure as failure:
            self.problems.append(str(failure))


async def _check_level(environment: Environment, level: int, n: int, seed: int) -> LevelCheck:
    tally = _Tally()
    tasks: list[Task] = []
    with tally.collecting_failures("its tasks"):
        tasks.extend(islice(environment.tasks("heldout", seed), n))
        tally.problems.extend(supply_problems(environment, level, seed))
    if len(tasks) < n:
        tally.problems.append(f"only {len(tasks)} held-out tasks, {n} were asked for")
    chance = RandomActor(seed)
    for at, task in enumerate(tasks):
        with tally.collecting_failures(f"task {task.id!r}"):
            if at < CONTRACT_TASKS:
                tally.problems.extend(await session_problems(environment, task))
            await _play_three(environment, task, chance, tally)
    return LevelCheck(
        level=level,
        n=len(tasks),
        asked=n,
        reference_solved=tally.reference_solved,
        do_nothing_paid=tally.do_nothing_paid,
        random_solved=tally.random_solved if tally.random_played else None,
        problems=tuple(tally.problems[:SHOWN_PROBLEMS]),
    )


async def _play_three(
    environment: Environment, task: Task, chance: RandomActor, tally: _Tally
) -> None:
    wrong = await _reference_problem(environment, task)
    if wrong is None:
        tally.reference_solved += 1
    else:
        tally.problems.append(wrong)
    idle = await play_episode(environment, task, DoNothingActor())
    if idle.outcome.success is not False or any(idle.outcome.turn_rewards):
        tally.do_nothing_paid += 1
    if await _lists_actions(environment, task):
        drawn = await play_episode(environment, task, chance)
        tally.random_played += 1
        tally.random_solved += drawn.outcome.success is True


async def _lists_actions(environment: Environment, task: Task) -> bool:
    async with environment.open(task) as session:
        return bool(session.actions())


async def _reference_problem(environment: Environment, task: Task) -> str | None:
    """What is wrong with the reference's play, or None."""
    turns = len(environment.reference(task))
    play = await play_episode(environment, task, ReferenceActor(environment), max_turns=turns)
    if play.outcome.success is not True:
        return f"task {task.id!r}: the reference does not solve it"
    if len(play.texts) < turns:
        return f"task {task.id!r}: the episode ends before the reference does"
    best = environment.full_marks(task) if isinstance(environment, Graded) else play.earned
    if not math.isclose(play.earned, best):
        return f"task {task.id!r}: the reference earns {play.earned}, full marks are {best}"
    again = await play_episode(environment, task, ReferenceActor(environment), max_turns=turns)
    if again != play:
        return f"task {task.id!r}: the same actions gave another result the second time"
    return None
