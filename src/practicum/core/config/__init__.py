"""What a run is told, checked when it is read. Imports nothing heavy."""

from practicum.core.config.agent import AgentConfig
from practicum.core.config.algorithm import AlgorithmConfig
from practicum.core.config.data import DataConfig, TrainingStageConfig
from practicum.core.config.parse import apply_overrides, build_config, changed_keys, parse_yaml
from practicum.core.config.reward import RewardConfig
from practicum.core.config.run import RunConfig
from practicum.core.config.stage import Stage
from practicum.core.config.stages import (
    LORA_PRESETS,
    CheckpointConfig,
    EnvConfig,
    EvalConfig,
    HardwareConfig,
    LoraConfig,
    ModelConfig,
    RolloutConfig,
)

__all__ = [
    "LORA_PRESETS",
    "AgentConfig",
    "AlgorithmConfig",
    "CheckpointConfig",
    "DataConfig",
    "EnvConfig",
    "EvalConfig",
    "HardwareConfig",
    "LoraConfig",
    "ModelConfig",
    "RewardConfig",
    "RolloutConfig",
    "RunConfig",
    "Stage",
    "TrainingStageConfig",
    "apply_overrides",
    "build_config",
    "changed_keys",
    "parse_yaml",
]
