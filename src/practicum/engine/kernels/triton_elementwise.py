"""The small operations of a decoder as one kernel each; `decoder.elementwise` has them in torch."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from practicum.engine.kernels.norm_kernels import (
    add_rms_norm,
    head_rms_norm,
    head_rms_norm_backward,
    rms_norm_backward,
)
from practicum.engine.kernels.rotary_kernels import rotate

BLOCK = 1024
"""Elements of a program: eight a thread, which is one 16-byte load of bfloat16."""


TILE = (16, 128)
"""Rows and columns of a program that also multiplies by an adapter."""


def silu_mul(
    gate_up: torch.Tensor,
    out: torch.Tensor | None = None,
    adapter: tuple[torch.Tensor, torch.Tensor] | None = None,
) -> torch.Tensor:
    """silu(gate) * up, in float32 until it is stored.

    Args:
        gate_up: (T, 2 * I) joined projections, the gate first; rows may be apart, here and below.
        out: (T, I) where to write.
        adapter: (T, ranks) and (2 * I, ranks), whose product is added to `gate_up` first.

    Returns:
        (T, I).
    """
    rows, width = gate_up.shape[0], gate_up.shape[1] // 2
    if out is None:
        out = torch.empty((rows, width), dtype=gate_up.dtype, device=gate_up.device)
    if adapter is not None:
        inner, second = adapter
        _adapted_silu_mul[(triton.cdiv(width, TILE[1]), triton.cdiv(rows, TILE[0]))](
            gate_up,
            inner,
            second,
            out,
            rows,
            gate_up.stride(0),
            inner.stride(0),
            second.stride(0),
            out.stride(0),
            WIDTH=width,
            RANKS=inner.shape[1],
            PADDED=max(16, triton.next_power_of_2(inner.shape[1])),
            ROWS=TILE[0],
            COLUMNS=TILE[1],
            num_warps=4,
        )
        return out
    _silu_mul[(rows, triton.cdiv(width, BLOCK))](
        gate_up, out, gate_up.stride(0), out.stride(0), WIDTH=width, BLOCK=BLOCK, num_warps=4
    )
    return out


def silu_mul_backward(
    grad: torch.Tensor, gate_up: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Gradient of the joined projections, and the activation computed again on the way.

    Args:
        grad: (T, I) gradient of the activation; rows may be apart, here and below.
        gate_up: (T, 2 * I) joined projections, the gate first.

    Returns:
        The gradient, (T, 2 * I), and the activation, (T, I).
    """
    rows, width = grad.shape
    grad_gate_up = torch.empty((rows, 2 * width), dtype=grad.dtype, device=grad.device)
    act = torch.empty((rows, width), dtype=grad.dtype, device=grad.device)
    _silu_mul_backward[(rows, triton.cdiv(width, BLOCK))](
        grad,
        gate_up,
        grad_gate_up,
        act,
        grad.stride(0),
        gate_up.stride(0),
        WIDTH=width,
        BLOCK=BLOCK,
        num_warps=4,
    )
    return grad_gate_up, act


