"""Training from a script that rolls out by itself, with the names of OpenPipe's ART.

    import practicum.compat.art as art

A script that gathers `Trajectory` objects and calls `train` moves here by this import; docs/art.md
says what is covered and what differs.
"""

from practicum.compat.art import dev
from practicum.compat.art.gather import gather_trajectories, gather_trajectory_groups, retry
from practicum.compat.art.local import LocalBackend
from practicum.compat.art.model import Model, TrainableModel
from practicum.compat.art.rewards import ruler, ruler_score_group
from practicum.compat.art.trajectories import (
    History,
    LocalTrainResult,
    MessagesAndChoices,
    Tools,
    TrainConfig,
    TrainResult,
    Trajectory,
    TrajectoryGroup,
)

__all__ = [
    "History",
    "LocalBackend",
    "LocalTrainResult",
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
    "retry",
    "ruler",
    "ruler_score_group",
]
