"""Environments by their config, their tasks, and the check of them."""

from collections.abc import Callable
from itertools import islice

from practicum.core.config import EnvConfig
from practicum.core.errors import UserError
from practicum.core.interfaces import Environment
from practicum.core.task import Task
from practicum.environments import (
    EnvironmentCheck,
    LevelCheck,
    build_environment,
    build_level,
    check_environment,
    environment_class,
)

__all__ = ["check_levels", "find_task", "heldout_tasks", "open_environment"]


def open_environment(config: EnvConfig) -> Environment:
    """The environment a config names, its options checked."""
    return build_environment(config.name, config.options)


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
    report: Callable[[LevelCheck], None],
) -> EnvironmentCheck:
    """Check held-out tasks of one level or of every level; `n` None takes all there are."""
    checks: list[LevelCheck] = []

    def build(one: int) -> Environment:
        return build_level(config.name, one, config.options)

    for one in (level,) if level is not None else environment_class(config.name).all_levels:
        count = n or sum(1 for _ in build(one).tasks("heldout", seed))
        found = await check_environment(build, levels=(one,), n=count, seed=seed, report=report)
        checks += found.levels
    return EnvironmentCheck(env=config.name, seed=seed, levels=tuple(checks))
