"""Attention over a prefix tree in depth-first order, forward and backward.

Token i sees token j exactly when `j <= i < end[j]`. Blocks that see nothing of each other are never
touched, and blocks that see all of each other need no mask, so that cost follows the tree.

Backward, queries go through the keys they see, and compute their probabilities again from what the
forward pass kept. Keys go through the queries that see them, for all heads that share them. A block
that many see is shared between programs; their shares are kept in float32 and added up in a fixed
order.
"""

import torch
import triton
import triton.language as tl

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
    tile = _query_tile(q.element_size(), attended.padded).within(blocks.outer, blocks.inner)
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


def _query_tile(element_size: int, padded: int) -> Tile:
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


ROWS_AT_ONCE = 16
"""Rows of a shared block that one program adds up."""


def write_key_gradients(
    grad_out: torch.Tensor,
    attended: Attended,
    delta: torch.Tensor,
    grad_k: torch.Tensor,
    grad_v: torch.Tensor,
) -> None:
    """Write the gradients of keys and values.

    Args:
        grad_out: (T, heads, D) gradient of the attended values; its rows may be apart.
        attended: The forward pass.
        delta: What the queries' pass gave.
        grad_k: (T, kv_heads, D), written; its rows may be apart.
        grad_v: (T, kv_heads, D), written; its rows are as far apart.
    """
    q, k, v, _, lse, blocks, scale = attended
    count, heads, depth = q.shape
    kv_heads = k.shape[1]
    shape = (max(1, blocks.share_count), kv_heads, 2, blocks.outer, depth)
    parts = torch.empty(shape, dtype=torch.float32, device=q.device)
    tile = _key_tile(q.element_size(), attended.padded).within(blocks.outer, blocks.inner)
    strides = (x.stride(0) for x in (grad_out, q, k, v, grad_k))
    _key_gradients[(kv_heads * (blocks.outer // tile.own), blocks.key_tasks.shape[0])](
        *(grad_out, q, k, v, lse, delta, grad_k, grad_v, parts),
        *(blocks.end, blocks.entries, blocks.key_tasks),
        *(count, scale * LOG2_E.value, *strides),
        KV_HEADS=kv_heads,
        GROUP=heads // kv_heads,
        DEPTH=depth,
        PADDED=attended.padded,
        OUTER=blocks.outer,
        INNER=blocks.inner,
        OWN=tile.own,
        THROUGH=tile.through,
        num_warps=tile.warps,
        num_stages=tile.stages,
    )
    if not blocks.share_count:
        return
    rows = min(ROWS_AT_ONCE, blocks.outer)
    _join_shares[(blocks.shares.shape[0], kv_heads, blocks.outer // rows)](
        *(parts, blocks.shares, grad_k, grad_v, count, grad_k.stride(0)),
        DEPTH=depth,
        PADDED=attended.padded,
        OUTER=blocks.outer,
        ROWS=rows,
        num_warps=4,
    )


def _key_tile(element_size: int, padded: int) -> Tile:
    if element_size != 2:
        return Tile(own=32 if padded <= 64 else 16, through=16, warps=4, stages=2)
    if padded > 64:
        return Tile(own=128, through=64, warps=8, stages=3)
    # Small enough for two programs on a multiprocessor: one multiplies while the other does not.
    return Tile(own=64, through=64, warps=4, stages=3)


@triton.jit
def _add_key_gradients(  # noqa: PLR0913
    grad_key: tl.tensor,
    grad_value: tl.tensor,
    key: tl.tensor,
    value: tl.tensor,
    grad_out: tl.tensor,
    q: tl.tensor,
    lse: tl.tensor,
    delta: tl.tensor,
    key_end: tl.tensor,
    entries: tl.tensor,
    first: tl.tensor,
    last: tl.tensor,
    start: tl.tensor,
    first_head: tl.tensor,
    count: tl.tensor,
    log2_scale: tl.tensor,
    out_stride: tl.tensor,
    q_stride: tl.tensor,
    GROUP: tl.constexpr,
    DEPTH: tl.constexpr,
    PADDED: tl.constexpr,
    INNER: tl.constexpr,
    OWN: tl.constexpr,
    THROUGH: tl.constexpr,
    MASKED: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor]:
    """Go through blocks of queries, each for all heads, all with a mask or all without."""
    STEPS: tl.constexpr = INNER // THROUGH * GROUP
    block = tl.load(entries + first)
    for i in tl.range(first * STEPS, last * STEPS):
        at = block * INNER + i % STEPS // GROUP * THROUGH
        head = first_head + i % GROUP
        block = tl.load(entries + (i + 1) // STEPS)
        query = load_rows(q + head * DEPTH, at, q_stride, count, THROUGH, DEPTH, PADDED, MASKED)
        outer = load_rows(
            grad_out + head * DEPTH, at, out_stride, count, THROUGH, DEPTH, PADDED, MASKED
        )
        index = at + tl.arange(0, THROUGH)
        inside = index < count
        place = head.to(tl.int64) * count + index
        log2_sum = tl.load(lse + place, mask=inside, other=0.0) * LOG2_E
        inner = tl.load(delta + place, mask=inside, other=0.0)
        score = tl.dot(key, tl.trans(query), input_precision="ieee")
        p = tl.exp2(score * log2_scale - log2_sum[None])
        if MASKED:
            keys = start + tl.arange(0, OWN)
            p = tl.where(sees(index[None], keys[:, None], key_end[:, None]), p, 0.0)
        grad_value = tl.dot(p.to(outer.dtype), outer, grad_value, input_precision="ieee")
        slope = tl.dot(value, tl.trans(outer), input_precision="ieee")
        grad_score = (p * (slope - inner[None])).to(query.dtype)
        grad_key = tl.dot(grad_score, query, grad_key, input_precision="ieee")
    return grad_key, grad_value


@triton.jit(do_not_specialize=["count"])
def _key_gradients(  # noqa: PLR0913
    grad_out: tl.tensor,
    q: tl.tensor,
    k: tl.tensor,
    v: tl.tensor,
    lse: tl.tensor,
    delta: tl.tensor,
    grad_k: tl.tensor,
    grad_v: tl.tensor,
    parts: tl.tensor,
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
    KV_HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    DEPTH: tl.constexpr,
    PADDED: tl.constexpr,
    OUTER: tl.constexpr,
    INNER: tl.constexpr,
    OWN: tl.constexpr,
    THROUGH: tl.constexpr,
) -> None:
    """One block of keys of one head, or a share of it."""
    head, piece = tl.program_id(0) % KV_HEADS, tl.program_id(0) // KV_HEADS * OWN
    block, first, middle, last, share = load_task(tasks, tl.program_id(1))
    start = block * OUTER + piece
    key = load_rows(k + head * DEPTH, start, k_stride, count, OWN, DEPTH, PADDED, True)
    value = load_rows(v + head * DEPTH, start, v_stride, count, OWN, DEPTH, PADDED, True)
    row, column = tl.arange(0, OWN), tl.arange(0, PADDED)
    key_end = tl.load(end + start + row, mask=row < count - start, other=0)
    nothing = tl.zeros([OWN, PADDED], tl.float32)
    grad_key, grad_value = _add_key_gradients(
        *(nothing, nothing, key, value, grad_out, q, lse, delta, key_end, entries),
        *(first, middle, start, head * GROUP, count, log2_scale, out_stride, q_stride),
        *(GROUP, DEPTH, PADDED, INNER, OWN, THROUGH, False),
    )
    grad_key, grad_value = _add_key_gradients(
        *(grad_key, grad_value, key, value, grad_out, q, lse, delta, key_end, entries),
        *(middle, last, start, head * GROUP, count, log2_scale, out_stride, q_stride),
        *(GROUP, DEPTH, PADDED, INNER, OWN, THROUGH, True),
    )
    grad_key *= log2_scale * LN_2
    inside = (row < count - start)[:, None] & (column < DEPTH)[None]
    if share < 0:
        there = (start + row)[:, None].to(tl.int64) * grad_stride + (head * DEPTH + column[None])
        tl.store(grad_k + there, grad_key.to(grad_k.dtype.element_ty), mask=inside)
        tl.store(grad_v + there, grad_value.to(grad_v.dtype.element_ty), mask=inside)
    else:
        at = parts + (share.to(tl.int64) * KV_HEADS + head) * (2 * OUTER * DEPTH)
        at += (piece + row)[:, None] * DEPTH + column[None]
        tl.store(at, grad_key, mask=inside)
        tl.store(at + OUTER * DEPTH, grad_value, mask=inside)


@triton.jit(do_not_specialize=["count"])
def _join_shares(  # noqa: PLR0913
    parts: tl.tensor,
    shares: tl.tensor,
    grad_k: tl.tensor,
    grad_v: tl.tensor,
    count: tl.tensor,
    grad_stride: tl.tensor,
    DEPTH: tl.constexpr,
    PADDED: tl.constexpr,
    OUTER: tl.constexpr,
    ROWS: tl.constexpr,
) -> None:
    """Add up a few rows of a block that was shared, always in the same order."""
    record, head = shares + tl.program_id(0) * 3, tl.program_id(1)
    block, share, many = tl.load(record), tl.load(record + 1), tl.load(record + 2)
    row = tl.program_id(2) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, PADDED)[None]
    token = block * OUTER + row
    inside = (token < count) & (column < DEPTH)
    kv_heads = tl.num_programs(1)
    at = parts + (share.to(tl.int64) * kv_heads + head) * (2 * OUTER * DEPTH)
    at += row * DEPTH + column
    key = tl.zeros([ROWS, PADDED], tl.float32)
    value = tl.zeros([ROWS, PADDED], tl.float32)
    for _ in range(many):
        key += tl.load(at, mask=inside, other=0.0)
        value += tl.load(at + OUTER * DEPTH, mask=inside, other=0.0)
        at += kv_heads * (2 * OUTER * DEPTH)
    there = token.to(tl.int64) * grad_stride + (head * DEPTH + column)
    tl.store(grad_k + there, key.to(grad_k.dtype.element_ty), mask=inside)
    tl.store(grad_v + there, value.to(grad_v.dtype.element_ty), mask=inside)


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
