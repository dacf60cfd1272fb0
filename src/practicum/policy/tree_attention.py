"""Attention over a prefix tree, block by block, with a backward pass of its own.

Consecutive tokens of a tree in depth-first order have nearly the same ancestors, so a block of
queries sees little besides itself and its trunk: cost follows the tree, not its square, and no
T x T mask is made. Query heads that share a key head are computed together as more queries, so keys
and values are never repeated. The backward pass makes the probabilities again and adds each block's
share straight into the gradients of keys and values.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

__all__ = ["KernelTreePlan", "TreePlan", "tree_plan"]

BLOCK = 128
"""Queries that are attended to together."""

SPAN = 64
"""A run of keys that all queries of a block see is worth a product of its own from this length."""


@dataclass(frozen=True, slots=True)
class TreeBlock:
    """Consecutive queries, and what some of them see: the block itself and part of the trunk."""

    begin: int
    end: int
    trunk: torch.Tensor  # (K,) index of each token before the block that is seen, by all or by some
    bias: torch.Tensor  # (Q, 1, P + Q) for what not all see: 0 where a query may look, else -inf

    def gather(self, rows: torch.Tensor) -> torch.Tensor:
        """(heads, T, D) to the (heads, K + Q, D) that the block sees."""
        own = rows[:, self.begin : self.end]
        return torch.cat([rows.index_select(1, self.trunk), own], 1) if self.trunk.numel() else own

    def scatter_add(self, rows: torch.Tensor, seen: torch.Tensor) -> None:
        """Add (heads, K + Q, D) to the (heads, T, D) rows it was gathered from."""
        count = self.trunk.numel()
        if count:
            rows.index_add_(1, self.trunk, seen[:, :count])
        rows[:, self.begin : self.end] += seen[:, count:]

    def mask(self, group: int, dtype: torch.dtype) -> torch.Tensor:
        """(Q * group, K + Q), to be added to scores; made when it is used and not kept."""
        queries, width = self.end - self.begin, self.trunk.numel() + self.end - self.begin
        mask = torch.zeros((queries, group, width), dtype=dtype, device=self.bias.device)
        mask[..., width - self.bias.shape[-1] :] = self.bias
        return mask.view(queries * group, width)


class Span(NamedTuple):
    """Consecutive queries that all see the same long run of keys: no mask, nothing to gather."""

    queries: slice
    keys: slice

    def joined(self, other: "Span") -> "Span | None":
        """Both as one, where the other's queries come next and see the same keys."""
        follows = other.queries.start == self.queries.stop and other.keys == self.keys
        return (
            self._replace(queries=slice(self.queries.start, other.queries.stop))
            if follows
            else None
        )


@dataclass(frozen=True, slots=True)
class TreePlan:
    """What each block of a tree's tokens may see, and what is seen by long runs of them at once."""

    blocks: tuple[TreeBlock, ...]
    spans: tuple[Span, ...]
    depth: int

    @classmethod
    def of(cls, end: torch.Tensor, block: int = BLOCK, span: int = SPAN) -> "TreePlan":
        """From the index where each token's subtree ends."""
        index = torch.arange(end.numel(), device=end.device)
        blocks, spans = [], []
        for begin, stop in _cuts(end, block):
            queries = index[begin:stop]
            before = index[:begin]
            runs, by_all = _long_runs(before[end[:begin] >= stop], span)
            spans += [Span(slice(begin, stop), run) for run in runs]
            by_some = before[(end[:begin] > begin) & (end[:begin] < stop)]
            keys = torch.cat([by_some, queries])
            visible = (keys[None] <= queries[:, None]) & (queries[:, None] < end[keys][None])
            bias = torch.zeros(visible.shape, device=end.device).masked_fill_(~visible, -torch.inf)
            trunk = torch.cat([by_all, by_some])
            blocks.append(TreeBlock(begin, stop, trunk, bias[:, None]))
        return cls(tuple(blocks), _joined(spans), _depth(end))

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
        key, value = (x.transpose(0, 1).contiguous() for x in (key, value))
        for block in self.blocks:
            q = _grouped(query[block.begin : block.end], kv_heads)
            mask = block.mask(group, q.dtype)
            attended, log_sum = _attend(q, block.gather(key), block.gather(value), mask, scale)
            out[block.begin : block.end] = _ungrouped(attended, block.end - block.begin)
            sums[:, block.begin * group : block.end * group] = log_sum
        for rows, keys in self.spans:
            log_sum = sums[:, rows.start * group : rows.stop * group]
            more = _attend(
                _grouped(query[rows], kv_heads), key[:, keys], value[:, keys], None, scale
            )
            attended, all_sum = _merged((_grouped(out[rows], kv_heads), log_sum), more)
            out[rows] = _ungrouped(attended, rows.stop - rows.start)
            log_sum.copy_(all_sum)
        return out, sums

    def backward(
        self, grad: torch.Tensor, kept: tuple[torch.Tensor, ...], scale: float
    ) -> torch.Tensor:
        """Gradients (T, heads + 2 kv_heads, D), joined, from what `forward` took and gave."""
        query, key, value, out, sums = kept
        count, heads, depth = query.shape
        kv_heads = key.shape[1]
        group = heads // kv_heads
        joined = query.new_empty((count, heads + 2 * kv_heads, depth))
        grad_query, grad_key, grad_value = joined.split([heads, kv_heads, kv_heads], dim=1)
        key, value = (x.transpose(0, 1).contiguous() for x in (key, value))
        key_sum, value_sum = torch.zeros_like(key), torch.zeros_like(value)

        def of_queries(rows: slice) -> tuple[torch.Tensor, ...]:
            log_sum = sums[:, rows.start * group : rows.stop * group]
            return *(_grouped(x[rows], kv_heads) for x in (grad, query, out)), log_sum

        for block in self.blocks:
            rows = slice(block.begin, block.end)
            mask = block.mask(group, query.dtype)
            seen = (block.gather(key), block.gather(value))
            for_q, for_k, for_v = _attend_backward(of_queries(rows), seen, mask, scale)
            grad_query[rows] = _ungrouped(for_q, block.end - block.begin)
            block.scatter_add(key_sum, for_k)
            block.scatter_add(value_sum, for_v)
        for rows, keys in self.spans:
            seen = (key[:, keys], value[:, keys])
            for_q, for_k, for_v = _attend_backward(of_queries(rows), seen, None, scale)
            grad_query[rows] += _ungrouped(for_q, rows.stop - rows.start)
            key_sum[:, keys] += for_k
            value_sum[:, keys] += for_v
        grad_key.copy_(key_sum.transpose(0, 1))
        grad_value.copy_(value_sum.transpose(0, 1))
        return joined

    def longest_path(self) -> int:
        """The depth of the tree."""
        return self.depth


