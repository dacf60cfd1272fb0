"""A whole run from its config: what `practicum train` does, without a terminal."""

import asyncio
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from practicum.assemble.agents import check_agent
from practicum.assemble.environments import (
    find_task,
    open_environment,
    run_and_close,
    sandbox_kind,
)
from practicum.assemble.models import build_policy
from practicum.assemble.players import Player, play_once, policy_player, sampling_params
from practicum.assemble.rewards import build_group_reward, build_reward
from practicum.assemble.training import trainer_for
from practicum.core.config import RunConfig
from practicum.core.interfaces import Environment
from practicum.core.sample import Episode
from practicum.core.task import Task
from practicum.core.trace import Message
from practicum.hardware import check_fits, detect_machine, plan_memory
from practicum.store import RunDir
from practicum.training import TrainingObserver, TrainingResult

if TYPE_CHECKING:
    from practicum.policy.torch_policy import TorchPolicy

__all__ = ["TrainedRun", "ask", "create_run", "open_place", "play_task", "train_run"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainedRun:
    """A run that has come to its end, and the policy as it is now."""

    run: RunDir
    result: TrainingResult
    policy: "TorchPolicy"


def open_place(config: RunConfig) -> Environment | None:
    """The environment of a run with its reward checked; None where the run does not act.

    To be called before anything is made or loaded: a config may ask for what is not there.
    """
    if not config.acts:
        return None
    environment = open_environment(config.env)
    check_agent(environment, config.agent)
    build_reward(config.reward, environment)
    build_group_reward(config.reward)
    return environment


def create_run(config: RunConfig, name: str | None) -> RunDir:
    """A new run's folder, which says what machine it was made on."""
    found = json.loads(json.dumps(asdict(detect_machine())))
    return RunDir.create(Path(config.runs_dir), config, name=name, hardware=found)


def train_run(
    config: RunConfig,
    observer: TrainingObserver,
    *,
    name: str | None = None,
    policy: "TorchPolicy | None" = None,
) -> TrainedRun:
    """Train a new run to its end.

    Args:
        config: What is to be done.
        observer: Told how it goes on.
        name: What to call the run's folder.
        policy: A model with a fresh adapter that was built from this config, if there is one.
    """
    environment = open_place(config)
    machine = detect_machine()
    plan = plan_memory(config, machine)
    if plan is not None:
        check_fits(plan, machine)
    if environment is not None:
        sandbox_kind(environment)  # before the model is loaded: there may be no sandbox
    policy = policy or build_policy(config)
    run = create_run(config, name)
    with run.hold(), trainer_for(config, run, policy, observer, environment) as trainer:
        result = asyncio.run(
            run_and_close(environment, trainer.run()) if environment else trainer.run()
        )
    return TrainedRun(run=run, result=result, policy=policy)


async def ask(policy: "TorchPolicy", config: RunConfig, question: str) -> str:
    """What the policy answers to a question, with its likeliest tokens."""
    conversation = _player(policy, config).converse(
        Task(id="question", env=config.env.name, split="heldout"), config.seed
    )
    completion = await conversation.complete([Message(role="user", content=question)])
    return str(completion.text)


async def play_task(
    policy: "TorchPolicy", config: RunConfig, environment: Environment, named: str
) -> Episode:
    """The policy at a task of an environment, such as `3x + 7 = 16`."""
    task = find_task(environment, named)
    return await play_once(_player(policy, config), environment, task, config, config.seed)


def _player(policy: "TorchPolicy", config: RunConfig) -> Player:
    params = sampling_params(config.rollouts, config.eval.temperature)
    return policy_player(config.model.name, policy, params)
