"""Which reward scores an environment's episodes."""

from practicum.core.config import RewardConfig
from practicum.core.errors import ConfigError
from practicum.core.interfaces import Environment, Reward
from practicum.rewards import OutcomeReward, TurnRewards

__all__ = ["build_reward"]

PAID_BY_TURN = "turns"
"""What environments are made for that do not say otherwise."""


def build_reward(config: RewardConfig, environment: Environment) -> Reward:
    """The reward a config names, or the one that the environment is made for."""
    made_for = str(getattr(environment, "default_reward", PAID_BY_TURN))
    name = made_for if config.name == "auto" else config.name
    if name == PAID_BY_TURN:
        if made_for != PAID_BY_TURN:
            raise ConfigError(
                f"reward = 'turns' cannot be used: {environment.name!r} pays nothing for a turn; "
                f"write reward: {made_for}, or leave it out"
            )
        return TurnRewards()
    return OutcomeReward(
        correct=config.correct,
        incorrect=config.incorrect,
        unknown=config.unknown,
        malformed=config.malformed,
    )
