"""Memory for cached keys and values: one slot a token, shared by every path."""

from typing import Any

import torch

__all__ = ["KvPool"]


class KvPool:
    """Keys and values of all layers, each (capacity + 1, kv_heads, head_dim).

    The slot after the last belongs to nobody: rows that only fill up a batch write there.
    """

    def __init__(
        self, config: Any, capacity: int, dtype: torch.dtype, device: torch.device
    ) -> None:
        heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
        head_dim = (
            getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        )
        self._shape = (heads, head_dim)
        self._options = {"dtype": dtype, "device": device}
        self.layers = [
            (self._empty(capacity), self._empty(capacity)) for _ in range(config.num_hidden_layers)
        ]

    def _empty(self, capacity: int) -> torch.Tensor:
        return torch.zeros((capacity + 1, *self._shape), **self._options)

    @property
    def spare(self) -> int:
        """The slot that belongs to nobody."""
        return self.layers[0][0].shape[0] - 1

    def grow(self, capacity: int) -> None:
        """More slots; what is cached stays where it is."""
        self.layers = [(self._grown(k, capacity), self._grown(v, capacity)) for k, v in self.layers]

    def _grown(self, old: torch.Tensor, capacity: int) -> torch.Tensor:
        new = self._empty(capacity)
        new[: old.shape[0] - 1] = old[:-1]
        return new
