"""Evidence to scores."""

from practicum.rewards.outcome import OutcomeReward
from practicum.rewards.verifiable import TurnRewards

__all__ = ["OutcomeReward", "TurnRewards"]
