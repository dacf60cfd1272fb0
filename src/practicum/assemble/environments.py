"""Environments by their config, given the sandboxes they work in."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from practicum.agents.own_sessions import check_own_session
from practicum.core.capabilities import Closable, HasLevels, HasReference, InSandboxes
from practicum.core.config.config_sections import MIXTURE, EnvConfig
from practicum.core.config.run_config import RunConfig
from practicum.core.errors import UserError
from practicum.core.interfaces import Environment
from practicum.core.task import Task
from practicum.core.user_code import names_code
from practicum.environments.checker import CheckWatcher, EnvironmentCheck, check_levels
from practicum.environments.registry import (
    build_environment,
    build_level,
    environment_class,
    find_task,
    first_tasks,
)
from practicum.sandboxes.opening import SharedSandboxes, open_sandboxes
from practicum.training.curricula.build_curriculum import build_curriculum, by_kind
from practicum.training.curriculum import SharedCurriculum


def open_environment(config: EnvConfig | None) -> Environment:
    """The environment a config names, its options checked."""
    if config is None:
        raise UserError(
            "env is none, so there is nothing to act in; name an environment, such as --env math"
        )
    environment = build_environment(config.name, config.options)
    if isinstance(environment, InSandboxes):
        environment.use_sandboxes(open_sandboxes)
    return environment


def choose_task(
    config: EnvConfig | None, environment: Environment, named: str | None, seed: int = 0
) -> Task:
    """The task with an id, at whatever level, or made from a text; the first held-out one if None.

    Args:
        config: What the environment was opened with.
        environment: Where the task is to be done.
        named: An id or a text.
        seed: Decides which held-out task is the first.
    """
    if not named:
        return first_tasks(environment, "heldout", seed, 1)[0]
    assert config is not None  # an environment was opened with it
    kind = environment_class(config.name)
    levels = kind.all_levels if "level" in kind.Options.model_fields else ()
    others = (build_level(config.name, level, config.options) for level in levels)
    return find_task(environment, named, others)


async def check_config(
    config: EnvConfig, n: int | None, seed: int, watch: CheckWatcher
) -> EnvironmentCheck:
    """Check tasks of the levels in its options, or of every level; `n` None takes all there are."""
    if config.name == MIXTURE:
        raise UserError(
            "several environments cannot be checked together; check each: practicum tasks NAME "
            "--check 20"
        )
    shared, built = SharedSandboxes(open_sandboxes), [open_environment(config)]

    def build(one: int) -> Environment:
        environment = build_level(config.name, one, config.options)
        if isinstance(environment, InSandboxes):
            environment.use_sandboxes(shared.of_kind)
        built.append(environment)
        return environment

    try:
        if names_code(config.name):
            first_tasks(built[0], "train", seed, 1)
        await check_own_session(config.name, built[0])
        found = await check_levels(built[0], build, _levels(built[0], config), n, seed, watch)
        return replace(found, env=config.name)
    finally:
        for opened in [one for one in built if isinstance(one, Closable)]:
            await opened.close()
        await shared.close()


def _levels(environment: Environment, config: EnvConfig) -> tuple[int, ...]:
    """The levels that its options name, or else all it has with them."""
    asked = config.options.get("level")
    if asked is not None:
        return tuple(asked) if isinstance(asked, list | tuple) else (asked,)
    if isinstance(environment, HasLevels):
        return environment.levels
    return environment_class(config.name).all_levels


def curriculum_of(
    config: RunConfig, environment: Environment | None, warn: Callable[[str], None] | None = None
) -> SharedCurriculum:
    """The curriculum of a run, by kind of task, with jump starts where a stage asks for them."""
    curriculum = _curriculum_of(config, environment, warn)
    if environment is None:
        return curriculum
    rollouts = [config.rollouts_of(s) for s in config.all_stages if not s.algorithm.is_offline]
    helped = [one.max_turns for one in rollouts if one.jump_start]
    if helped:
        _check_jump_starts(config, environment)
    return by_kind(curriculum, environment, min(helped, default=0))


def _check_jump_starts(config: RunConfig, environment: Environment) -> None:
    if config.agent.is_program:
        raise UserError(
            f"rollouts.jump_start plays a reference's turns to the built-in agent, and agent is "
            f"{config.agent.name!r}, a program; take one of them out"
        )
    first = first_tasks(environment, "train", config.seed, 1)[0]
    if not isinstance(environment, HasReference) or not environment.reference(first):
        raise UserError(
            f"rollouts.jump_start plays the first turns of a reference, and {environment.name!r} "
            "has none for its tasks; take it out"
        )


def _curriculum_of(
    config: RunConfig, environment: Environment | None, warn: Callable[[str], None] | None
) -> SharedCurriculum:
    """The curriculum over the levels that `env.level` names or else all there are."""
    env, plan = config.env, config.curriculum
    build = partial(build_curriculum, plan, environment, config.seed)
    if env is None or environment is None or plan.name in ("auto", "none"):
        return build()
    if "level" not in environment_class(env.name).Options.model_fields:
        return build()
    levels = _levels(environment, env)
    if warn is not None and "level" not in env.options:
        warn(
            "held-out tasks are of the level that env.level says, which is not given, and the "
            f"curriculum may train on others; write env.level={list(levels)} to evaluate all"
        )
    return build(levels, lambda level: build_level(env.name, level, env.options))
