"""Training from a script that rolls out by itself, with the names of OpenPipe's ART.

    import practicum.art as art

A script that gathers `Trajectory` objects and calls `train` moves here by this import; docs/art.md
says what is covered and what differs.
"""

from practicum.art import dev
from practicum.art.gather import gather_trajectories, gather_trajectory_groups
from practicum.art.local import LocalBackend
from practicum.art.model import Model, TrainableModel
from practicum.art.retrying import retry
from practicum.art.rewards import ruler, ruler_score_group
from practicum.art.trajectories import (
    History,
    MessagesAndChoices,
    Tools,
    Trajectory,
    TrajectoryGroup,
)
from practicum.art.types import LocalTrainResult, TrainConfig, TrainResult

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
