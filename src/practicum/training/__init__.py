"""The loop that closes acting, scoring and updating."""

from practicum.training.checkpointing import restore
from practicum.training.curriculum import TaskStream
from practicum.training.loop import Trainer, TrainingObserver, TrainingParts, TrainingResult

__all__ = [
    "TaskStream",
    "Trainer",
    "TrainingObserver",
    "TrainingParts",
    "TrainingResult",
    "restore",
]
