"""The products of one layer as sampling uses them: thin, many times over the same weights."""

from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch.nn.functional import linear

from practicum.policy.decoder.elementwise import Elementwise
from practicum.policy.decoder.parts import LayerParts
from practicum.policy.decoder.projection import Projection

__all__ = ["JoinedProducts", "LayerProducts", "PackedProducts", "can_pack", "packed_linear"]

_pointwise: Any = torch.ops.mkldnn._linear_pointwise
ROWS = 16
"""Rows that packed weights are laid out for; more and fewer are right as well."""


class LayerProducts(Protocol):
    """A layer's products, each from rows (T, in)."""

    def qkv(self, normed: torch.Tensor) -> torch.Tensor:
        """Queries, keys and values, joined."""
        ...

    def output(self, attended: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        """Residual and what attention adds to it."""
        ...

    def activated(self, normed: torch.Tensor) -> torch.Tensor:
        """silu(gate) * up."""
        ...

    def down(self, activated: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        """Residual and what the gated part adds to it."""
        ...


def can_pack(like: torch.Tensor) -> bool:
    """Whether this build of torch has oneDNN's packed products for such weights."""
    return (
        like.device.type == "cpu"
        and like.dtype == torch.float32
        and torch.backends.mkldnn.is_available()
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    )


class PackedProducts:
    """Adapters folded in, weights in the blocks that oneDNN reads, small operations fused in.

    A copy of the weights: made when sampling begins, dropped when learning does.
    """

    def __init__(self, layer: LayerParts) -> None:
        self._qkv = _packed(layer.qkv.folded())
        self._output = _packed(layer.output.folded())
        middle = layer.gate_up.sizes[0]
        gate_up = layer.gate_up.folded()
        self._gate, self._up = _packed(gate_up[:middle]), _packed(gate_up[middle:])
        self._down = _packed(layer.down.folded())
        bias = layer.gate_up.bias
        self._biases = (layer.qkv.bias, layer.output.bias, layer.down.bias)
        self._gate_bias = None if bias is None else bias[:middle].contiguous()
        self._up_bias = None if bias is None else bias[middle:].contiguous()

    def qkv(self, normed: torch.Tensor) -> torch.Tensor:
        """One product."""
        return _pointwise(normed, self._qkv, self._biases[0], "none", [], "")

    def output(self, attended: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        """The addition is part of the product."""
        return _pointwise.binary(attended, residual, self._output, self._biases[1], "add")

    def activated(self, normed: torch.Tensor) -> torch.Tensor:
        """The gate is part of the two products."""
        gate = _pointwise(normed, self._gate, self._gate_bias, "swish", [], "")
        return _pointwise.binary(normed, gate, self._up, self._up_bias, "mul")

    def down(self, activated: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        """The addition is part of the product."""
        return _pointwise.binary(activated, residual, self._down, self._biases[2], "add")


def packed_linear(weight: torch.Tensor, bias: torch.Tensor | None) -> Callable[..., torch.Tensor]:
    """A function from rows to their product with a weight that is copied and packed."""
    packed = _packed(weight)
    return lambda rows: _pointwise(rows, packed, bias, "none", [], "")


def _packed(weight: torch.Tensor) -> torch.Tensor:
    return torch.ops.mkldnn._reorder_linear_weight(weight.detach().contiguous(), ROWS)


class JoinedProducts:
    """The learner's own weights and adapters, unfolded: nothing is copied."""

    def __init__(self, layer: LayerParts, small: Elementwise) -> None:
        self._small = small
        self._layer = layer

    def qkv(self, normed: torch.Tensor) -> torch.Tensor:
        """One product over input and adapters."""
        return self._product(self._layer.qkv, normed)

    def output(self, attended: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        """Added while the product is made."""
        return self._product(self._layer.output, attended, residual)

    def activated(self, normed: torch.Tensor) -> torch.Tensor:
        """One product, then the gate."""
        return self._small.silu_mul(self._product(self._layer.gate_up, normed))

    def down(self, activated: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        """Added while the product is made."""
        return self._product(self._layer.down, activated, residual)

    def _product(
        self, projection: Projection, x: torch.Tensor, add: torch.Tensor | None = None
    ) -> torch.Tensor:
        weight = projection.base
        if projection.is_adapted:
            x, weight = torch.cat([x, x @ projection.first.t()], dim=1), projection.joined
        if add is None:
            return linear(x, weight, projection.bias)
        out = torch.addmm(add, x, weight.t())
        return out if projection.bias is None else out.add_(projection.bias)
