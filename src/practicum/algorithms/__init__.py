"""Credit and loss, one file per method, pure functions."""

from practicum.algorithms.grpo import Grpo

__all__ = ["Grpo"]
