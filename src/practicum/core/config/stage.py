"""What every config model has in common."""

from pydantic import BaseModel, ConfigDict

__all__ = ["Stage"]


class Stage(BaseModel):
    """Base of every config model: frozen, unknown keys refused, help from field docstrings."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True
    )
