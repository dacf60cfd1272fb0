"""Root-mean-square normalisation of rows and of heads, forward and backward."""

import torch
import triton
import triton.language as tl

__all__ = ["add_rms_norm", "head_rms_norm", "head_rms_norm_backward", "rms_norm_backward"]

TILE = 2048
"""Elements of one program over heads: enough to keep a multiprocessor's memory pipe full."""


def add_rms_norm(
    x: torch.Tensor,
    weight: torch.Tensor,
    eps: float,
    residual: torch.Tensor | None = None,
    out: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The normalised sum of two streams, and the sum itself.

    As in Llama: squares and the scaling in float32, rounded to the rows' type before the weight.

    Args:
        x: (T, H) rows, contiguous, H at most 16384.
        weight: (H,).
        eps: Added to the mean of squares.
        residual: (T, H) added to `x` first.
        out: (T, H) where to write the normalised rows; they may be apart.

    Returns:
        The normalised rows and the sum; without a residual the sum is `x` itself.
    """
    rows, width = x.shape
    normed = torch.empty_like(x) if out is None else out
    total = x if residual is None else torch.empty_like(x)
    block = triton.next_power_of_2(width)
    _add_rms_norm[(rows,)](
        x,
        x if residual is None else residual,
        weight,
        total,
        normed,
        eps,
        normed.stride(0),
        WIDTH=width,
        BLOCK=block,
        HAS_RESIDUAL=residual is not None,
        num_warps=_warps(block),
    )
    return normed, total


def rms_norm_backward(
    grad: torch.Tensor,
    x: torch.Tensor,
    weight: torch.Tensor,
    eps: float,
    add: torch.Tensor | None = None,
) -> torch.Tensor:
    """Gradient of the rows that were normalised; the weight is taken as frozen.

    Args:
        grad: (T, H) gradient of the normalised rows.
        x: (T, H) what was normalised.
        weight: (H,).
        eps: As in the forward pass.
        add: (T, H) added to the result, such as the gradient that went past the norm.
    """
    rows, width = x.shape
    out = torch.empty_like(x)
    block = triton.next_power_of_2(width)
    _rms_norm_backward[(rows,)](
        grad,
        x,
        weight,
        x if add is None else add,
        out,
        eps,
        WIDTH=width,
        BLOCK=block,
        HAS_ADD=add is not None,
        num_warps=_warps(block),
    )
    return out


def head_rms_norm(
    x: torch.Tensor, weight: torch.Tensor, eps: float, out: torch.Tensor | None = None
) -> torch.Tensor:
    """Each head normalised by itself.

    Args:
        x: (T, heads, D); its rows may be apart, its heads not.
        weight: (D,).
        eps: Added to the mean of squares.
        out: Where to write, laid out like `x`; may be `x`.
    """
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device) if out is None else out
    tokens, heads, depth = x.shape
    padded = triton.next_power_of_2(depth)
    rows = TILE // padded
    _head_rms_norm[(triton.cdiv(tokens * heads, rows),)](
        x,
        weight,
        out,
        eps,
        tokens * heads,
        x.stride(0),
        out.stride(0),
        HEADS=heads,
        DEPTH=depth,
        PADDED=padded,
        ROWS=rows,
        num_warps=4,
    )
    return out


def head_rms_norm_backward(
    grad: torch.Tensor,
    x: torch.Tensor,
    weight: torch.Tensor,
    eps: float,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """Gradient of the heads that were normalised; the weight is taken as frozen.

    Args:
        grad: (T, heads, D) gradient of the normalised heads; its rows may be apart.
        x: (T, heads, D) what was normalised; its rows may be apart.
        weight: (D,).
        eps: As in the forward pass.
        out: Where to write, laid out like `x`; may be `grad`.
    """
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device) if out is None else out
    tokens, heads, depth = x.shape
    padded = triton.next_power_of_2(depth)
    rows = TILE // padded
    _head_rms_norm_backward[(triton.cdiv(tokens * heads, rows),)](
        grad,
        x,
        weight,
        out,
        eps,
        tokens * heads,
        grad.stride(0),
        x.stride(0),
        out.stride(0),
        HEADS=heads,
        DEPTH=depth,
        PADDED=padded,
        ROWS=rows,
        num_warps=4,
    )
    return out


def _warps(block: int) -> int:
    """Eight elements a thread, which is one 16-byte load of bfloat16, as far as threads go."""
    return min(16, max(1, block // 256))


@triton.jit
def _add_rms_norm(  # noqa: PLR0913
    x: tl.tensor,
    residual: tl.tensor,
    weight: tl.tensor,
    total: tl.tensor,
    normed: tl.tensor,
    eps: tl.tensor,
    out_stride: tl.tensor,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
    HAS_RESIDUAL: tl.constexpr,
) -> None:
    column = tl.arange(0, BLOCK)
    inside = column < WIDTH
    number = tl.program_id(0).to(tl.int64)
    at = number * WIDTH + column
    scale = tl.load(weight + column, mask=inside, other=0.0).to(tl.float32)
    row = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
    if HAS_RESIDUAL:
        row += tl.load(residual + at, mask=inside, other=0.0).to(tl.float32)
        rounded = row.to(total.dtype.element_ty)
        tl.store(total + at, rounded, mask=inside)
        row = rounded.to(tl.float32)
    inverse = tl.rsqrt(tl.sum(row * row, 0) / WIDTH + eps)
    unit = (row * inverse).to(normed.dtype.element_ty).to(tl.float32)
    there = normed + number * out_stride + column
    tl.store(there, (unit * scale).to(normed.dtype.element_ty), mask=inside)


@triton.jit
def _rms_norm_backward(  # noqa: PLR0913
    grad: tl.tensor,
    x: tl.tensor,
    weight: tl.tensor,
    add: tl.tensor,
    out: tl.tensor,
    eps: tl.tensor,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
    HAS_ADD: tl.constexpr,
) -> None:
    column = tl.arange(0, BLOCK)
    inside = column < WIDTH
    at = tl.program_id(0).to(tl.int64) * WIDTH + column
    scale = tl.load(weight + column, mask=inside, other=0.0).to(tl.float32)
    row = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
    outer = tl.load(grad + at, mask=inside, other=0.0).to(tl.float32) * scale
    inverse = tl.rsqrt(tl.sum(row * row, 0) / WIDTH + eps)
    unit = row * inverse
    result = inverse * (outer - unit * (tl.sum(outer * unit, 0) / WIDTH))
    if HAS_ADD:
        result += tl.load(add + at, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + at, result.to(out.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=["count"])
def _head_rms_norm(  # noqa: PLR0913
    x: tl.tensor,
    weight: tl.tensor,
    out: tl.tensor,
    eps: tl.tensor,
    count: tl.tensor,
    x_stride: tl.tensor,
    out_stride: tl.tensor,
    HEADS: tl.constexpr,
    DEPTH: tl.constexpr,
    PADDED: tl.constexpr,
    ROWS: tl.constexpr,
) -> None:
    at = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, PADDED)[None]
    inside = (at < count) & (column < DEPTH)
    token = (at // HEADS).to(tl.int64)
    within = at % HEADS * DEPTH + column
    scale = tl.load(weight + column, mask=column < DEPTH, other=0.0).to(tl.float32)
    row = tl.load(x + token * x_stride + within, mask=inside, other=0.0).to(tl.float32)
    inverse = tl.rsqrt(tl.sum(row * row, 1, keep_dims=True) / DEPTH + eps)
    unit = (row * inverse).to(out.dtype.element_ty).to(tl.float32)
    result = (unit * scale).to(out.dtype.element_ty)
    tl.store(out + token * out_stride + within, result, mask=inside)


@triton.jit(do_not_specialize=["count"])
def _head_rms_norm_backward(  # noqa: PLR0913
    grad: tl.tensor,
    x: tl.tensor,
    weight: tl.tensor,
    out: tl.tensor,
    eps: tl.tensor,
    count: tl.tensor,
    grad_stride: tl.tensor,
    x_stride: tl.tensor,
    out_stride: tl.tensor,
    HEADS: tl.constexpr,
    DEPTH: tl.constexpr,
    PADDED: tl.constexpr,
    ROWS: tl.constexpr,
) -> None:
    at = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, PADDED)[None]
    inside = (at < count) & (column < DEPTH)
    token = (at // HEADS).to(tl.int64)
    within = at % HEADS * DEPTH + column
    scale = tl.load(weight + column, mask=column < DEPTH, other=0.0).to(tl.float32)
    row = tl.load(x + token * x_stride + within, mask=inside, other=0.0).to(tl.float32)
    outer = tl.load(grad + token * grad_stride + within, mask=inside, other=0.0).to(tl.float32)
    outer *= scale
    inverse = tl.rsqrt(tl.sum(row * row, 1, keep_dims=True) / DEPTH + eps)
    unit = row * inverse
    result = inverse * (outer - unit * (tl.sum(outer * unit, 1, keep_dims=True) / DEPTH))
    tl.store(out + token * out_stride + within, result.to(out.dtype.element_ty), mask=inside)
