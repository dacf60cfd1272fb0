"""Attention over a prefix tree in depth-first order: the backward pass.

Probabilities are computed again from what the forward pass kept. Queries go through the keys they
see, keys through the queries that see them; a key block with many of those is shared between
programs, and their shares are added up in a fixed order.
"""

import torch
import triton
import triton.language as tl

from practicum.policy.kernels.tree_blocks import TreeBlocks
from practicum.policy.kernels.tree_tiles import LN_2, LOG2_E, Tile, load_rows, load_task, sees

__all__ = ["tree_backward"]

ROWS_AT_ONCE = 16
"""Rows of a shared key block that one program adds up."""


def tree_backward(
    grad_out: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    out: torch.Tensor,
    lse: torch.Tensor,
    blocks: TreeBlocks,
    scale: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
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
        The three gradients, shaped like `q`, `k` and `v`. They are views of one tensor of
        (T, (heads + 2 * kv_heads) * D) in this order, laid out as joined projections are.
    """
    count, heads, depth = q.shape
    kv_heads = k.shape[1]
    sizes = [heads, kv_heads, kv_heads]
    joined = torch.empty((count, sum(sizes), depth), dtype=q.dtype, device=q.device)
    grad_q, grad_k, grad_v = joined.split(sizes, 1)
    delta = torch.empty_like(lse)
    tensors = (grad_out, q, k, v)
    lists = (blocks.end, blocks.entries)
    strides = [x.stride(0) for x in (*tensors, joined)]
    padded = max(16, triton.next_power_of_2(depth))
    query_tile, key_tile = (
        tile.within(blocks.outer, blocks.inner) for tile in _tiles(q.element_size(), padded)
    )
    shape = {"HEADS": heads, "GROUP": heads // kv_heads, "DEPTH": depth, "PADDED": padded}
    sizes = {"OUTER": blocks.outer, "INNER": blocks.inner}
