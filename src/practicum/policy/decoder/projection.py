"""Linear layers that read the same input, joined into one matrix, their adapters in it.

A joined layer's weight has the second halves of its adapters beside it and the first ones below:

    W  s B
    A   0

Learning multiplies by the upper part, y = [x, x A'] [W, s B]' and backwards
[dx, dy s B] = dy [W, s B], so an adapter costs one thin product forward and three backward, and no
pass over the output. Sampling multiplies by the left part, [y, x A'] = x [W; A]', and adds the rest
in passing. The layers of the `transformers` module keep their own weights, as views into it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

__all__ = ["Adapter", "Projection"]


@dataclass(frozen=True, slots=True)
class Adapter:
    """One LoRA pair: the outputs it adds to, its columns among all ranks, and its `peft` layer."""

    outputs: slice
    ranks: slice
    layer: Any

    @property
    def first(self) -> torch.Tensor:
        """A, (r, in)."""
        return self.layer.lora_A["default"].weight

    @property
    def second(self) -> torch.Tensor:
        """B, (out, r)."""
        return self.layer.lora_B["default"].weight

    @property
    def scale(self) -> float:
        """What the product of the two is multiplied by."""
        return float(self.layer.scaling["default"])


class Projection:
    """A joined linear layer with the adapters of its parts."""

    def __init__(self, layers: Sequence[Any]) -> None:
        bases = [getattr(layer, "base_layer", layer) for layer in layers]
        self.inputs = bases[0].in_features
        self.sizes = tuple(base.out_features for base in bases)
        self.adapters = _adapters(layers, self.sizes)
        self.ranks = self.adapters[-1].ranks.stop if self.adapters else 0
        self.outputs = sum(self.sizes)
        whole = (self.outputs + self.ranks, self.inputs + self.ranks)
        self._whole = bases[0].weight.new_zeros(whole)
        self.bias = _joined_bias(bases)
        begin = 0
        for base in bases:
            part = self._whole[begin : begin + base.out_features, : self.inputs]
            part.copy_(base.weight.data)
            base.weight.data = part
            begin += base.out_features

    @property
    def base(self) -> torch.Tensor:
        """(out, in), without any adapter."""
        return self._whole[: self.outputs, : self.inputs]

    @property
    def joined(self) -> torch.Tensor:
        """(out, in + ranks): the weight, and the second halves beside it."""
        return self._whole[: self.outputs]

    @property
    def stacked(self) -> torch.Tensor:
        """(out + ranks, in): the weight, and the first halves below it."""
        return self._whole[:, : self.inputs]

    @property
    def first(self) -> torch.Tensor:
        """(ranks, in): every A, one below the other, as they were when they were last put here."""
        return self._whole[self.outputs :, : self.inputs]

    @property
    def second(self) -> torch.Tensor:
        """(out, ranks): every B times its scale, each beside the outputs it adds to."""
        return self._whole[: self.outputs, self.inputs :]

    @property
    def is_adapted(self) -> bool:
        """Whether its adapters count now; `peft` switches them all together."""
        return bool(self.adapters) and not self.adapters[0].layer.disable_adapters

    def parameters(self) -> tuple[torch.nn.Parameter, ...]:
        """A and B of every adapter, in order."""
        return tuple(p for a in self.adapters for p in (a.first, a.second))

    def places(self) -> list[tuple[torch.Tensor, torch.Tensor, float]]:
        """Where each half of each adapter goes, what it is now, and its factor there."""
        found = []
        for a in self.adapters:
            found.append((self.first[a.ranks], a.first.detach(), 1.0))
            found.append((self.second[a.outputs, a.ranks], a.second.detach(), a.scale))
        return found

    @torch.no_grad()
    def folded(self, scratch: torch.Tensor) -> torch.Tensor:
        """The weight and what its adapters add to it, (out, in), made in a flat buffer."""
        weight = scratch[: self.outputs * self.inputs].view(self.outputs, self.inputs)
        weight.copy_(self.base)
        if self.is_adapted:
            for a in self.adapters:
                weight[a.outputs].addmm_(a.second.detach(), a.first.detach(), alpha=a.scale)
        return weight


def _adapters(layers: Sequence[Any], sizes: Sequence[int]) -> tuple[Adapter, ...]:
    found: list[Adapter] = []
    output = rank = 0
    for layer, size in zip(layers, sizes, strict=True):
        if hasattr(layer, "lora_A"):
            r = layer.lora_A["default"].weight.shape[0]
            found.append(Adapter(slice(output, output + size), slice(rank, rank + r), layer))
            rank += r
        output += size
    return tuple(found)


def _joined_bias(bases: Sequence[Any]) -> torch.Tensor | None:
    if all(base.bias is None for base in bases):
        return None
    return torch.cat(
        [
            base.bias.data if base.bias is not None else base.weight.new_zeros(base.out_features)
            for base in bases
        ]
    )
