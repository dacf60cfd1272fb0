"""The adapter folded into the weights while sampling, and taken out again exactly.

Sampling with a folded adapter costs what the base model costs. Folding never touches the base
weights: each layer is given a new tensor, base plus adapter, and later its own tensor back, so what
the learner finds is the same to the bit.
"""

from typing import Any

import torch

__all__ = ["AdapterFold"]


class AdapterFold:
    """Folds and unfolds one model's adapter; both may be called at any time."""

    def __init__(self, model: Any) -> None:
        from peft.tuners.lora import LoraLayer

        self._layers = [m for m in model.modules() if isinstance(m, LoraLayer)]
        self._base: list[torch.Tensor] = []

    @property
    def is_folded(self) -> bool:
        """Whether the layers hold base plus adapter now."""
        return bool(self._base)

    @torch.no_grad()
    def fold(self) -> None:
        """Give every layer base plus adapter."""
        if self.is_folded:
            return
        for layer in self._layers:
            weight = layer.get_base_layer().weight
            self._base.append(weight.data)
            weight.data = weight.data + layer.get_delta_weight("default").to(weight.dtype)
            layer._disable_adapters = True  # the public setter also changes what is trainable

    def unfold(self) -> None:
        """Give every layer its own base weights and adapter back."""
        for layer, base in zip(self._layers, self._base, strict=False):
            layer.get_base_layer().weight.data = base
            layer._disable_adapters = False
        self._base.clear()
