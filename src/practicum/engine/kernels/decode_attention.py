"""Attention of one new token a row over cached keys and values, found through a table of slots.

A row's cached tokens are cut into splits that are attended to side by side, each with a softmax of
its own; a second kernel joins them. Splits are cut by the row's length, which is read on the
device: the launch depends on shapes alone, and one captured graph serves every length.
"""

import torch
import triton
import triton.language as tl

PROGRAMS = 3 * 132
"""Programs worth having: a few for each of a large GPU's multiprocessors."""

MOST_SPLITS = 32
"""Beyond this, joining the splits costs more than they save."""

FINEST_SPLIT = 64
"""Tokens below which a split is not worth a program."""

TILE_BYTES = 8192
"""Keys that a program loads together; small enough that several programs share a multiprocessor."""

STAGES = 5
"""Two for slots, two for what lies in them, one to compute: the next loads are always under way."""

LOG2_E = 1.4426950408889634


def decode_attention(
    q: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    table: torch.Tensor,
    lengths: torch.Tensor,
    scale: float,
    splits: int | None = None,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """Attend from row b to the slots `table[b, :lengths[b]]`.

    Args:
        q: (B, heads, D), one query for each head of a row.
        keys: (capacity, kv_heads, D) pool.
        values: (capacity, kv_heads, D) pool.
        table: (B, L) int32 slots; what is beyond a row's length is not looked at.
        lengths: (B,) int32, each at least 1.
        scale: Factor of the scores.
        splits: Parts each row is cut into; by default as many as fill the GPU.
        out: (B, heads, D) where to write; its rows may be apart, its heads not.

    Returns:
        (B, heads, D).
    """
    rows, heads, depth = q.shape
    kv_heads = keys.shape[1]
    if splits is None:
        splits = _enough_splits(rows * kv_heads, table.shape[1])
    if out is None:
        out = torch.empty((rows, heads, depth), dtype=q.dtype, device=q.device)
    parts, weights = out, out
    if splits > 1:
        parts = torch.empty((rows, heads, splits, depth), dtype=torch.float32, device=q.device)
        weights = torch.empty((rows, heads, splits), dtype=torch.float32, device=q.device)
    padded = max(16, triton.next_power_of_2(depth))
    sizes = {"DEPTH": depth, "PADDED": padded, "FINEST": FINEST_SPLIT, "SPLITS": splits}
    strides = (x.stride(0) for x in (q, keys, values, table, out))
    _attend_split[(rows, kv_heads, splits)](
        *(q, keys, values, table, lengths, parts, weights, scale * LOG2_E, *strides),
        GROUP=heads // kv_heads,
        GROUP_PADDED=max(16, triton.next_power_of_2(heads // kv_heads)),
        AT_ONCE=max(16, min(64, TILE_BYTES // (padded * q.element_size()))),
        **sizes,
        num_warps=4,
        num_stages=STAGES,
    )
    if splits > 1:
        _join_splits[(rows, heads)](
            *(parts, weights, lengths, out, out.stride(0)),
            HEADS=heads,
            SPLITS_PADDED=triton.next_power_of_2(splits),
            **sizes,
            num_warps=4,
        )
    return out


def _enough_splits(programs: int, longest: int) -> int:
    wanted = triton.cdiv(PROGRAMS, programs)
    return max(1, min(wanted, MOST_SPLITS, triton.cdiv(longest, FINEST_SPLIT)))


@triton.jit
def _split_size(length: tl.tensor, FINEST: tl.constexpr, SPLITS: tl.constexpr) -> tl.tensor:
    """Tokens of each split of a row; the last ones may get fewer, or none."""
    if SPLITS == 1:
        return length
    return tl.maximum(FINEST, tl.cdiv(tl.cdiv(length, SPLITS), 16) * 16)


@triton.jit
def _attend_split(  # noqa: PLR0913
    q: tl.tensor,
    keys: tl.tensor,
    values: tl.tensor,
    table: tl.tensor,
    lengths: tl.tensor,
    parts: tl.tensor,
    weights: tl.tensor,
    log2_scale: tl.tensor,
    q_stride: tl.tensor,
    key_stride: tl.tensor,
    value_stride: tl.tensor,
    table_stride: tl.tensor,
    out_stride: tl.tensor,
    GROUP: tl.constexpr,
    GROUP_PADDED: tl.constexpr,
    DEPTH: tl.constexpr,
    PADDED: tl.constexpr,
    AT_ONCE: tl.constexpr,
    FINEST: tl.constexpr,
    SPLITS: tl.constexpr,
) -> None:
    row, kv_head, split = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    length = tl.load(lengths + row)
    size = _split_size(length, FINEST, SPLITS)
    begin = split * size
    if begin >= length:
        return
    end = tl.minimum(begin + size, length)
    column, member = tl.arange(0, PADDED), tl.arange(0, GROUP_PADDED)
    real = (member < GROUP)[:, None] & (column < DEPTH)[None]
    head = kv_head * GROUP + member
    within = head[:, None] * DEPTH + column[None]
    query = tl.load(q + row.to(tl.int64) * q_stride + within, mask=real, other=0.0)
    slots = table + row.to(tl.int64) * table_stride
    keys, values = keys + kv_head * DEPTH, values + kv_head * DEPTH
    top = tl.full([GROUP_PADDED], float("-inf"), tl.float32)
    total = tl.zeros([GROUP_PADDED], tl.float32)
    sums = tl.zeros([GROUP_PADDED, PADDED], tl.float32)
    for start in tl.range(begin, end, AT_ONCE):
        at = start + tl.arange(0, AT_ONCE)
        slot = tl.load(slots + at, mask=at < end, other=0).to(tl.int64)[:, None]
        held = (at < end)[:, None] & (column < DEPTH)[None]
        key = tl.load(keys + slot * key_stride + column[None], mask=held, other=0.0)
        score = tl.dot(query, tl.trans(key), input_precision="ieee")
        score = tl.where((at < end)[None], score * log2_scale, float("-inf"))
        new_top = tl.maximum(top, tl.max(score, 1))
        p, shrink = tl.exp2(score - new_top[:, None]), tl.exp2(top - new_top)
        total = total * shrink + tl.sum(p, 1)
        value = tl.load(values + slot * value_stride + column[None], mask=held, other=0.0)
        sums = tl.dot(p.to(value.dtype), value, sums * shrink[:, None], input_precision="ieee")
        top = new_top
    sums /= total[:, None]
    if SPLITS == 1:
        there = parts + row.to(tl.int64) * out_stride + within
        tl.store(there, sums.to(parts.dtype.element_ty), mask=real)
    else:
        place = (row.to(tl.int64) * (tl.num_programs(1) * GROUP) + head) * SPLITS + split
        tl.store(parts + place[:, None] * DEPTH + column[None], sums, mask=real)
        tl.store(weights + place, top + tl.log2(total), mask=member < GROUP)


@triton.jit
def _join_splits(  # noqa: PLR0913
    parts: tl.tensor,
    weights: tl.tensor,
    lengths: tl.tensor,
    out: tl.tensor,
    out_stride: tl.tensor,
    HEADS: tl.constexpr,
    DEPTH: tl.constexpr,
    PADDED: tl.constexpr,
    FINEST: tl.constexpr,
    SPLITS: tl.constexpr,
    SPLITS_PADDED: tl.constexpr,
) -> None:
    row, head = tl.program_id(0), tl.program_id(1)
    length = tl.load(lengths + row)
    split = tl.arange(0, SPLITS_PADDED)
    used = (split < SPLITS) & (split * _split_size(length, FINEST, SPLITS) < length)
    column = tl.arange(0, PADDED)
    place = row.to(tl.int64) * HEADS + head
    weight = tl.load(weights + place * SPLITS + split, mask=used, other=float("-inf"))
    weight = tl.exp2(weight - tl.max(weight, 0))
    real = used[:, None] & (column < DEPTH)[None]
    at = (place * SPLITS + split[:, None]) * DEPTH + column[None]
    part = tl.load(parts + at, mask=real, other=0.0)
    joined = tl.sum(part * weight[:, None], 0) / tl.sum(weight, 0)
    there = out + row.to(tl.int64) * out_stride + head * DEPTH + column
    tl.store(there, joined.to(out.dtype.element_ty), mask=column < DEPTH)
