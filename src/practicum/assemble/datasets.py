"""Training sets: from recorded episodes, or from an environment's own solutions, played first."""

from dataclasses import replace
from functools import partial

from practicum.agents.rollout import run_episode
from practicum.assemble.environments import open_environment
from practicum.assemble.policies import scripted_policy
from practicum.core.capabilities import session_kind
from practicum.core.config.config_sections import EnvConfig, RolloutConfig
from practicum.core.config.run_config import RunConfig
from practicum.core.errors import UserError
from practicum.core.interfaces import Environment
from practicum.core.sample import Episode
from practicum.core.task import Task
from practicum.environments.reference_policies import Imitator, SpelledReference
from practicum.environments.registry import run_and_close
from practicum.traces.datasets.build import BuildOptions, Built, build
from practicum.traces.datasets.examples import reference_episodes
from practicum.traces.datasets.sources import (
    REFERENCE,
    DatasetSource,
    DatasetWatcher,
    recorded_examples,
    source_examples,
)
from practicum.traces.datasets.splits import LeftOut

REFERENCE_TASKS = 500
"""Solutions played unless told otherwise."""
REFERENCE_TURNS = 1000
"""A solution is as long as it is."""


async def build_dataset(
    source: DatasetSource,
    options: BuildOptions,
    watch: DatasetWatcher = lambda: None,
    environment: Environment | None = None,
    imitator: Imitator | None = None,
) -> Built:
    """A training set from a source.

    Args:
        source: What it is made from.
        options: What is wanted.
        watch: Told of each episode or row that was read.
        environment: Where reference solutions are played, if one is open already.
        imitator: Who is to imitate them, with its own tokens; without one they are text.
    """
    left_out = LeftOut()
    if source.name != REFERENCE:
        return build(recorded_examples(source, left_out, watch), options, left_out)
    if source.where:
        raise UserError("--where asks a store or a run, not solutions; leave it out")
    n = options.n or REFERENCE_TASKS
    if environment is None and source.env is None:
        raise UserError("--from reference needs an environment; add --env math")
    opened = environment or open_environment(source.env)
    work = play_references(opened, n, options.seed, watch, imitator)
    episodes = await (work if environment else run_and_close(opened, work))
    revised = (source.revise(episode) for episode in episodes)
    examples = (e for played in revised for e in source_examples(played, None, source, left_out))
    return build(examples, options, left_out)


async def play_references(
    environment: Environment,
    n: int,
    seed: int,
    watch: DatasetWatcher = lambda: None,
    imitator: Imitator | None = None,
) -> list[Episode]:
    """Episodes in which an environment's solutions of training tasks were carried out."""
    rollouts = RolloutConfig(max_turns=REFERENCE_TURNS)
    config = RunConfig(env=EnvConfig(name=environment.name), rollouts=rollouts)
    parts = scripted_policy(REFERENCE, environment).parts(environment, config)
    if imitator is not None and session_kind(environment) == "discrete":
        converse = partial(SpelledReference, imitator, environment)
        parts = replace(parts, model=imitator.model, converse=converse)

    async def play(task: Task) -> Episode:
        return await run_episode(parts, task, f"{REFERENCE}/{task.id}", seed)

    return await reference_episodes(environment, n, seed, play, lambda episode: watch())
