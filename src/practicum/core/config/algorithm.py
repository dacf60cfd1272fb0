"""How scores become an update."""

from typing import Literal

from pydantic import Field

from practicum.core.config.stage import Stage

__all__ = ["AlgorithmConfig"]


class AlgorithmConfig(Stage):
    """How scores become an update."""

    name: Literal["grpo"] = "grpo"
    lr: float = Field(default=3e-4, gt=0.0)
    """Learning rate of AdamW."""
    credit: Literal["turn", "episode"] = "turn"
    """`turn`: each turn is credited with what it and later turns earned, where a reward for the
    whole episode counts as earned at its end; `episode`: every turn with the whole episode's
    score."""
    discount: float = Field(default=1.0, gt=0.0, le=1.0)
    """What a reward one turn later counts, with `credit: turn`."""
    scale: Literal["std", "none"] = "std"
    """Whether advantages are divided by the group's standard deviation."""
    clip: float = Field(default=0.2, gt=0.0)
    """The ratio to the sampling policy is clipped to 1 ± this."""
    kl: float = Field(default=0.0, ge=0.0)
    """Weight of the distance to the base model in the loss."""
    epochs: int = Field(default=1, ge=1)
    """Updates made from the same episodes."""
    max_grad_norm: float = Field(default=1.0, gt=0.0)
    weight_decay: float = Field(default=0.0, ge=0.0)
    micro_batch_tokens: int = Field(default=0, ge=0)
    """Unique tokens that go through the model at once while learning; 0 takes what suits the
    machine's memory, as `practicum train --dry-run` shows. Another number gives other bits."""
