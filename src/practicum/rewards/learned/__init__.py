"""A reward learned from people's labels, and what chooses the traces they are asked about."""

from practicum.rewards.learned.agreement import Agreement, cohens_kappa
from practicum.rewards.learned.calibration import Calibration, measure_calibration
from practicum.rewards.learned.labeler import (
    FEWEST_OF_EACH,
    Labeler,
    Prediction,
    TracePool,
    can_learn,
)
from practicum.rewards.learned.queue import Order, ReviewQueue
from practicum.rewards.learned.reward import LearnedReward, RewardForm
from practicum.rewards.learned.saving import load_labeler, save_labeler
from practicum.rewards.learned.space import Embedder
from practicum.rewards.learned.validation import CrossValidated

__all__ = [
    "FEWEST_OF_EACH",
    "Agreement",
    "Calibration",
    "CrossValidated",
    "Embedder",
    "Labeler",
    "LearnedReward",
    "Order",
    "Prediction",
    "ReviewQueue",
    "RewardForm",
    "TracePool",
    "can_learn",
    "cohens_kappa",
    "load_labeler",
    "measure_calibration",
    "save_labeler",
]
