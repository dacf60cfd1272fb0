"""Root-mean-square normalisation of rows and of heads, forward and backward."""

import torch
import triton
import triton.language as tl
from torch import Tensor

TILE = 2048
"""Elements of one program over heads: enough to keep a multiprocessor's memory pipe full."""


def add_rms_norm(
    x: Tensor,
    weight: Tensor,
    eps: float,
    residual: Tensor | None = None,
    out: Tensor | None = None,
    adapter: tuple[Tensor, Tensor] | None = None,
) -> tuple[Tensor, Tensor]:
    """The normalised sum of two streams, and the sum itself.

    As in Llama: squares and the scaling in float32, rounded to the rows' type before the weight.

    Args:
        x: (T, H), H at most 16384; rows may be apart, here and below.
        weight: (H,).
        eps: Added to the mean of squares.
        residual: (T, H) added to `x` first.
        out: (T, H) where to write the normalised rows.
        adapter: (T, ranks) and (H, ranks), whose product is added to `x` as well; only with a
            residual.

    Returns:
        The normalised rows and the sum; without a residual the sum is `x` itself.
    """
    rows, width = x.shape
    normed = _rows_like(x) if out is None else out
    total = x if residual is None else _rows_like(x)
    other = x if residual is None else residual
    inner, second = (x, x) if adapter is None else adapter
    block = triton.next_power_of_2(width)
    _add_rms_norm[(rows,)](
        x,
        other,
        weight,
        total,
        normed,
        eps,
        inner,
        second,
        x.stride(0),
        other.stride(0),
        normed.stride(0),
        inner.stride(0),
        second.stride(0),
        WIDTH=width,
        BLOCK=block,
        HAS_RESIDUAL=residual is not None,
        RANKS=0 if adapter is None else inner.shape[1],
        num_warps=_warps(block),
    )
    return normed, total


def rms_norm_backward(
    grad: Tensor, x: Tensor, weight: Tensor, eps: float, add: Tensor | None = None
) -> Tensor:
    """Gradient of the rows that were normalised; the weight is taken as frozen.

    Args:
        grad: (T, H) gradient of the normalised rows; rows may be apart, here and below.
        x: (T, H) what was normalised.
        weight: (H,).
        eps: As in the forward pass.
        add: (T, H) added to the result, such as the gradient that went past the norm.
    """
    rows, width = x.shape
    out = _rows_like(x)
    other = x if add is None else add
    block = triton.next_power_of_2(width)
    _rms_norm_backward[(rows,)](
        grad,
        x,
        weight,
        other,
        out,
        eps,
        grad.stride(0),
        x.stride(0),
        other.stride(0),
        WIDTH=width,
        BLOCK=block,
        HAS_ADD=add is not None,
        num_warps=_warps(block),
    )
    return out


def head_rms_norm(x: Tensor, weight: Tensor, eps: float, out: Tensor | None = None) -> Tensor:
    """Each head normalised by itself.

    Args:
        x: (T, heads, D); its rows may be apart, its heads not.
        weight: (D,).
        eps: Added to the mean of squares.
        out: Where to write, laid out like `x`; may be `x`.
    """
    out = _rows_like(x) if out is None else out
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
    grad: Tensor, x: Tensor, weight: Tensor, eps: float, out: Tensor | None = None
) -> Tensor:
    """Gradient of the heads that were normalised; the weight is taken as frozen.

    Args:
        grad: (T, heads, D) gradient of the normalised heads; its rows may be apart.
        x: (T, heads, D) what was normalised; its rows may be apart.
        weight: (D,).
        eps: As in the forward pass.
        out: Where to write, laid out like `x`; may be `grad`.
    """
    out = _rows_like(x) if out is None else out
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


def _rows_like(x: Tensor) -> Tensor:
    return torch.empty(x.shape, dtype=x.dtype, device=x.device)


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
    inner: tl.tensor,
    second: tl.tensor,
    x_stride: tl.tensor,
    residual_stride: tl.tensor,
    out_stride: tl.tensor,
    inner_stride: tl.tensor,
    second_stride: tl.tensor,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
    HAS_RESIDUAL: tl.constexpr,
    RANKS: tl.constexpr,
) -> None:
    number, column = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
    inside = column < WIDTH
    scale = tl.load(weight + column, mask=inside, other=0.0).to(tl.float32)
    row = tl.load(x + number * x_stride + column, mask=inside, other=0.0).to(tl.float32)
    if HAS_RESIDUAL:
        other = tl.load(residual + number * residual_stride + column, mask=inside, other=0.0)
        for begin in tl.static_range(0, RANKS, 8):  # few at a time, to stay in registers
            rank = begin + tl.arange(0, 8)
            few = tl.load(inner + number * inner_stride + rank, mask=rank < RANKS, other=0.0)
            place = column.to(tl.int64)[:, None] * second_stride + rank[None]
            there = inside[:, None] & (rank < RANKS)[None]
            factors = tl.load(second + place, mask=there, other=0.0).to(tl.float32)
            row += tl.sum(factors * few.to(tl.float32)[None], 1)
        rounded = (row + other.to(tl.float32)).to(total.dtype.element_ty)
        tl.store(total + number * WIDTH + column, rounded, mask=inside)
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
    grad_stride: tl.tensor,
    x_stride: tl.tensor,
    add_stride: tl.tensor,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
    HAS_ADD: tl.constexpr,
) -> None:
    number, column = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
    inside = column < WIDTH
    scale = tl.load(weight + column, mask=inside, other=0.0).to(tl.float32)
    row = tl.load(x + number * x_stride + column, mask=inside, other=0.0).to(tl.float32)
    outer = tl.load(grad + number * grad_stride + column, mask=inside, other=0.0)
    outer = outer.to(tl.float32) * scale
    inverse = tl.rsqrt(tl.sum(row * row, 0) / WIDTH + eps)
    unit = row * inverse
    result = inverse * (outer - unit * (tl.sum(outer * unit, 0) / WIDTH))
    if HAS_ADD:
        other = tl.load(add + number * add_stride + column, mask=inside, other=0.0)
        result += other.to(tl.float32)
    there = out + number * WIDTH + column
    tl.store(there, result.to(out.dtype.element_ty), mask=inside)


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
