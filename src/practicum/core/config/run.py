"""A whole run."""

from typing import Any

from pydantic import Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from practicum.core.config.agent import AgentConfig
from practicum.core.config.algorithm import AlgorithmConfig
from practicum.core.config.data import REFERENCE, DataConfig, TrainingStageConfig
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

NEEDS_GROUPS = frozenset({"grpo", "dr_grpo", "dapo", "gspo", "cispo", "rloo"})
"""Methods that have nothing to learn from an episode alone."""


class RunConfig(Stage):
    """Everything a run is told. Every field but `env` has a default."""

    env: EnvConfig
    """An environment's name, or its name and options; `none` to learn from recorded traces alone,
    without held-out tasks to evaluate on."""
    model: ModelConfig = ModelConfig()
    """A model's name, or its name and options."""
    steps: int = Field(default=30, ge=1)
    """Updates of the weights; with `stages`, the sum of theirs."""
    seed: int = 0
    runs_dir: str = "runs"
    """Folder that holds the run's folder."""
    lora: LoraConfig = LoraConfig(preset="full")
    """light, attention or full, or the fields spelled out."""
    rollouts: RolloutConfig = RolloutConfig()
    agent: AgentConfig = AgentConfig()
    """Who does the work: a loop over the environment's actions or tools unless told, or a program
    of your own; see docs/agents.md."""
    reward: RewardConfig = RewardConfig()
    """turns or os, or its name and values; what the environment is made for unless given."""
    algorithm: AlgorithmConfig = AlgorithmConfig()
    data: DataConfig | None = None
    """What is learned from, where the method does not learn from episodes it makes."""
    stages: tuple[TrainingStageConfig, ...] = ()
    """Several methods one after the other, such as `sft` and then `grpo`, in place of `steps`,
    `algorithm` and `data`."""
    eval: EvalConfig = EvalConfig()
    checkpoints: CheckpointConfig = CheckpointConfig()
    hardware: HardwareConfig = HardwareConfig()

    @model_validator(mode="before")
    @classmethod
    def _count_steps(cls, value: Any) -> Any:
        """The steps of all stages, where there are any."""
        stages = value.get("stages") if isinstance(value, dict) else None
        if not isinstance(stages, list | tuple) or not stages:
            return value
        counts = [s.get("steps") if isinstance(s, dict) else getattr(s, "steps", 0) for s in stages]
        if not all(isinstance(count, int) and count > 0 for count in counts):
            return value  # what is wrong with a stage is said where it is read
        total = sum(int(count) for count in counts if count)
        if value.get("steps", total) != total:
            raise PydanticCustomError(
                "stages",
                "steps = {steps} and stages exclude each other, whose steps add up to {sum}; take "
                "it out, and change the steps of a stage instead",
                {"steps": repr(value["steps"]), "sum": total},
            )
        return {**value, "steps": total}

    @model_validator(mode="after")
    def _stages_or_one_method(self) -> "RunConfig":
        if self.stages and (self.data is not None or self.algorithm != AlgorithmConfig()):
            key = "data" if self.data is not None else "algorithm"
            raise PydanticCustomError(
                "stages", "{key} and stages exclude each other; move it into a stage", {"key": key}
            )
        for number, stage in enumerate(self.all_stages, start=1):
            name, where = stage.algorithm.name, f"stages[{number}]" if self.stages else "the run"
            if stage.algorithm.is_offline and stage.data is None:
                raise PydanticCustomError(
                    "stages",
                    "{name} learns from recorded examples and {where} has no data; write, for "
                    "instance, data: reference",
                    {"name": name, "where": where},
                )
            if not stage.algorithm.is_offline and stage.data is not None:
                raise PydanticCustomError(
                    "stages",
                    "{name} learns from episodes it makes, so the data of {where} would not be "
                    "used; take it out, or choose sft, weighted_sft, kto or dpo",
                    {"name": name, "where": where},
                )
            if name in NEEDS_GROUPS and (stage.rollouts or self.rollouts).group_size < 2:
                raise PydanticCustomError(
                    "stages",
                    "{name} compares the episodes of a group, and rollouts.group_size is 1; give "
                    "at least 2",
                    {"name": name},
                )
            if stage.algorithm.baseline and self.rollouts_of(stage).group_size < 2:
                raise PydanticCustomError(
                    "stages",
                    "{name} takes a group's mean off, and rollouts.group_size is 1; give at least "
                    "2, or baseline: false",
                    {"name": name},
                )
        return self

    @model_validator(mode="after")
    def _acting_needs_a_place(self) -> "RunConfig":
        if self.acts:
            return self
        if self.env.options:
            raise PydanticCustomError(
                "env",
                "env: none takes no options, and has {key}; name an environment, or take it out",
                {"key": next(iter(self.env.options))},
            )
        for stage in self.all_stages:
            name = stage.algorithm.name
            if not stage.algorithm.is_offline:
                raise PydanticCustomError(
                    "env",
                    "{name} learns from episodes it makes, and env is none; name an environment, "
                    "such as env: math, or choose sft, weighted_sft, kto or dpo",
                    {"name": name},
                )
            if stage.data is not None and stage.data.source == REFERENCE:
                raise PydanticCustomError(
                    "env",
                    "data: reference plays an environment's solutions, and env is none; name an "
                    "environment, such as env: math, or a store of traces",
                )
        return self

    @property
    def acts(self) -> bool:
        """Whether there is an environment to act in."""
        return not self.env.is_none

    @property
    def all_stages(self) -> tuple[TrainingStageConfig, ...]:
        """The stages, one where none are spelled out."""
        only = TrainingStageConfig(steps=self.steps, algorithm=self.algorithm, data=self.data)
        return self.stages or (only,)

    def rollouts_of(self, stage: TrainingStageConfig) -> RolloutConfig:
        """How a stage's episodes are made."""
        return stage.rollouts or self.rollouts

    @field_validator("data", mode="before")
    @classmethod
    def _source_alone(cls, value: Any) -> Any:
        return {"source": value} if isinstance(value, str) else value

    @field_validator("env", "model", mode="before")
    @classmethod
    def _name_alone(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value

    @field_validator("lora", mode="before")
    @classmethod
    def _preset_alone(cls, value: Any) -> Any:
        return {"preset": value} if isinstance(value, str) else value

    @field_validator("agent", "algorithm", "reward", mode="before")
    @classmethod
    def _method_alone(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value
