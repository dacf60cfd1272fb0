"""Environments by their config, their tasks, and the check of them."""

from collections.abc import Awaitable, Callable, Sequence
from itertools import islice
from typing import Protocol, TypeVar

from practicum.core.config import EnvConfig
from practicum.core.errors import UserError
from practicum.core.interfaces import Environment, Sandboxes
from practicum.core.task import Task
from practicum.environments import (
    Bounded,
    Closable,
    Elsewhere,
    EnvironmentCheck,
    InSandboxes,
    LevelCheck,
    build_environment,
    build_level,
    check_environment,
    environment_class,
    shares,
)
from practicum.sandboxes import open_sandboxes

__all__ = [
    "CheckWatcher",
    "check_levels",
    "find_task",
    "heldout_tasks",
    "open_environment",
    "run_and_close",
    "sandbox_kind",
]

T = TypeVar("T")


def open_environment(config: EnvConfig) -> Environment:
    """The environment a config names, its options checked."""
    if config.is_none:
        raise UserError(
            "env is none, so there is nothing to act in; name an environment, such as --env math"
        )
    environment = build_environment(config.name, config.options)
    if isinstance(environment, InSandboxes):
        environment.use_sandboxes(open_sandboxes)
    return environment


class CheckWatcher(Protocol):
    """Told how a check goes on; a progress bar, usually."""

    def begin(self, tasks: int) -> None:
        """This many tasks will be checked."""
        ...

    def task_done(self) -> None:
        """One more task."""
        ...

    def level_done(self, level: LevelCheck) -> None:
        """A level is complete."""
        ...


def heldout_tasks(environment: Environment, n: int, seed: int) -> list[Task]:
    """The first `n` held-out tasks; the same for every policy that is evaluated with this seed."""
    tasks = list(islice(environment.tasks("heldout", seed), n))
    if len(tasks) < n:
        raise UserError(
            f"{environment.name!r} has {len(tasks)} held-out tasks with these options and {n} were "
            f"asked for; lower the number to {len(tasks)}"
        )
    return tasks


def find_task(environment: Environment, named: str) -> Task:
    """The task with an id, or what the environment makes of a text such as `3x + 7 = 16`."""
    find = getattr(environment, "find", None)
    if find is None:
        raise UserError(f"{environment.name!r} cannot look up {named!r}; list its tasks instead")
    found: Task = find(named)
    return found


async def check_levels(
    config: EnvConfig,
    level: int | None,
    n: int | None,
    seed: int,
    watch: CheckWatcher,
) -> EnvironmentCheck:
    """Check tasks of one level or of every level; `n` None takes all there are.

    `n` tasks are checked at each level, or in all where sessions run outside this process and so
    cost something.
    """
    shared = SharedSandboxes()

    def build(one: int) -> Environment:
        environment = build_level(config.name, one, config.options)
        if isinstance(environment, InSandboxes):
            environment.use_sandboxes(shared.of_kind)
        return environment

    first = open_environment(config)
    levels = (level,) if level is not None else _levels(first, config.name)
    counts = _counts(first, levels, n, build, seed)
    watch.begin(sum(counts))
    checks: list[LevelCheck] = []
    try:
        for one, count in zip(levels, counts, strict=True):
            if count:
                found = await check_environment(
                    build,
                    levels=(one,),
                    n=count,
                    seed=seed,
                    report=watch.level_done,
                    on_task=watch.task_done,
                )
                checks += found.levels
    finally:
        await shared.close()
    return EnvironmentCheck(env=config.name, seed=seed, levels=tuple(checks))


def _counts(
    environment: Environment,
    levels: Sequence[int],
    n: int | None,
    build: Callable[[int], Environment],
    seed: int,
) -> list[int]:
    """How many tasks are checked at each level."""
    if n is not None:
        costs = isinstance(environment, Elsewhere)
        return shares(n, levels) if costs else [n] * len(levels)
    if isinstance(environment, Bounded):
        every = environment.every_task()
        if every is None:
            raise UserError(
                f"there is no end to the tasks of {environment.name!r}; check a number of them, "
                "such as --check 300"
            )
        return [len(every)]
    return [sum(1 for _ in build(one).tasks("heldout", seed)) for one in levels]


def _levels(environment: Environment, name: str) -> tuple[int, ...]:
    """The levels an environment has with its options."""
    own: tuple[int, ...] | None = getattr(environment, "levels", None)
    return own if own is not None else environment_class(name).all_levels


class SharedSandboxes:
    """Sandboxes of each kind, opened once for several environments."""

    def __init__(self) -> None:
        self._opened: dict[str, Sandboxes] = {}

    def of_kind(self, kind: str) -> Sandboxes:
        """Those of a kind."""
        if kind not in self._opened:
            self._opened[kind] = open_sandboxes(kind)
        return self._opened[kind]

    async def close(self) -> None:
        """Close all of them."""
        for opened in self._opened.values():
            await opened.close()


def sandbox_kind(environment: Environment) -> str:
    """What isolates the commands of an environment's episodes; empty where it runs none."""
    return str(getattr(environment, "sandbox_kind", ""))


async def run_and_close(environment: Environment, work: Awaitable[T]) -> T:
    """Do some work with an environment, and close what it holds whatever becomes of the work."""
    try:
        return await work
    finally:
        if isinstance(environment, Closable):
            await environment.close()
