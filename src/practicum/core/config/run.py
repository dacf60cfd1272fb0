"""A whole run."""

from typing import Any

from pydantic import Field, field_validator

from practicum.core.config.algorithm import AlgorithmConfig
from practicum.core.config.reward import RewardConfig
from practicum.core.config.stage import Stage
from practicum.core.config.stages import (
    CheckpointConfig,
    EnvConfig,
    EvalConfig,
    HardwareConfig,
    LoraConfig,
    ModelConfig,
    RolloutConfig,
)

__all__ = ["RunConfig"]


class RunConfig(Stage):
    """Everything a run is told. Every field but `env` has a default."""

    env: EnvConfig
    """An environment's name, or its name and options."""
    model: ModelConfig = ModelConfig()
    """A model's name, or its name and options."""
    steps: int = Field(default=30, ge=1)
    """Updates of the weights."""
    seed: int = 0
    runs_dir: str = "runs"
    """Folder that holds the run's folder."""
    lora: LoraConfig = LoraConfig(preset="full")
    """light, attention or full, or the fields spelled out."""
    rollouts: RolloutConfig = RolloutConfig()
    reward: RewardConfig = RewardConfig()
    """turns or os, or its name and values; what the environment is made for unless given."""
    algorithm: AlgorithmConfig = AlgorithmConfig()
    eval: EvalConfig = EvalConfig()
    checkpoints: CheckpointConfig = CheckpointConfig()
    hardware: HardwareConfig = HardwareConfig()

    @field_validator("env", "model", mode="before")
    @classmethod
    def _name_alone(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value

    @field_validator("lora", mode="before")
    @classmethod
    def _preset_alone(cls, value: Any) -> Any:
        return {"preset": value} if isinstance(value, str) else value

    @field_validator("algorithm", "reward", mode="before")
    @classmethod
    def _method_alone(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value
