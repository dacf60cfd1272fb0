"""Attention over a prefix tree, block by block, with a backward pass of its own.

Consecutive tokens of a tree in depth-first order have nearly the same ancestors, so a block of
queries sees little besides itself and its trunk: cost follows the tree, not its square, and no
T x T mask is made. Query heads that share a key head are computed together as more queries, so keys
and values are never repeated. The backward pass recomputes the probabilities and adds each block's
share straight into the gradients of keys and values.
"""

from dataclasses import dataclass
from typing import Any

import torch

__all__ = ["KernelTreePlan", "TreePlan", "tree_plan"]

BLOCK = 128
"""Queries that are attended to together."""


@dataclass(frozen=True, slots=True)
class TreeBlock:
    """Consecutive queries, and all that any of them may see: a trunk and the block itself."""

    begin: int
    end: int
    trunk: torch.Tensor  # (K,) index of each token seen before the block
    bias: torch.Tensor  # (Q, 1, K + Q) 0 where a query may look, minus infinity elsewhere

    def gather(self, rows: torch.Tensor) -> torch.Tensor:
        """(T, heads, D) to the (heads, K + Q, D) that the block sees."""
        own = rows[self.begin : self.end]
        seen = torch.cat([rows.index_select(0, self.trunk), own]) if self.trunk.numel() else own
        return seen.transpose(0, 1)

    def scatter_add(self, rows: torch.Tensor, seen: torch.Tensor) -> None:
        """Add (heads, K + Q, D) to the (T, heads, D) rows it was gathered from."""
        back = seen.transpose(0, 1)
        count = self.trunk.numel()
        if count:
            rows.index_add_(0, self.trunk, back[:count])
        rows[self.begin : self.end] += back[count:]


