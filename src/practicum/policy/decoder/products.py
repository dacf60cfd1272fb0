"""The products of one layer as sampling uses them: thin, many times over the same weights."""

import functools
import math
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import torch
from torch.linalg import vector_norm
from torch.nn.functional import linear

from practicum.policy.decoder.elementwise import Elementwise
from practicum.policy.decoder.parts import DecoderParts, LayerParts
from practicum.policy.decoder.projection import Projection

__all__ = [
    "JoinedProducts",
    "LayerProducts",
    "PackedProducts",
    "can_pack",
    "packed_linear",
    "packed_products",
]

_pointwise: Any = torch.ops.mkldnn._linear_pointwise
ONEDNN_ROWS = 16
"""Rows that oneDNN lays weights out for; more and fewer are right as well."""
MKL_ROWS = 256
"""Rows that MKL is told of; any number of them is right, and none was slower so."""


WORTH_PACKING = 2**17
"""Numbers that a weight has at least before its product gains more by packing than a call costs."""


class LayerProducts(Protocol):
    """A layer's products, each from rows (T, in), with the norms before them."""

    def qkv(self, x: torch.Tensor) -> torch.Tensor:
        """Norm; queries, keys and values, joined."""
        ...

    def output(self, attended: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        """Residual and what attention adds to it."""
        ...

    def activated(self, x: torch.Tensor) -> torch.Tensor:
        """Norm; silu(gate) * up."""
        ...

    def down(self, activated: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        """Residual and what the gated part adds to it."""
        ...


def can_pack(like: torch.Tensor) -> bool:
    """Whether this build of torch has packed products for such weights."""
    of_cpu = like.device.type == "cpu" and like.dtype == torch.float32
    return of_cpu and (_has_mkl() or _has_onednn())


def _has_mkl() -> bool:
    return torch.backends.mkl.is_available() and hasattr(torch.ops.mkl, "_mkl_linear")


def _has_onednn() -> bool:
    return torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")


@functools.cache
def _prefers_mkl() -> bool:
    """MKL is the fastest on Intel's processors, and slower than plain products on others."""
    listed = Path("/proc/cpuinfo")
    processor = listed.read_text() if listed.is_file() else platform.processor()
    return _has_mkl() and ("GenuineIntel" in processor or not _has_onednn())


def packed_products(parts: DecoderParts, small: Elementwise) -> "list[PackedProducts]":
    """Folded weights in the blocks that a library of this build reads fastest.

    A copy of the weights: made when sampling begins, dropped when learning does.
    """
    first = parts.layers[0]
    scratch = first.qkv.base.new_empty(max(p.outputs * p.inputs for p in first.projections))
    return [PackedProducts(layer, small, parts.eps, scratch) for layer in parts.layers]


class _FewRowsNorm:
    """Root mean square norm in the fewest operations: x / |(x, sqrt(n eps))| * (w sqrt(n)).

    For few rows an operation's cost is that of starting it.
    """

    def __init__(self, weight: torch.Tensor, eps: float) -> None:
        root = math.sqrt(weight.numel())
        self._weight = weight.detach() * root
        self._eps = weight.new_tensor(math.sqrt(eps) * root)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        length = torch.hypot(vector_norm(x, 2, -1, True), self._eps)
        return torch.div(x, length).mul_(self._weight)


class PackedProducts:
    """Packed products and, apart from them, the small operations: oneDNN fuses those at a loss."""

    def __init__(
        self, layer: LayerParts, small: Elementwise, eps: float, scratch: torch.Tensor
    ) -> None:
        self._small = small
        self._norm = _FewRowsNorm(layer.attention_norm, eps)
        self._mlp_norm = _FewRowsNorm(layer.mlp_norm, eps)
        self._qkv, self._output, self._gate_up, self._down = (
            packed_linear(p.folded(scratch), p.bias)
            for p in (layer.qkv, layer.output, layer.gate_up, layer.down)
        )

    def qkv(self, x: torch.Tensor) -> torch.Tensor:
        """One product."""
        return self._qkv(self._norm(x))

    def output(self, attended: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        """Added to the product."""
        return self._output(attended).add_(residual)

    def activated(self, x: torch.Tensor) -> torch.Tensor:
        """One product, then the gate."""
        return self._small.silu_mul(self._gate_up(self._mlp_norm(x)))

    def down(self, activated: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        """Added to the product."""
        return self._down(activated).add_(residual)


def packed_linear(weight: torch.Tensor, bias: torch.Tensor | None) -> Callable[..., torch.Tensor]:
    """A function from rows to their product with a weight that is copied and packed."""
    if weight.numel() < WORTH_PACKING:
        kept = weight.detach().clone()
        return lambda rows: linear(rows, kept, bias)
    if not _prefers_mkl():
        reordered = _reordered(weight)
        return lambda rows: _pointwise(rows, reordered, bias, "none", [], "")
    linear_of_mkl = torch.ops.mkl._mkl_linear.default
    packed = torch.ops.mkl._mkl_reorder_linear_weight(weight.detach().contiguous(), MKL_ROWS)
    # Only the shape of the second weight is read, as long as the rows are those that are announced.
    shape = weight.new_empty(1).expand(weight.shape)
    return lambda rows: linear_of_mkl(rows, packed, shape, bias, rows.shape[0])


def _reordered(weight: torch.Tensor) -> torch.Tensor:
    return torch.ops.mkldnn._reorder_linear_weight(weight.detach().contiguous(), ONEDNN_ROWS)


class JoinedProducts:
    """The learner's own weights and adapters, unfolded: nothing is copied."""

    def __init__(self, layer: LayerParts, small: Elementwise, eps: float) -> None:
        self._small, self._eps = small, eps
        self._layer = layer

    def qkv(self, x: torch.Tensor) -> torch.Tensor:
        """One product over input and adapters."""
        normed = self._small.rms_norm(x, self._layer.attention_norm, self._eps)
        return self._product(self._layer.qkv, normed)

    def output(self, attended: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        """Added while the product is made."""
        return self._product(self._layer.output, attended, residual)

    def activated(self, x: torch.Tensor) -> torch.Tensor:
        """One product, then the gate."""
        normed = self._small.rms_norm(x, self._layer.mlp_norm, self._eps)
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
