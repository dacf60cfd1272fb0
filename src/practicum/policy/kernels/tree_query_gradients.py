"""Attention over a prefix tree, backward: the gradient of the queries.

Queries go through the keys they see, and compute their probabilities again from what the forward
pass kept.
"""

import torch
import triton
import triton.language as tl

from practicum.policy.kernels.tree_tiles import (
    LN_2,
    LOG2_E,
    Attended,
    Tile,
    load_rows,
    load_task,
    sees,
)

__all__ = ["write_query_gradients"]


def write_query_gradients(
    grad_out: torch.Tensor, attended: Attended, grad_q: torch.Tensor
) -> torch.Tensor:
    """Write the gradient of the queries.

    Args:
        grad_out: (T, heads, D) gradient of the attended values; its rows may be apart.
        attended: The forward pass.
        grad_q: (T, heads, D), written; its rows may be apart.

    Returns:
        (heads, T) float32, the sum of grad_out * out over each head, which the keys' pass needs.
    """
    q, k, v, out, lse, blocks, scale = attended
    count, heads, depth = q.shape
    delta = torch.empty_like(lse)
    tile = _tile(q.element_size(), attended.padded).within(blocks.outer, blocks.inner)
    strides = (x.stride(0) for x in (grad_out, q, k, v, grad_q))
    _query_gradients[(heads * (blocks.outer // tile.own), blocks.query_tasks.shape[0])](
        *(grad_out, q, k, v, out, lse, delta, grad_q),
        *(blocks.end, blocks.entries, blocks.query_tasks),
        *(count, scale * LOG2_E.value, *strides),
        HEADS=heads,
        GROUP=heads // k.shape[1],
        DEPTH=depth,
        PADDED=attended.padded,
        OUTER=blocks.outer,
        INNER=blocks.inner,
        OWN=tile.own,
        THROUGH=tile.through,
        num_warps=tile.warps,
        num_stages=tile.stages,
    )
    return delta


def _tile(element_size: int, padded: int) -> Tile:
    if element_size != 2:
        return Tile(own=32, through=16, warps=4, stages=2)
    if padded > 64:
        return Tile(own=128, through=64, warps=8, stages=3)
    # Small enough for two programs on a multiprocessor: one multiplies while the other does not.
    return Tile(own=64, through=64, warps=4, stages=3)


@triton.jit
def _add_query_gradients(  # noqa: PLR0913
    grad: tl.tensor,
    outer: tl.tensor,
    query: tl.tensor,
    k: tl.tensor,
    v: tl.tensor,
    lse: tl.tensor,
    delta: tl.tensor,
    end: tl.tensor,
    entries: tl.tensor,
    first: tl.tensor,
    last: tl.tensor,
    start: tl.tensor,
    count: tl.tensor,
    log2_scale: tl.tensor,
    k_stride: tl.tensor,
    v_stride: tl.tensor,
    DEPTH: tl.constexpr,
    PADDED: tl.constexpr,
    INNER: tl.constexpr,
    OWN: tl.constexpr,
    THROUGH: tl.constexpr,
    MASKED: tl.constexpr,
) -> tl.tensor:
    """Go through blocks of keys, all with a mask or all without."""
    PIECES: tl.constexpr = INNER // THROUGH
    block = tl.load(entries + first)
    for i in tl.range(first * PIECES, last * PIECES):
        at = block * INNER + i % PIECES * THROUGH
        block = tl.load(entries + (i + 1) // PIECES)
        key = load_rows(k, at, k_stride, count, THROUGH, DEPTH, PADDED, MASKED)
        value = load_rows(v, at, v_stride, count, THROUGH, DEPTH, PADDED, MASKED)
        score = tl.dot(query, tl.trans(key), input_precision="ieee")
        p = tl.exp2(score * log2_scale - lse[:, None])
        if MASKED:
            index = at + tl.arange(0, THROUGH)
            key_end = tl.load(end + index, mask=index < count, other=0)
            queries = start + tl.arange(0, OWN)
            p = tl.where(sees(queries[:, None], index[None], key_end[None]), p, 0.0)
        slope = tl.dot(outer, tl.trans(value), input_precision="ieee")
        grad_score = (p * (slope - delta[:, None])).to(key.dtype)
        grad = tl.dot(grad_score, key, grad, input_precision="ieee")
    return grad


@triton.jit(do_not_specialize=["count"])
def _query_gradients(  # noqa: PLR0913
    grad_out: tl.tensor,
    q: tl.tensor,
    k: tl.tensor,
    v: tl.tensor,
    out: tl.tensor,
    lse: tl.tensor,
    delta: tl.tensor,
    grad_q: tl.tensor,
    end: tl.tensor,
    entries: tl.tensor,
    tasks: tl.tensor,
    count: tl.tensor,
    log2_scale: tl.tensor,
    out_stride: tl.tensor,
    q_stride: tl.tensor,
    k_stride: tl.tensor,
    v_stride: tl.tensor,
    grad_stride: tl.tensor,
    HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    DEPTH: tl.constexpr,
    PADDED: tl.constexpr,
    OUTER: tl.constexpr,
    INNER: tl.constexpr,
    OWN: tl.constexpr,
    THROUGH: tl.constexpr,
) -> None:
    """One block of queries of one head; leaves the sum of grad_out * out for the keys' pass."""
    head = tl.program_id(0) % HEADS
    block, first, middle, last, _ = load_task(tasks, tl.program_id(1))
    start = block * OUTER + tl.program_id(0) // HEADS * OWN
    query = load_rows(q + head * DEPTH, start, q_stride, count, OWN, DEPTH, PADDED, True)
    outer = load_rows(grad_out + head * DEPTH, start, out_stride, count, OWN, DEPTH, PADDED, True)
    attended = load_rows(out + head * DEPTH, start, HEADS * DEPTH, count, OWN, DEPTH, PADDED, True)
    row, column = start + tl.arange(0, OWN), tl.arange(0, PADDED)
    place = head.to(tl.int64) * count + row
    inner = tl.sum(outer.to(tl.float32) * attended.to(tl.float32), 1)
    tl.store(delta + place, inner, mask=row < count)
    log2_sum = tl.load(lse + place, mask=row < count, other=0.0) * LOG2_E
    k += head // GROUP * DEPTH
    v += head // GROUP * DEPTH
    grad = tl.zeros([OWN, PADDED], tl.float32)
    grad = _add_query_gradients(
        *(grad, outer, query, k, v, log2_sum, inner, end, entries, first, middle, start, count),
        *(log2_scale, k_stride, v_stride, DEPTH, PADDED, INNER, OWN, THROUGH, False),
    )
    grad = _add_query_gradients(
        *(grad, outer, query, k, v, log2_sum, inner, end, entries, middle, last, start, count),
        *(log2_scale, k_stride, v_stride, DEPTH, PADDED, INNER, OWN, THROUGH, True),
    )
    there = grad_q + row[:, None].to(tl.int64) * grad_stride + (head * DEPTH + column[None])
    inside = (row < count)[:, None] & (column < DEPTH)[None]
    grad *= log2_scale * LN_2
    tl.store(there, grad.to(grad_q.dtype.element_ty), mask=inside)