@triton.jit
def _silu_mul(
    gate_up: tl.tensor,
    out: tl.tensor,
    in_stride: tl.tensor,
    out_stride: tl.tensor,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < WIDTH
    source = gate_up + row * in_stride + column
    gate = tl.load(source, mask=inside, other=0.0).to(tl.float32)
    up = tl.load(source + WIDTH, mask=inside, other=0.0).to(tl.float32)
    result = gate * tl.sigmoid(gate) * up
    tl.store(out + row * out_stride + column, result.to(out.dtype.element_ty), mask=inside)


@triton.jit
def _adapted_silu_mul(  # noqa: PLR0913
    gate_up: tl.tensor,
    inner: tl.tensor,
    second: tl.tensor,
    out: tl.tensor,
    rows: tl.tensor,
    in_stride: tl.tensor,
    inner_stride: tl.tensor,
    second_stride: tl.tensor,
    out_stride: tl.tensor,
    WIDTH: tl.constexpr,
    RANKS: tl.constexpr,
    PADDED: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
) -> None:
    row = (tl.program_id(1) * ROWS + tl.arange(0, ROWS)).to(tl.int64)
    column = (tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)).to(tl.int64)
    rank = tl.arange(0, PADDED)
    there = (row < rows)[:, None] & (column < WIDTH)[None]
    few = tl.load(
        inner + row[:, None] * inner_stride + rank[None],
        mask=(row < rows)[:, None] & (rank < RANKS)[None],
        other=0.0,
    )
    factor = second + column[None] * second_stride + rank[:, None]
    known = (column < WIDTH)[None] & (rank < RANKS)[:, None]
    source = gate_up + row[:, None] * in_stride + column[None]
    gate = tl.load(source, mask=there, other=0.0).to(tl.float32)
    gate += tl.dot(few, tl.load(factor, mask=known, other=0.0), input_precision="ieee")
    factor += WIDTH * second_stride
    up = tl.load(source + WIDTH, mask=there, other=0.0).to(tl.float32)
    up += tl.dot(few, tl.load(factor, mask=known, other=0.0), input_precision="ieee")
    result = gate * tl.sigmoid(gate) * up
    target = out + row[:, None] * out_stride + column[None]
    tl.store(target, result.to(out.dtype.element_ty), mask=there)


@triton.jit
def _silu_mul_backward(
    grad: tl.tensor,
    gate_up: tl.tensor,
    grad_gate_up: tl.tensor,
    act: tl.tensor,
    grad_stride: tl.tensor,
    in_stride: tl.tensor,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < WIDTH
    source = gate_up + row * in_stride + column
    gate = tl.load(source, mask=inside, other=0.0).to(tl.float32)
    up = tl.load(source + WIDTH, mask=inside, other=0.0).to(tl.float32)
    outer = tl.load(grad + row * grad_stride + column, mask=inside, other=0.0).to(tl.float32)
    share = tl.sigmoid(gate)
    silu = gate * share
    kind = act.dtype.element_ty
    tl.store(act + row * WIDTH + column, (silu * up).to(kind), mask=inside)
    slope = share + silu * (1.0 - share)
    there = grad_gate_up + row * (2 * WIDTH) + column
    tl.store(there, (outer * up * slope).to(kind), mask=inside)
    tl.store(there + WIDTH, (outer * silu).to(kind), mask=inside)


class TritonElementwise:
    """On NVIDIA GPUs."""

    def rms_norm(self, x: Tensor, weight: Tensor, eps: float, out: Tensor | None = None) -> Tensor:
        """Rows, or every head of them."""
        if x.dim() == 3:
            return head_rms_norm(x, weight, eps)
        return add_rms_norm(x, weight, eps, out=out)[0]

    def rms_norm_backward(
        self, grad: Tensor, x: Tensor, weight: Tensor, eps: float, add: Tensor | None = None
    ) -> Tensor:
        """Gradient of the rows, plus `add`."""
        if x.dim() == 3:
            return head_rms_norm_backward(grad, x, weight, eps)
        return rms_norm_backward(grad, x, weight, eps, add)

    def rotate(
        self, x: Tensor, cos: Tensor, sin: Tensor, inverse: bool = False, out: Tensor | None = None
    ) -> Tensor:
        """Each token by its own row of the tables."""
        return rotate(x, cos, sin, torch.arange(x.shape[0], device=x.device), inverse, out)

    def silu_mul(self, gate_up: Tensor, out: Tensor | None = None) -> Tensor:
        """silu(gate) * up from (T, 2 I)."""
        return silu_mul(gate_up, out)

    def silu_mul_backward(self, grad: Tensor, gate_up: Tensor) -> tuple[Tensor, Tensor]:
        """The gradient of (T, 2 I), and the activation again."""
        return silu_mul_backward(grad, gate_up)
