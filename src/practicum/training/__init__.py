"""The loop that closes acting, scoring and updating."""

from practicum.training.checkpointing import restore
from practicum.training.curriculum import TaskStream
from practicum.training.example_steps import ExampleSteps
from practicum.training.heldout_steps import HeldOutSteps
from practicum.training.loop import Trainer, TrainingObserver, TrainingParts, TrainingResult
from practicum.training.overlapped_steps import OverlappedSteps
from practicum.training.rollout_steps import RolloutSteps
from practicum.training.rows import Row, episode_rows, example_row, units
from practicum.training.stages import StepSource, TrainingStage
from practicum.training.task_ledger import TaskLedger

__all__ = [
    "ExampleSteps",
    "HeldOutSteps",
    "OverlappedSteps",
    "RolloutSteps",
    "Row",
    "StepSource",
    "TaskLedger",
    "TaskStream",
    "Trainer",
    "TrainingObserver",
    "TrainingParts",
    "TrainingResult",
    "TrainingStage",
    "episode_rows",
    "example_row",
    "restore",
    "units",
]
