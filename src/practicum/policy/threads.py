"""CPU threads, pinned: one thread and two give different bits."""

import torch

__all__ = ["pin_threads"]


def pin_threads(count: int) -> None:
    """Use exactly `count` threads inside operations."""
    torch.set_num_threads(count)
