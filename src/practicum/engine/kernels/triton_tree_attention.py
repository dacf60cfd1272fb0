"""Attention over a prefix tree in depth-first order, forward and backward.

Token i sees token j exactly when `j <= i < end[j]`. Blocks that see nothing of each other are never
touched, and blocks that see all of each other need no mask, so that cost follows the tree.
"""

import torch
import triton
import triton.language as tl

from practicum.engine.kernels.tree_gradients import write_key_gradients, write_query_gradients
from practicum.engine.kernels.tree_tiles import (
    LN_2,
    LOG2_E,
    Attended,
    Tile,
    TreeBlocks,
    load_rows,
    load_task,
    padded_depth,
    sees,
)


def tree_forward(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, blocks: TreeBlocks, scale: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attend along the paths of a tree.

    Args:
        q: (T, heads, D); its rows may be apart, its heads not, and so for all three.
        k: (T, kv_heads, D).
        v: (T, kv_heads, D).
        blocks: What of the tree sees what.
        scale: Factor of the scores.

    Returns:
        The attended values (T, heads, D), and the logarithm of each query's sum of exponentials
        (heads, T) float32, which the backward pass needs.
    """
    count, heads, depth = q.shape
    out = torch.empty((count, heads, depth), dtype=q.dtype, device=q.device)
    lse = torch.empty((heads, count), dtype=torch.float32, device=q.device)
    padded = padded_depth(depth)
    tile = _tile(q.element_size(), padded).within(blocks.outer, blocks.inner)
    _tree_forward[(heads * (blocks.outer // tile.own), blocks.query_tasks.shape[0])](
        q,
        k,
        v,
        out,
        lse,
        blocks.end,
        blocks.entries,
        blocks.query_tasks,
        count,
        scale * LOG2_E.value,
        q.stride(0),
        k.stride(0),
        v.stride(0),
        HEADS=heads,
        GROUP=heads // k.shape[1],
        DEPTH=depth,
        PADDED=padded,
        OUTER=blocks.outer,
        INNER=blocks.inner,
        OWN=tile.own,
        THROUGH=tile.through,
        num_warps=tile.warps,
        num_stages=tile.stages,
    )
    return out, lse


def tree_backward(
    grad_out: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    out: torch.Tensor,
    lse: torch.Tensor,
    blocks: TreeBlocks,
    scale: float,
) -> torch.Tensor:
    """Gradients of the queries, keys and values of `tree_forward`.

    Args:
        grad_out: (T, heads, D) gradient of the attended values; its rows may be apart.
        q: As in the forward pass.
        k: As in the forward pass.
        v: As in the forward pass.
        out: What the forward pass gave.
        lse: What the forward pass gave.
        blocks: As in the forward pass.
        scale: As in the forward pass.

    Returns:
        The three gradients in this order, (T, heads + 2 * kv_heads, D), as joined projections are.
    """
    count, heads, depth = q.shape
    kv_heads = k.shape[1]
    joined = torch.empty((count, heads + 2 * kv_heads, depth), dtype=q.dtype, device=q.device)
    grad_q, grad_k, grad_v = joined.split([heads, kv_heads, kv_heads], 1)
    attended = Attended(q, k, v, out, lse, blocks, scale)
    delta = write_query_gradients(grad_out, attended, grad_q)
    write_key_gradients(grad_out, attended, delta, grad_k, grad_v)
    return joined


def _tile(element_size: int, padded: int) -> Tile:
    if element_size == 2:
        return Tile(own=128, through=64, warps=8 if padded > 64 else 4, stages=3)
    return Tile(own=32, through=32 if padded <= 64 else 16, warps=4, stages=2)


@triton.jit
def _attend(  # noqa: PLR0913
    sums: tl.tensor,
    total: tl.tensor,
    top: tl.tensor,
    query: tl.tensor,
    k: tl.tensor,
    v: tl.tensor,
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
) -> tuple[tl.tensor, tl.tensor, tl.tensor]:
    """Go through blocks of keys, all with a mask or all without."""
    PIECES: tl.constexpr = INNER // THROUGH
    block = tl.load(entries + first)
    for i in tl.range(first * PIECES, last * PIECES):
        at = block * INNER + i % PIECES * THROUGH
        # Known one step ahead: keys and values can then be loaded several steps ahead.
        block = tl.load(entries + (i + 1) // PIECES)
        key = load_rows(k, at, k_stride, count, THROUGH, DEPTH, PADDED, MASKED)
        score = tl.dot(query, tl.trans(key), input_precision="ieee")
        if MASKED:
            index = at + tl.arange(0, THROUGH)
            key_end = tl.load(end + index, mask=index < count, other=0)
            queries = start + tl.arange(0, OWN)
            visible = sees(queries[:, None], index[None], key_end[None])
            # Finite: what a query adds up before it sees anything is then wiped out, not undefined.
            score = tl.where(visible, score * log2_scale, -1e30)
            new_top = tl.maximum(top, tl.max(score, 1))
            p = tl.exp2(score - new_top[:, None])
        else:
            new_top = tl.maximum(top, tl.max(score, 1) * log2_scale)
            p = tl.exp2(score * log2_scale - new_top[:, None])
        shrink = tl.exp2(top - new_top)
        total = total * shrink + tl.sum(p, 1)
        value = load_rows(v, at, v_stride, count, THROUGH, DEPTH, PADDED, MASKED)
        sums = tl.dot(p.to(value.dtype), value, sums * shrink[:, None], input_precision="ieee")
        top = new_top
    return sums, total, top


@triton.jit(do_not_specialize=["count"])
def _tree_forward(  # noqa: PLR0913
    q: tl.tensor,
    k: tl.tensor,
    v: tl.tensor,
    out: tl.tensor,
    lse: tl.tensor,
    end: tl.tensor,
    entries: tl.tensor,
    tasks: tl.tensor,
    count: tl.tensor,
    log2_scale: tl.tensor,
    q_stride: tl.tensor,
    k_stride: tl.tensor,
    v_stride: tl.tensor,
    HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    DEPTH: tl.constexpr,
    PADDED: tl.constexpr,
    OUTER: tl.constexpr,
    INNER: tl.constexpr,
    OWN: tl.constexpr,
    THROUGH: tl.constexpr,
) -> None:
    head = tl.program_id(0) % HEADS
    block, first, middle, last, _ = load_task(tasks, tl.program_id(1))
    start = block * OUTER + tl.program_id(0) // HEADS * OWN
    query = load_rows(q + head * DEPTH, start, q_stride, count, OWN, DEPTH, PADDED, True)
    k += head // GROUP * DEPTH
    v += head // GROUP * DEPTH
    top = tl.full([OWN], float("-inf"), tl.float32)
    total = tl.zeros([OWN], tl.float32)
    sums = tl.zeros([OWN, PADDED], tl.float32)
    sums, total, top = _attend(
        *(sums, total, top, query, k, v, end, entries, first, middle, start, count),
        *(log2_scale, k_stride, v_stride, DEPTH, PADDED, INNER, OWN, THROUGH, False),
    )
    sums, total, top = _attend(
        *(sums, total, top, query, k, v, end, entries, middle, last, start, count),
        *(log2_scale, k_stride, v_stride, DEPTH, PADDED, INNER, OWN, THROUGH, True),
    )
    row, column = start + tl.arange(0, OWN), tl.arange(0, PADDED)
    there = out + (row[:, None].to(tl.int64) * HEADS + head) * DEPTH + column[None]
    inside = (row < count)[:, None] & (column < DEPTH)[None]
    tl.store(there, (sums / total[:, None]).to(out.dtype.element_ty), mask=inside)
    there = lse + head.to(tl.int64) * count + row
    tl.store(there, (top + tl.log2(total)) * LN_2, mask=row < count)
