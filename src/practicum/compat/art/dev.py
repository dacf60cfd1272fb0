"""The names under `art.dev` that scripts use to describe a model; each is a dictionary.

`peft_args` and `trainer_args` are read by `practicum.compat.art.local`; what is about vLLM and
Unsloth is kept and has no effect.
"""

from typing import Any


class InternalModelConfig(dict[str, Any]):
    """`init_args`, `engine_args`, `peft_args`, `trainer_args`."""


class InitArgs(dict[str, Any]):
    """How Unsloth would load the model; has no effect."""


class EngineArgs(dict[str, Any]):
    """How vLLM would serve the model; has no effect."""


class OpenAIServerConfig(dict[str, Any]):
    """How vLLM's server would listen; has no effect."""


class PeftArgs(dict[str, Any]):
    """The adapter: `r`, `lora_alpha`, `lora_dropout`, `target_modules`."""


class TrainerArgs(dict[str, Any]):
    """The optimizer: `learning_rate`, `max_grad_norm`, `weight_decay`."""


class TrainConfig(dict[str, Any]):
    """Options of `LocalBackend.train`, for `model.train(..., _config=)`."""
