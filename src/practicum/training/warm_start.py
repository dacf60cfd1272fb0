"""Settles, before a run begins, what its config leaves open: its start, and how it is evaluated.

Practice learns from what succeeds now and then. A policy that never succeeds has nothing to
compare, and what it compares instead leads astray; a few steps on solved tasks bring it to where
practice works. A policy that succeeds by itself is left to practise from the start.
"""

from collections.abc import Callable, Sequence
from itertools import islice
from typing import NamedTuple

from practicum.agents.rollout import RolloutParts, run_groups
from practicum.core.capabilities import HasReference
from practicum.core.config.config_sections import EvalConfig, WarmStartConfig
from practicum.core.config.run_config import RunConfig
from practicum.core.errors import UserError
from practicum.core.interfaces import Environment
from practicum.core.task import Task
from practicum.store.run_dir import RunDir
from practicum.training.stages import TrainingStage

PROBES = 16
"""Training tasks that are tried once each."""
TRIED_SOLUTIONS = 4
"""Solutions that are played before they are imitated."""
MEASURED = 1000
"""Solutions whose turns are counted where one that was played did not succeed."""
NONE = WarmStartConfig(name="none")
UNTIL = 0.5
"""Share of training tasks that imitation should teach: practice then has something to compare."""
LOOKS = 32
"""Training tasks that are tried once each to see whether it has."""
FIRST_LOOK = 2
"""Steps of imitation after which that is first tried."""
FEW = 2
"""Solved probes up to which success is near 0: of 16, an upper 95 % bound of about a third."""


class SettledStart(NamedTuple):
    """How a run starts, and why."""

    config: RunConfig
    """The run's config; `warm_start` is `reference`, with its steps, or `none`."""
    reason: str = ""
    """One sentence; empty where nothing was decided."""


def settle(config: RunConfig, name: str, reason: str = "") -> SettledStart:
    """The config with its start decided."""
    asked = config.warm_start
    warm = asked.steps_of(config.steps) if name == "reference" else 0
    until = asked.until or (0.0 if asked.steps else UNTIL)
    start = WarmStartConfig(name="reference", steps=warm, until=until) if warm else NONE
    return SettledStart(config=config.model_copy(update={"warm_start": start}), reason=reason)


def may_end(warm: WarmStartConfig, step: int) -> bool:
    """Whether to look after this step if imitation is over: after 2, 4, 8, 16 and so on."""
    is_power = step & (step - 1) == 0
    return warm.until > 0.0 and is_power and FIRST_LOOK <= step < warm.steps


async def shortened(
    config: RunConfig, environment: Environment, parts: RolloutParts, step: int
) -> RunConfig | None:
    """The config with imitation over after `step`; None where too few tasks are solved by then.

    Args:
        config: The run's, whose imitation `may_end`.
        environment: Where it acts.
        parts: What its episodes are made with.
        step: Steps done.
    """
    # Another seed than that of the solutions: of endless tasks these are new ones.
    tasks = list(islice(environment.tasks("train", config.seed + 1), LOOKS))
    if await count_solved(parts, tasks, config.seed) < config.warm_start.until * len(tasks):
        return None
    over = WarmStartConfig(name="reference", steps=step)
    return config.model_copy(update={"warm_start": over})


def fitting_eval(config: EvalConfig, environment: Environment) -> EvalConfig:
    """At most as many held-out tasks as there are, for a config in which nobody named a number."""
    found = sum(1 for _ in islice(environment.tasks("heldout", config.seed), config.n))
    return config.model_copy(update={"n": max(1, found)})


async def count_solved(parts: RolloutParts, tasks: Sequence[Task], seed: int) -> int:
    """How many of the tasks are solved at the first try."""
    groups = await run_groups(parts, tasks, 1, label="probe", seed=seed)
    outcomes = [e.outcome for group in groups for e in group.usable if e.outcome is not None]
    return sum(outcome.success is True for outcome in outcomes)


async def end_imitation(
    run: RunDir,
    environment: Environment | None,
    practice: Callable[[RunConfig], RolloutParts],
    stages: Callable[[RunConfig], list[TrainingStage]],
    step: int,
) -> tuple[RunConfig, list[TrainingStage]] | None:
    """What practice begins with, if it does after this step; the run's folder keeps that."""
    config = run.config()
    assert environment is not None  # there were solutions to imitate
    if (shorter := await shortened(config, environment, practice(config), step)) is None:
        return None
    run.replace_config(shorter)
    return shorter, stages(shorter)


async def settle_warm_start(
    config: RunConfig, environment: Environment, parts: RolloutParts, solver: RolloutParts
) -> SettledStart:
    """Decide `warm_start: auto` by trying some training tasks; refuse what cannot be.

    Args:
        config: The run's, which `may_warm_start`.
        environment: Where it acts.
        parts: What its episodes are made with.
        solver: The same, with the environment's own solutions in place of the model.
    """
    tasks = list(islice(environment.tasks("train", config.seed), PROBES))
    asked = config.warm_start.name
    if asked == "none" or not config.warm_start.steps_of(config.steps):
        return settle(config, "none")
    has = isinstance(environment, HasReference)
    turns = [len(environment.reference(task)) if has else 0 for task in tasks]
    if asked == "reference":
        if all(turns):
            return settle(config, "reference")
        raise UserError(
            f"warm_start: reference imitates solutions, and {config.env_name!r} has none for its "
            "tasks; type warm_start=none"
        )
    if config.agent.is_program:
        return settle(config, "none")
    if not all(turns):
        told = f"{turns.count(0)} of {len(tasks)} training tasks have no reference"
        return settle(config, "none", f"no imitation first: {told}")
    too_long, most = "", config.rollouts.max_turns
    if max(turns) > most:
        some = islice(environment.tasks("train", config.seed), MEASURED)
        too_long = config.rollouts.too_long([len(environment.reference(task)) for task in some])
    fitting = [task for task, n in zip(tasks, turns, strict=True) if n <= most]
    if not fitting:
        return settle(config, "none", f"warning: no imitation first: {too_long}")
    tried = fitting[:TRIED_SOLUTIONS]
    if (sound := await count_solved(solver, tried, config.seed)) < len(tried):
        told = f"the reference solves {sound} of {len(tried)} training tasks; see why with"
        told = f"{told} practicum tasks {config.env_name} --check 20"
        return settle(config, "none", f"warning: no imitation first: {told}")
    solved = await count_solved(parts, tasks, config.seed)
    told = f"the model solves {solved} of {len(tasks)} training tasks"
    if solved > FEW:
        return settle(config, "none", f"{told}: no warm start")
    found = settle(config, "reference")
    warm = found.config.warm_start
    end = f"until it solves {warm.until:.0%}, at most {warm.steps} steps"
    first = f"first it imitates solutions, {end if warm.until else f'{warm.steps} steps'}"
    cut_off = f"\nwarning: {too_long}, since practice cuts them off" if too_long else ""
    return found._replace(reason=f"{told}: {first} (warm_start=none leaves that out){cut_off}")
