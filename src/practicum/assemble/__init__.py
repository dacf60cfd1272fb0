"""The composition root: configs and names to wired objects. The one place that knows them all."""

from practicum.assemble.datasets import DatasetSource, DatasetWatcher, build_dataset
from practicum.assemble.environments import (
    CheckWatcher,
    check_levels,
    find_task,
    heldout_tasks,
    open_environment,
    run_and_close,
    sandbox_kind,
)
from practicum.assemble.models import build_policy, list_models, placement, pull_model
from practicum.assemble.players import (
    SCRIPTED_POLICIES,
    Player,
    base_of_adapter,
    evaluate_player,
    human_player,
    load_player,
    play_once,
    scripted_player,
)
from practicum.assemble.recorded import record_episodes
from practicum.assemble.rewards import build_group_reward, build_reward
from practicum.assemble.running import (
    TrainedRun,
    ask,
    create_run,
    open_place,
    play_task,
    train_run,
)
from practicum.assemble.training import read_evaluations, trainer_for
from practicum.datasets import BuildOptions, describe_dataset, write_dataset
from practicum.environments import EnvironmentCheck, LevelCheck

__all__ = [
    "SCRIPTED_POLICIES",
    "BuildOptions",
    "CheckWatcher",
    "DatasetSource",
    "DatasetWatcher",
    "EnvironmentCheck",
    "LevelCheck",
    "Player",
    "TrainedRun",
    "ask",
    "base_of_adapter",
    "build_dataset",
    "build_group_reward",
    "build_policy",
    "build_reward",
    "check_levels",
    "create_run",
    "describe_dataset",
    "evaluate_player",
    "find_task",
    "heldout_tasks",
    "human_player",
    "list_models",
    "load_player",
    "open_environment",
    "open_place",
    "placement",
    "play_once",
    "play_task",
    "pull_model",
    "read_evaluations",
    "record_episodes",
    "run_and_close",
    "sandbox_kind",
    "scripted_player",
    "train_run",
    "trainer_for",
    "write_dataset",
]
