"""Evidence to scores."""

from practicum.rewards.verifiable import TurnRewards

__all__ = ["TurnRewards"]
