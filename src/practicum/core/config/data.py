"""What is learned from besides the policy's own episodes, and in which order."""

from typing import Any

from pydantic import Field, field_validator

from practicum.core.config.algorithm import AlgorithmConfig
from practicum.core.config.stage import Stage
from practicum.core.config.stages import RolloutConfig

__all__ = ["DataConfig", "TrainingStageConfig"]


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
    heldout: float = Field(default=0.0, ge=0.0, lt=1.0)
    """Share of the tasks kept apart, on which the loss is reported."""
    seed: int = 0

    @field_validator("imports", mode="before")
    @classmethod
    def _one_alone(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value


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
