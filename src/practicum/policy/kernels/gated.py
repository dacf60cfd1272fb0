"""The gated activation of a Llama-like feed-forward layer, forward and backward."""

import torch
import triton
import triton.language as tl

__all__ = ["silu_mul", "silu_mul_backward"]

BLOCK = 1024
"""Elements of a program: eight a thread, which is one 16-byte load of bfloat16."""


def silu_mul(gate_up: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
    """silu(gate) * up, in float32 until it is stored.

    Args:
        gate_up: (T, 2 * I) joined projections, the gate first.
        out: (T, I) where to write; its rows may be apart.

    Returns:
        (T, I).
    """
    rows, width = gate_up.shape[0], gate_up.shape[1] // 2
    if out is None:
        out = torch.empty((rows, width), dtype=gate_up.dtype, device=gate_up.device)
    _silu_mul[(rows, triton.cdiv(width, BLOCK))](
        gate_up, out, out.stride(0), WIDTH=width, BLOCK=BLOCK, num_warps=4
    )
    return out


def silu_mul_backward(
    grad: torch.Tensor, gate_up: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Gradient of the joined projections, and the activation computed again on the way.

    Args:
        grad: (T, I) gradient of the activation.
        gate_up: (T, 2 * I) joined projections, the gate first.

    Returns:
        The gradient, (T, 2 * I), and the activation, (T, I).
    """
    rows, width = grad.shape
    grad_gate_up, act = torch.empty_like(gate_up), torch.empty_like(grad)
    _silu_mul_backward[(rows, triton.cdiv(width, BLOCK))](
        grad, gate_up, grad_gate_up, act, WIDTH=width, BLOCK=BLOCK, num_warps=4
    )
    return grad_gate_up, act


@triton.jit
def _silu_mul(
    gate_up: tl.tensor,
    out: tl.tensor,
    out_stride: tl.tensor,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < WIDTH
    source = gate_up + row * (2 * WIDTH) + column
    gate = tl.load(source, mask=inside, other=0.0).to(tl.float32)
    up = tl.load(source + WIDTH, mask=inside, other=0.0).to(tl.float32)
    result = gate * tl.sigmoid(gate) * up
    tl.store(out + row * out_stride + column, result.to(out.dtype.element_ty), mask=inside)


@triton.jit
def _silu_mul_backward(
    grad: tl.tensor,
    gate_up: tl.tensor,
    grad_gate_up: tl.tensor,
    act: tl.tensor,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < WIDTH
    joined, single = row * (2 * WIDTH) + column, row * WIDTH + column
    gate = tl.load(gate_up + joined, mask=inside, other=0.0).to(tl.float32)
    up = tl.load(gate_up + WIDTH + joined, mask=inside, other=0.0).to(tl.float32)
    outer = tl.load(grad + single, mask=inside, other=0.0).to(tl.float32)
    share = tl.sigmoid(gate)
    silu = gate * share
    kind = act.dtype.element_ty
    tl.store(act + single, (silu * up).to(kind), mask=inside)
    slope = share + silu * (1.0 - share)
    tl.store(grad_gate_up + joined, (outer * up * slope).to(kind), mask=inside)
    tl.store(grad_gate_up + WIDTH + joined, (outer * silu).to(kind), mask=inside)
