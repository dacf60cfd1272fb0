"""Environments by their config, given the sandboxes they work in."""

from dataclasses import replace

from practicum.core.capabilities import HasLevels, InSandboxes
from practicum.core.config.config_sections import EnvConfig
from practicum.core.errors import UserError
from practicum.core.interfaces import Environment
from practicum.environments.checker import CheckWatcher, EnvironmentCheck, check_levels
from practicum.environments.registry import build_environment, build_level, environment_class
from practicum.sandboxes.opening import SharedSandboxes, open_sandboxes


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


async def check_config(
    config: EnvConfig, level: int | None, n: int | None, seed: int, watch: CheckWatcher
) -> EnvironmentCheck:
    """Check tasks of one level, or of every level; `n` None takes all there are."""
    shared = SharedSandboxes(open_sandboxes)

    def build(one: int) -> Environment:
        environment = build_level(config.name, one, config.options)
        if isinstance(environment, InSandboxes):
            environment.use_sandboxes(shared.of_kind)
        return environment

    first = open_environment(config)
    levels = (level,) if level is not None else _levels(first, config.name)
    try:
        found = await check_levels(first, build, levels, n, seed, watch)
        return replace(found, env=config.name)
    finally:
        await shared.close()


def _levels(environment: Environment, name: str) -> tuple[int, ...]:
    """The levels an environment has with its options."""
    if isinstance(environment, HasLevels):
        return environment.levels
    return environment_class(name).all_levels
