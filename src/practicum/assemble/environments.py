"""Environments by their config, given the sandboxes they work in."""

from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial
from importlib.util import find_spec

from practicum.agents.own_sessions import check_own_session
from practicum.core.capabilities import Closable, HasLevels, HasReference, InSandboxes
from practicum.core.config.config_sections import (
    MIXTURE,
    EnvConfig,
    ModelConfig,
    RolloutConfig,
)
from practicum.core.config.run_config import RunConfig
from practicum.core.errors import UserError
from practicum.core.interfaces import Environment
from practicum.core.sampling import Actions
from practicum.core.task import Task
from practicum.environments.checker import CheckWatcher, EnvironmentCheck, check_levels
from practicum.environments.checklist import Finding
from practicum.environments.registry import (
    build_environment,
    build_level,
    environment_class,
    find_task,
    first_tasks,
    is_own,
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


def training_tasks(config: EnvConfig | None, n: int) -> list[Task]:
    """The first training tasks, in the order in which `practicum tasks` shows them."""
    return first_tasks(open_environment(config), "train", 0, n)


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
        offered: set[Actions] = set()
        if is_own(config.name):
            first_tasks(built[0], "train", seed, 1)
            kind = type(built[0])
            offered = await check_own_session(f"{kind.__module__}:{kind.__name__}", built[0])
        found = await check_levels(built[0], build, _levels(built[0], config), n, seed, watch)
        return _with_tokenizer(replace(found, env=config.name), offered)
    finally:
        for opened in [one for one in built if isinstance(one, Closable)]:
            await opened.close()
        await shared.close()


def _with_tokenizer(found: EnvironmentCheck, offered: Collection[Actions]) -> EnvironmentCheck:
    """The check, with what a real tokenizer makes of these actions.

    It is that of the model which is trained where none is named, or the tiny one's where that model
    is not here; none where transformers is not.
    """
    if not offered or find_spec("transformers") is None:
        return found
    from practicum.engine.models.catalog import find_known
    from practicum.engine.models.loading import cached_folder, load_tokenizer
    from practicum.engine.sampling.completions import check_actions

    usual = ModelConfig().name
    known = find_known(usual)
    name = usual if known is not None and cached_folder(known) is not None else "tiny"
    tokenizer = load_tokenizer(name)
    try:
        for forms in offered:
            check_actions(forms, tokenizer, RolloutConfig().max_tokens)
    except UserError as error:
        wrong = Finding(part="actions", sentence=f"with the tokenizer of {name}: {error}")
        first, *others = found.levels
        levels = (replace(first, findings=(*first.findings, wrong)), *others)
        return replace(found, levels=levels, tokenizer=name)
    return replace(found, tokenizer=name)


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
