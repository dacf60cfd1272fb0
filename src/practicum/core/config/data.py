"""What is learned from besides the policy's own episodes, and in which order."""

from typing import Any

from pydantic import Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from practicum.core.config.algorithm import AlgorithmConfig
from practicum.core.config.reward import RewardConfig
from practicum.core.config.stage import Stage
from practicum.core.config.stages import RolloutConfig

__all__ = ["REFERENCE", "DataConfig", "TrainingStageConfig"]

REFERENCE = "reference"
"""The source that is an environment's own solutions."""


class DataConfig(Stage):
    """Recorded conversations to learn from."""

    source: str
    """`reference`: the environment's own solutions, played in it; or a store of traces, a run's
    folder, or a dataset that `practicum dataset build` made."""
    imports: tuple[str, ...] = ()
    """Files or folders that are brought into the store first; what is there already is left."""
    format: str = "auto"
    """What the imported files are; recognised by their content unless told."""
    where: str = ""
    """Which traces, in the words of `practicum traces list --where`."""
    n: int = Field(default=0, ge=0)
    """At most so many examples; 0 takes all there are, and 500 of `reference`."""
    reward: RewardConfig | None = None
    """Scores the traces before anything is made of them; their store keeps the scores it has. What
    it says then decides what is good, before the outcome and after what people said."""
    good_at: float = 0.5
    """The score from which a trace is a good one, where nothing else says so."""
    heldout: float = Field(default=0.0, ge=0.0, lt=1.0)
    """Share of the tasks kept apart, on which the loss is reported."""
    seed: int = 0
    """Which examples, where there are more than `n`, which are held out, and their order."""

    @field_validator("imports", mode="before")
    @classmethod
    def _one_alone(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value

    @field_validator("reward", mode="before")
    @classmethod
    def _reward_alone(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _solutions_are_not_traces(self) -> "DataConfig":
        asked = {"imports": self.imports, "where": self.where, "reward": self.reward}
        stray = [key for key, value in asked.items() if value]
        if self.source == REFERENCE and stray:
            raise PydanticCustomError(
                "data",
                "{key} is for recorded traces, and source: reference plays the environment's own "
                "solutions; take it out, or name a store as the source",
                {"key": stray[0]},
            )
        if self.reward is not None and self.reward.combine != "sum":
            raise PydanticCustomError(
                "data",
                "combine: normalise compares the episodes of a group, and traces are scored one by "
                "one; take it out of data.reward",
            )
        return self


class TrainingStageConfig(Stage):
    """One of several methods that a run goes through, each from where the last one ended."""

    steps: int = Field(ge=1)
    """Steps of this stage."""
    algorithm: AlgorithmConfig = AlgorithmConfig()
    data: DataConfig | None = None
    """What it learns from, where its method does not learn from episodes it makes."""
    rollouts: RolloutConfig | None = None
    """How its episodes are made; the run's own `rollouts` unless given."""

    @field_validator("algorithm", mode="before")
    @classmethod
    def _method_alone(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value

    @field_validator("data", mode="before")
    @classmethod
    def _source_alone(cls, value: Any) -> Any:
        return {"source": value} if isinstance(value, str) else value
