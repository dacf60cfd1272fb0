"""How an episode's evidence becomes its score."""

from typing import Literal

from pydantic import model_validator
from pydantic_core import PydanticCustomError

from practicum.core.config.stage import Stage

__all__ = ["RewardConfig"]


class RewardConfig(Stage):
    """How an episode's evidence becomes its score."""

    name: Literal["auto", "turns", "os"] = "auto"
    """`turns`: the sum of what the environment paid for each turn; `os`: one value for the whole
    episode, by its outcome; `auto`: what the environment is made for."""
    correct: float = 1.0
    """With `os`: the task was done."""
    incorrect: float = -0.5
    """With `os`: it was not."""
    unknown: float = 0.0
    """With `os`: it cannot be said whether it was."""
    malformed: float | None = None
    """With `os`: it was not, and the episode ended with a turn in no known form; as `incorrect`
    unless given."""

    @model_validator(mode="after")
    def _values_belong_to_outcomes(self) -> "RewardConfig":
        values = _DEFAULT_VALUES.keys() & self.model_fields_set
        stray = sorted(key for key in values if getattr(self, key) != _DEFAULT_VALUES[key])
        if self.name == "turns" and stray:
            raise PydanticCustomError(
                "reward",
                "{key} is for the reward `os`; `turns` takes what the environment pays",
                {"key": stray[0]},
            )
        return self


_DEFAULT_VALUES = {"correct": 1.0, "incorrect": -0.5, "unknown": 0.0, "malformed": None}
