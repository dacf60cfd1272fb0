"""Rotary positions: turning heads by their token's angle, and storing keys and values on the way.

Tables are as `transformers` makes them: (P, D) float32, both halves alike, and the first half of a
head turns against its second half. Only a table's first half is read.
"""

import torch
import triton
import triton.language as tl

FEW_TOKENS = 512
"""Below this many tokens there are too few programs, so each takes fewer heads."""


def rotate_store(
    qkv: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    positions: torch.Tensor,
    slots: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
) -> torch.Tensor:
    """Rotate queries and keys, and put keys and values where the cache keeps them.

    Args:
        qkv: (T, (heads + 2 * kv_heads) * D) joined projections: queries, keys, values. Its rows may
            be apart.
        cos: (P, D) table.
        sin: (P, D) table, the first half of each row with its sign changed.
        positions: (T,) rows of the tables.
        slots: (T,) rows of the pools to write to.
        keys: (capacity, kv_heads, D) pool of rotated keys, written.
        values: (capacity, kv_heads, D) pool of values, written.

    Returns:
        The rotated queries, (T, heads, D).
    """
    tokens = qkv.shape[0]
    _, kv_heads, depth = keys.shape
    heads = qkv.shape[1] // depth - 2 * kv_heads
    query = torch.empty((tokens, heads, depth), dtype=qkv.dtype, device=qkv.device)
    at_once = _heads_at_once(tokens, heads + 2 * kv_heads)
    padded = triton.next_power_of_2(depth // 2)
    _rotate_store[(tokens, triton.cdiv(heads + 2 * kv_heads, at_once))](
        qkv,
        cos,
        sin,
        positions,
        slots,
        query,
        keys,
        values,
        qkv.stride(0),
        cos.stride(0),
        keys.stride(0),
        values.stride(0),
        HEADS=heads,
        KV_HEADS=kv_heads,
        HALF=depth // 2,
        PADDED=padded,
        AT_ONCE=at_once,
        num_warps=_warps(at_once * padded),
    )
    return query


def rotate(
    x: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    positions: torch.Tensor,
    inverse: bool = False,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """Rotate heads, or turn them back.

    Args:
        x: (T, n, D); its rows may be apart, its heads not.
        cos: (P, D) table.
        sin: (P, D) table, the first half of each row with its sign changed.
        positions: (T,) rows of the tables.
        inverse: Turn by the negative angle, which is the gradient of a turn.
        out: Where to write, laid out like `x`; may be `x`.
    """
    tokens, heads, depth = x.shape
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device) if out is None else out
    at_once = _heads_at_once(tokens, heads)
    padded = triton.next_power_of_2(depth // 2)
    _rotate[(tokens, triton.cdiv(heads, at_once))](
        x,
        cos,
        sin,
        positions,
        out,
        x.stride(0),
        cos.stride(0),
        out.stride(0),
        HEADS=heads,
        HALF=depth // 2,
        PADDED=padded,
        AT_ONCE=at_once,
        INVERSE=inverse,
        num_warps=_warps(at_once * padded),
    )
    return out


def _heads_at_once(tokens: int, heads: int) -> int:
    return min(triton.next_power_of_2(heads), 8 if tokens < FEW_TOKENS else 16)


def _warps(tile: int) -> int:
    """Eight elements of each half a thread: one 16-byte load of bfloat16."""
    return min(4, max(1, tile // 256))


@triton.jit
def _turned(
    first: tl.tensor,
    second: tl.tensor,
    cos: tl.tensor,
    sin: tl.tensor,
    angle: tl.tensor,
    inside: tl.tensor,
    INVERSE: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor]:
    """Both halves of heads, turned; `angle` is the place of the token's angles in the tables.

    Only the first half of the sines is read: it is the second one with the other sign.
    """
    c = tl.load(cos + angle, mask=inside, other=0.0)
    s = tl.load(sin + angle, mask=inside, other=0.0)
    if INVERSE:
        s = -s
    return first * c + second * s, second * c - first * s


@triton.jit
def _rotate_store(  # noqa: PLR0913
    qkv: tl.tensor,
    cos: tl.tensor,
    sin: tl.tensor,
    positions: tl.tensor,
    slots: tl.tensor,
    query: tl.tensor,
    keys: tl.tensor,
    values: tl.tensor,
    qkv_stride: tl.tensor,
    table_stride: tl.tensor,
    key_stride: tl.tensor,
    value_stride: tl.tensor,
    HEADS: tl.constexpr,
    KV_HEADS: tl.constexpr,
    HALF: tl.constexpr,
    PADDED: tl.constexpr,
    AT_ONCE: tl.constexpr,
) -> None:
    token = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1) * AT_ONCE + tl.arange(0, AT_ONCE)[:, None]
    column = tl.arange(0, PADDED)[None]
    inside = (head < HEADS + 2 * KV_HEADS) & (column < HALF)
    within = head * (2 * HALF) + column
    source = qkv + token * qkv_stride + within
    first = tl.load(source, mask=inside, other=0.0).to(tl.float32)
    second = tl.load(source + HALF, mask=inside, other=0.0).to(tl.float32)
    angle = tl.load(positions + token).to(tl.int64) * table_stride + column
    left, right = _turned(first, second, cos, sin, angle, column < HALF, False)
    slot = tl.load(slots + token).to(tl.int64)

    kind = query.dtype.element_ty
    here = inside & (head < HEADS)
    target = query + token * (HEADS * 2 * HALF) + within
    tl.store(target, left.to(kind), mask=here)
    tl.store(target + HALF, right.to(kind), mask=here)
    here = inside & (head >= HEADS) & (head < HEADS + KV_HEADS)
    target = keys + slot * key_stride + (within - HEADS * 2 * HALF)
    tl.store(target, left.to(kind), mask=here)
    tl.store(target + HALF, right.to(kind), mask=here)
    here = inside & (head >= HEADS + KV_HEADS)
    target = values + slot * value_stride + (within - (HEADS + KV_HEADS) * 2 * HALF)
    tl.store(target, first.to(kind), mask=here)
    tl.store(target + HALF, second.to(kind), mask=here)


@triton.jit
def _rotate(  # noqa: PLR0913
    x: tl.tensor,
    cos: tl.tensor,
    sin: tl.tensor,
    positions: tl.tensor,
    out: tl.tensor,
    x_stride: tl.tensor,
    table_stride: tl.tensor,
    out_stride: tl.tensor,
    HEADS: tl.constexpr,
    HALF: tl.constexpr,
    PADDED: tl.constexpr,
    AT_ONCE: tl.constexpr,
    INVERSE: tl.constexpr,
) -> None:
    token = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1) * AT_ONCE + tl.arange(0, AT_ONCE)[:, None]
    column = tl.arange(0, PADDED)[None]
    inside = (head < HEADS) & (column < HALF)
    within = head * (2 * HALF) + column
    source = x + token * x_stride + within
    first = tl.load(source, mask=inside, other=0.0).to(tl.float32)
    second = tl.load(source + HALF, mask=inside, other=0.0).to(tl.float32)
    angle = tl.load(positions + token).to(tl.int64) * table_stride + column
    left, right = _turned(first, second, cos, sin, angle, column < HALF, INVERSE)
    target = out + token * out_stride + within
    tl.store(target, left.to(out.dtype.element_ty), mask=inside)
    tl.store(target + HALF, right.to(out.dtype.element_ty), mask=inside)
