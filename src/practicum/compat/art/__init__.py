"""Training from a script that rolls out by itself, with the names of OpenPipe's ART.

    import practicum.compat.art as art

A script that gathers `Trajectory` objects and calls `train` moves here by this import; docs/art.md
says what is covered and what differs.
"""

import sys

from practicum.compat.art import dev
from practicum.compat.art.dataset_batches import iterate_dataset, limit_concurrency
from practicum.compat.art.gather import gather_trajectories, gather_trajectory_groups, retry
from practicum.compat.art.local import LocalBackend
from practicum.compat.art.model import Backend, Model, TrainableModel
from practicum.compat.art.rewards import ruler, ruler_score_group
from practicum.compat.art.trajectories import (
    History,
    LocalTrainResult,
    Messages,
    MessagesAndChoices,
    Tools,
    TrainConfig,
    TrainResult,
    Trajectory,
    TrajectoryGroup,
)

__all__ = [
    "Backend",
    "History",
    "LocalBackend",
    "LocalTrainResult",
    "Messages",
    "MessagesAndChoices",
    "Model",
    "Tools",
    "TrainConfig",
    "TrainResult",
    "TrainableModel",
    "Trajectory",
    "TrajectoryGroup",
    "dev",
    "gather_trajectories",
    "gather_trajectory_groups",
    "iterate_dataset",
    "limit_concurrency",
    "retry",
    "ruler",
    "ruler_score_group",
]

PLACES = {
    "utils": "dataset_batches",
    "utils.iterate_dataset": "dataset_batches",
    "utils.limit_concurrency": "dataset_batches",
    "utils.retry": "gather",
    "types": "trajectories",
    "backend": "model",
    "local.backend": "local",
    "rewards.ruler": "rewards",
}
"""Modules as ART names them and as they are named here."""

for _theirs, _ours in PLACES.items():
    # So that `from art.utils.iterate_dataset import ...` moves by its first word.
    sys.modules[f"{__name__}.{_theirs}"] = sys.modules[f"{__name__}.{_ours}"]
utils = sys.modules[f"{__name__}.utils"]
types = sys.modules[f"{__name__}.types"]
