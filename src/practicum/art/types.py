"""What training is told and what it answers."""

from dataclasses import dataclass, field

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["LEARNING_RATE", "LocalTrainResult", "TrainConfig", "TrainResult"]

LEARNING_RATE = 5e-6
"""ART's; small models on small tasks want a higher one."""


class TrainConfig(BaseModel):
    """What `model.train` is told."""

    model_config = ConfigDict(extra="forbid")

    learning_rate: float = Field(default=LEARNING_RATE, gt=0.0)
    kl_penalty_coef: float = Field(default=0.0, ge=0.0)
    """What leaving the base model costs a token, taken off its advantage."""
    beta: float = Field(default=0.0, ge=0.0)
    """Weight of the distance to the base model in the loss, as earlier versions of ART name it."""


@dataclass(slots=True)
class TrainResult:
    """What one call of `train` came to."""

    step: int
    """Steps completed, this one included."""
    metrics: dict[str, float] = field(default_factory=dict)


@dataclass(slots=True)
class LocalTrainResult(TrainResult):
    """The same, and where the adapter was saved."""

    checkpoint_path: str | None = None