def _cuts(end: torch.Tensor, block: int) -> list[tuple[int, int]]:
    """Where blocks begin and stop: after so many tokens, or sooner where the last branch began."""
    branches = set(
        (end[:-1] == torch.arange(1, end.numel(), device=end.device)).nonzero()[:, 0].tolist()
    )
    cuts, begin, branch = [], 0, 0
    for last in range(end.numel()):
        branch = last + 1 if last in branches else branch
        if last + 1 - begin >= block:
            stop = branch if branch - begin > block // 2 else last + 1
            cuts.append((begin, stop))
            begin = stop
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


def _long_runs(index: torch.Tensor, span: int) -> tuple[tuple[slice, ...], torch.Tensor]:
    """Runs of consecutive numbers that are long enough, and the numbers in no such run."""
    breaks = (index.diff() != 1).nonzero()[:, 0] + 1
    runs = index.tensor_split(breaks.cpu())
    long = tuple(slice(int(run[0]), int(run[-1]) + 1) for run in runs if run.numel() >= span)
    return long, torch.cat([index[:0], *(run for run in runs if run.numel() < span)])


def _joined(spans: list[Span]) -> tuple[Span, ...]:
    """Spans of neighbouring blocks as one, where they have the same keys."""
    found: dict[tuple[int, int], list[Span]] = {}
    for span in spans:
        alike = found.setdefault((span.keys.start, span.keys.stop), [])
        joined = alike[-1].joined(span) if alike else None
        alike[-1:] = [joined] if joined else [*alike[-1:], span]
    return tuple(span for alike in found.values() for span in alike)


Attended = tuple[torch.Tensor, torch.Tensor]
"""What (kv_heads, N, D) queries attend to, and the logarithms of their sums (kv_heads, N)."""


def _merged(one: Attended, other: Attended) -> Attended:
    """Attention over two sets of keys, from attention over each."""
    log_sum = torch.logaddexp(one[1], other[1])
    first, second = (
        x * (log_part - log_sum).exp().unsqueeze(-1).to(x.dtype) for x, log_part in (one, other)
    )
    return first + second, log_sum


def _halves(rows: torch.Tensor) -> torch.Tensor:
    """(kv_heads, N, ...) as a batch of two halves, so that an odd number of heads fills all cores.

    The fused backward pass gives whole heads to threads.
    """
    batch = 1 if rows.shape[1] % 2 else 2
    return rows.unflatten(1, (batch, -1)).transpose(0, 1)


def _whole(halves: torch.Tensor) -> torch.Tensor:
    """The inverse of `_halves`."""
    return halves.transpose(0, 1).flatten(1, 2)


def _fused_mask(mask: torch.Tensor | None) -> torch.Tensor | None:
    """(N, M) for the halves of N queries."""
    return None if mask is None else _halves(mask[None])


def _attend(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    scale: float,
) -> Attended:
    """(kv_heads, N, D) over (kv_heads, M, D)."""
    if query.device.type == "cpu":
        fused = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
        halves = _halves(query)
        keys, values = (x.expand(halves.shape[0], -1, -1, -1) for x in (key, value))
        out, log_sum = fused(
            halves, keys, values, 0.0, False, attn_mask=_fused_mask(mask), scale=scale
        )
        return _whole(out), _whole(log_sum)
    scores = _scores(query, key, mask, scale)
    log_sum = scores.logsumexp(-1)
    return torch.bmm((scores - log_sum[..., None]).exp_().to(value.dtype), value), log_sum


def _scores(
    query: torch.Tensor, key: torch.Tensor, mask: torch.Tensor | None, scale: float
) -> torch.Tensor:
    scores = torch.bmm(query, key.transpose(1, 2)).float().mul_(scale)
    return scores if mask is None else scores.add_(mask)


def _attend_backward(
    queries: tuple[torch.Tensor, ...],
    seen: tuple[torch.Tensor, torch.Tensor],
    mask: torch.Tensor | None,
    scale: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Gradients of query, key and value, from the queries' (gradient, query, out, log_sum).

    Keys may be a part of all that is seen: `out` and `log_sum` are over all of it.
    """
    grad, query, out, log_sum = queries
    key, value = seen
    if query.device.type == "cpu":
        fused = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward
        grads, halves, outs, sums = (_halves(x) for x in (grad, query, out, log_sum))
        keys, values = (x.expand(halves.shape[0], -1, -1, -1) for x in (key, value))
        inputs = (grads, halves, keys, values, outs, sums)
        found = fused(*inputs, 0.0, False, attn_mask=_fused_mask(mask), scale=scale)
        return _whole(found[0]), found[1].sum(0), found[2].sum(0)
    p = (_scores(query, key, mask, scale) - log_sum[..., None]).exp_()
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
