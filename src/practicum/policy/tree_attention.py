"""Attention over a prefix tree, block by block, with a backward pass of its own.

Consecutive tokens of a tree in depth-first order have nearly the same ancestors, so a block of
queries sees little besides itself and its trunk: cost follows the tree, not its square, and no
T x T mask is made. Query heads that share a key head are computed together as more queries, so keys
and values are never repeated. The backward pass makes the probabilities again and adds each block's
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
    trunk: torch.Tensor  # (K,) index of each token before the block that is seen, by all or by some
    bias: torch.Tensor  # (Q, 1, P + Q) for what not all see: 0 where a query may look, else -inf

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

    def mask(self, group: int, dtype: torch.dtype) -> torch.Tensor:
        """(1, 1, Q * group, K + Q), to be added to scores; made when it is used and not kept."""
        queries, width = self.end - self.begin, self.trunk.numel() + self.end - self.begin
        mask = torch.zeros((queries, group, width), dtype=dtype, device=self.bias.device)
        mask[..., width - self.bias.shape[-1] :] = self.bias
        return mask.view(1, 1, queries * group, width)


@dataclass(frozen=True, slots=True)
class TreePlan:
    """What each block of a tree's tokens may see."""

    blocks: tuple[TreeBlock, ...]
    depth: int

    @classmethod
    def of(cls, end: torch.Tensor, block: int = BLOCK) -> "TreePlan":
        """From the index where each token's subtree ends."""
        index = torch.arange(end.numel(), device=end.device)
        blocks = []
        for begin, stop in _cuts(end, block):
            queries = index[begin:stop]
            before = index[:begin]
            by_all = before[end[:begin] >= stop]
            by_some = before[(end[:begin] > begin) & (end[:begin] < stop)]
            keys = torch.cat([by_some, queries])
            visible = (keys[None] <= queries[:, None]) & (queries[:, None] < end[keys][None])
            bias = torch.zeros(visible.shape, device=end.device).masked_fill_(~visible, -torch.inf)
            trunk = torch.cat([by_all, by_some])
            blocks.append(TreeBlock(begin, stop, trunk, bias[:, None]))
        return cls(tuple(blocks), _depth(end))

    def attend(
        self, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float
    ) -> torch.Tensor:
        """From (1, heads, T, D) and (1, kv_heads, T, D) to (1, T, heads, D)."""
        return _attend_by_rows(self, query, key, value, scale)

    def forward(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """What each row (T, heads, D) attends to, and logarithms of sums (kv_heads, T * group)."""
        count, heads, _ = query.shape
        kv_heads = key.shape[1]
        group = heads // kv_heads
        out = torch.empty(query.shape, dtype=query.dtype, device=query.device)
        sums = torch.empty((kv_heads, count * group), dtype=torch.float32, device=query.device)
        for block in self.blocks:
            q = _grouped(query[block.begin : block.end], kv_heads)
            mask = block.mask(group, q.dtype)
            attended, log_sum = _attend(q, block.gather(key), block.gather(value), mask, scale)
            out[block.begin : block.end] = _ungrouped(attended, block.end - block.begin)
            sums[:, block.begin * group : block.end * group] = log_sum
        return out, sums

    def backward(
        self, grad: torch.Tensor, kept: tuple[torch.Tensor, ...], scale: float
    ) -> torch.Tensor:
        """Gradients (T, heads + 2 kv_heads, D), joined, from what `forward` took and gave."""
        query, key, value, out, sums = kept
        count, heads, depth = query.shape
        kv_heads = key.shape[1]
        group = heads // kv_heads
        joined = query.new_zeros((count, heads + 2 * kv_heads, depth))
        grad_query, grad_key, grad_value = joined.split([heads, kv_heads, kv_heads], dim=1)
        for block in self.blocks:
            span = slice(block.begin, block.end)
            q, g, o = (_grouped(x[span], kv_heads) for x in (query, grad, out))
            log_sum = sums[:, block.begin * group : block.end * group]
            mask = block.mask(group, q.dtype)
            seen = (block.gather(key), block.gather(value))
            for_q, for_k, for_v = _attend_backward(g, q, seen, o, log_sum, mask, scale)
            grad_query[span] = _ungrouped(for_q, block.end - block.begin)
            block.scatter_add(grad_key, for_k)
            block.scatter_add(grad_value, for_v)
        return joined

    def longest_path(self) -> int:
        """The depth of the tree."""
        return self.depth


def _cuts(end: torch.Tensor, block: int) -> list[tuple[int, int]]:
    """Where blocks begin and stop: after so many tokens, or sooner where a branch begins."""
    branches = set(
        (end[:-1] == torch.arange(1, end.numel(), device=end.device)).nonzero()[:, 0].tolist()
    )
    cuts, begin = [], 0
    for last in range(end.numel()):
        size = last + 1 - begin
        if size >= block or (size > block // 2 and last in branches):
            cuts.append((begin, last + 1))
            begin = last + 1
    return [*cuts, (begin, end.numel())] if begin < end.numel() else cuts


def _depth(end: torch.Tensor) -> int:
    """Tokens on the longest path."""
    ended = torch.bincount(end, minlength=end.numel() + 1)[: end.numel()]
    return int((torch.arange(1, end.numel() + 1, device=end.device) - ended.cumsum(0)).max())


@dataclass(frozen=True, slots=True)
class KernelTreePlan:
    """The same on NVIDIA GPUs, by kernels of our own."""

    blocks: Any  # TreeBlocks
    depth: int

    @classmethod
    def of(cls, end: torch.Tensor) -> "KernelTreePlan":
        """From the index where each token's subtree ends."""
        from practicum.policy.kernels.tree_attention import TreeBlocks

        return cls(TreeBlocks.of(end), _depth(end))

    def attend(
        self, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float
    ) -> torch.Tensor:
        """From (1, heads, T, D) and (1, kv_heads, T, D) to (1, T, heads, D)."""
        return _attend_by_rows(self, query, key, value, scale)

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


def _attend(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor, scale: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """(kv_heads, N, D) over (kv_heads, M, D): what is attended to, and the logarithms of sums."""
    if query.device.type == "cpu":
        fused = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
        out, log_sum = fused(
            query[None], key[None], value[None], 0.0, False, attn_mask=mask, scale=scale
        )
        return out[0], log_sum[0]
    scores = torch.bmm(query, key.transpose(1, 2)).float().mul_(scale).add_(mask[0])
    log_sum = scores.logsumexp(-1)
    return torch.bmm((scores - log_sum[..., None]).exp_().to(value.dtype), value), log_sum


def _attend_backward(
    grad: torch.Tensor,
    query: torch.Tensor,
    seen: tuple[torch.Tensor, torch.Tensor],
    out: torch.Tensor,
    log_sum: torch.Tensor,
    mask: torch.Tensor,
    scale: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Gradients of query, key and value."""
    key, value = seen
    if query.device.type == "cpu":
        fused = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward
        inputs = (x[None] for x in (grad, query, key, value, out, log_sum))
        found = fused(*inputs, 0.0, False, attn_mask=mask, scale=scale)
        return found[0][0], found[1][0], found[2][0]
    scores = torch.bmm(query, key.transpose(1, 2)).float().mul_(scale).add_(mask[0])
    p = (scores - log_sum[..., None]).exp_()
    inner = (grad.float() * out.float()).sum(-1, keepdim=True)
    for_p = torch.bmm(grad, value.transpose(1, 2)).float()
    for_s = (for_p - inner).mul_(p).mul_(scale).to(query.dtype)
    for_v = torch.bmm(p.to(grad.dtype).transpose(1, 2), grad)
    return torch.bmm(for_s, key), torch.bmm(for_s.transpose(1, 2), query), for_v


def _attend_by_rows(
    plan: Any, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float
) -> torch.Tensor:
    rows = (x[0].transpose(0, 1).contiguous() for x in (query, key, value))
    return _TreeAttention.apply(*rows, plan, scale)[None]


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