@dataclass(frozen=True, slots=True)
class TreePlan:
    """What each block of a tree's tokens may see."""

    blocks: tuple[TreeBlock, ...]

    @classmethod
    def of(cls, end: torch.Tensor, block: int = BLOCK) -> "TreePlan":
        """From the index where each token's subtree ends."""
        index = torch.arange(end.numel(), device=end.device)
        blocks = []
        for begin in range(0, end.numel(), block):
            queries = index[begin : begin + block]
            trunk = index[:begin][end[:begin] > begin]
            keys = torch.cat([trunk, queries])
            visible = (keys[None] <= queries[:, None]) & (queries[:, None] < end[keys][None])
            bias = torch.zeros(visible.shape, device=end.device).masked_fill_(~visible, -torch.inf)
            blocks.append(TreeBlock(begin, begin + queries.numel(), trunk, bias[:, None]))
        return cls(tuple(blocks))

    def attend(
        self, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float
    ) -> torch.Tensor:
        """From (1, heads, T, D) and (1, kv_heads, T, D) to (1, T, heads, D)."""
        rows = (x[0].transpose(0, 1).contiguous() for x in (query, key, value))
        return _TreeAttention.apply(*rows, self, scale)[None]

    def forward(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """What each row (T, heads, D) attends to; nothing besides is kept for the backward."""
        kv_heads = key.shape[1]
        out = torch.empty(query.shape, dtype=query.dtype, device=query.device)
        for block in self.blocks:
            q = _grouped(query[block.begin : block.end], kv_heads)
            p = _probabilities(q, block.gather(key), block.bias, scale).to(query.dtype)
            attended = torch.bmm(p, block.gather(value))
            out[block.begin : block.end] = _ungrouped(attended, block.end - block.begin)
        return out, out.new_empty(0)

    def backward(
        self, grad: torch.Tensor, kept: tuple[torch.Tensor, ...], scale: float
    ) -> torch.Tensor:
        """Gradients (T, heads + 2 kv_heads, D), joined, from what `forward` took and gave."""
        query, key, value, out, _ = kept
        count, heads, depth = query.shape
        kv_heads = key.shape[1]
        joined = query.new_zeros((count, heads + 2 * kv_heads, depth))
        grad_query, grad_key, grad_value = joined.split([heads, kv_heads, kv_heads], dim=1)
        inner = (grad.float() * out.float()).sum(-1, keepdim=True)  # (T, heads, 1)
        for block in self.blocks:
            span = slice(block.begin, block.end)
            q, g = _grouped(query[span], kv_heads), _grouped(grad[span], kv_heads)
            k, v = block.gather(key), block.gather(value)
            p = _probabilities(q, k, block.bias, scale)
            block.scatter_add(grad_value, torch.bmm(p.to(g.dtype).transpose(1, 2), g))
            grad_p = torch.bmm(g, v.transpose(1, 2)).float()
            grad_s = (grad_p - _grouped(inner[span], kv_heads)).mul_(p).mul_(scale)
            grad_s = grad_s.to(q.dtype)
            grad_query[span] = _ungrouped(torch.bmm(grad_s, k), block.end - block.begin)
            block.scatter_add(grad_key, torch.bmm(grad_s.transpose(1, 2), q))
        return joined

    def longest_path(self) -> int:
        """The depth of the tree."""
        return max(int((block.bias == 0).sum(-1).max()) for block in self.blocks)


@dataclass(frozen=True, slots=True)
class KernelTreePlan:
    """The same on NVIDIA GPUs, by kernels of our own."""

    blocks: Any  # TreeBlocks
    depth: int

    @classmethod
    def of(cls, end: torch.Tensor) -> "KernelTreePlan":
        """From the index where each token's subtree ends."""
        from practicum.policy.kernels.tree_attention import TreeBlocks

        ended = torch.bincount(end, minlength=end.numel() + 1)[: end.numel()]
        open_paths = torch.arange(1, end.numel() + 1, device=end.device) - ended.cumsum(0)
        return cls(TreeBlocks.of(end), int(open_paths.max()))

    def attend(
        self, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float
    ) -> torch.Tensor:
        """From (1, heads, T, D) and (1, kv_heads, T, D) to (1, T, heads, D)."""
        rows = (x[0].transpose(0, 1).contiguous() for x in (query, key, value))
        return _TreeAttention.apply(*rows, self, scale)[None]

    def forward(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """What each row attends to, and the logarithms of its sums of exponentials."""
        from practicum.policy.kernels.tree_attention import tree_forward

        return tree_forward(query, key, value, self.blocks, scale)

    def backward(
        self, grad: torch.Tensor, kept: tuple[torch.Tensor, ...], scale: float
    ) -> torch.Tensor:
        """Gradients (T, heads + 2 kv_heads, D), joined."""
        from practicum.policy.kernels.tree_attention import tree_backward

        query, key, value, out, extra = kept
        return tree_backward(grad, query, key, value, out, extra, self.blocks, scale)

    def longest_path(self) -> int:
        """The depth of the tree."""
        return self.depth


def tree_plan(end: torch.Tensor) -> TreePlan | KernelTreePlan:
    """The fastest plan there is for the device that `end` is on."""
    return KernelTreePlan.of(end) if end.is_cuda else TreePlan.of(end)


def _grouped(rows: torch.Tensor, kv_heads: int) -> torch.Tensor:
    """(Q, heads, D) to (kv_heads, Q * group, D): heads that share keys become more queries."""
    _, heads, depth = rows.shape
    split = rows.unflatten(1, (kv_heads, heads // kv_heads))
    return split.transpose(0, 1).reshape(kv_heads, -1, depth)


def _ungrouped(rows: torch.Tensor, count: int) -> torch.Tensor:
    """The inverse of `_grouped`."""
    kv_heads, _, depth = rows.shape
    return rows.view(kv_heads, count, -1, depth).transpose(0, 1).reshape(count, -1, depth)


def _probabilities(
    query: torch.Tensor, key: torch.Tensor, bias: torch.Tensor, scale: float
) -> torch.Tensor:
    """(kv_heads, Q * group, K + Q), float32."""
    scores = torch.bmm(query, key.transpose(1, 2)).float().mul_(scale)
    per_query = scores.view(scores.shape[0], bias.shape[0], -1, scores.shape[-1])
    per_query += bias
    return torch.softmax(scores, dim=-1)


class _TreeAttention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        plan: TreePlan,
        scale: float,
    ) -> torch.Tensor:
        out, extra = plan.forward(query, key, value, scale)
        ctx.save_for_backward(query, key, value, out, extra)
        ctx.plan, ctx.scale = plan, scale
        return out

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[Any, ...]:
        kept = ctx.saved_tensors
        joined = ctx.plan.backward(grad, kept, ctx.scale)
        sizes = [x.shape[1] for x in kept[:3]]
        return *joined.split(sizes, dim=1), None, None
