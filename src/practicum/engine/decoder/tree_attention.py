"""Attention over a prefix tree, block by block, with a backward pass of its own.

A block of many short branches would compute mostly what its mask then hides. What such a branch
sees of its trunk is long runs of keys, which `tree_attention` attends to by itself.

Consecutive tokens of a tree in depth-first order have nearly the same ancestors, so a block of
queries sees little besides itself and its trunk: cost follows the tree, not its square, and no
T x T mask is made. Query heads that share a key head are computed together as more queries, so keys
and values are never repeated. The backward pass makes the probabilities again and adds each block's
share straight into the gradients of keys and values.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch

from practicum.engine.decoder.attention import (
    attend,
    attend_backward,
    attend_in_batch,
    attend_in_batch_backward,
    merged,
)
from practicum.engine.decoder.other_attention import Scoring, attend_tree, depths

LENGTHS = (16, 32, 64)
"""Up to which lengths branches are padded to the longest of them."""

FEWEST = 4
"""Branches of one such length that are worth a call."""

Chain = tuple[int, int]
"""Where a branch without branches begins, and where it ends."""


def chains(end: Sequence[int]) -> Iterator[Chain]:
    """The last branches of a tree, from the index where each token's subtree ends."""
    begin = 0
    for at, stop in enumerate(end):
        begin = at if at and end[at - 1] != stop else begin
        if stop == at + 1:
            yield begin, stop


def in_batches(found: Sequence[Chain]) -> list[list[Chain]]:
    """Those that are short, by length; none of a length that few have."""
    above = (0, *LENGTHS[:-1])
    alike = (
        [chain for chain in found if least < chain[1] - chain[0] <= most]
        for least, most in zip(above, LENGTHS, strict=True)
    )
    return [batch for batch in alike if len(batch) >= FEWEST]


@dataclass(frozen=True, slots=True)
class Leaves:
    """Last branches padded to the longest of them; each of their tokens sees its own branch."""

    index: torch.Tensor  # (n * L,) tokens; a branch's last one again where it is shorter
    real: torch.Tensor  # (R,) places in it that are no padding
    tokens: torch.Tensor  # (R,) what is at those places
    padding: torch.Tensor  # places that are
    count: int
    length: int

    @classmethod
    def of(cls, batch: Sequence[Chain], device: torch.device) -> "Leaves":
        """Of branches of about one length."""
        length = max(stop - begin for begin, stop in batch)
        begins, stops = torch.tensor(batch, device=device).t()
        places = begins[:, None] + torch.arange(length, device=device)
        is_real = (places < stops[:, None]).flatten()
        index = places.minimum(stops[:, None] - 1).flatten()
        real = is_real.nonzero()[:, 0]
        padding = (~is_real).nonzero()[:, 0]
        return cls(index, real, index[real], padding, len(batch), length)

    def forward(
        self,
        query: torch.Tensor,
        seen: tuple[torch.Tensor, torch.Tensor],
        into: tuple[torch.Tensor, torch.Tensor],
        scale: float,
    ) -> None:
        """Attend (kv_heads, T * group, D) to keys and values (kv_heads, T, D); fills `into`."""
        group = query.shape[1] // seen[0].shape[1]
        keys, values = (self._take(x, 1) for x in seen)
        mask = self._mask(group, query)
        found = attend_in_batch(self._take(query, group), keys, values, mask, scale)
        for rows, taken in zip(into, found, strict=True):
            self._put(rows, taken, group, add=False)

    def backward(
        self,
        queries: tuple[torch.Tensor, ...],
        seen: tuple[torch.Tensor, torch.Tensor],
        into: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
        scale: float,
    ) -> None:
        """From the queries' (gradient, query, out, log_sum); sets `into`'s queries, adds to keys.

        Padding adds nothing: its gradient is zero, and no query sees the keys of padding after it.
        """
        group = queries[0].shape[1] // seen[0].shape[1]
        grad, *others = (self._take(x, group) for x in queries)
        by_place = grad.transpose(0, 1).view(seen[0].shape[0], -1, group, grad.shape[-1])
        by_place.index_fill_(1, self.padding, 0.0)
        keys, values = (self._take(x, 1) for x in seen)
        mask = self._mask(group, grad)
        found = attend_in_batch_backward((grad, *others), (keys, values), mask, scale)
        for rows, taken, each in zip(into, found, (group, 1, 1), strict=True):
            self._put(rows, taken, each, add=each == 1)

    def _take(self, rows: torch.Tensor, each: int) -> torch.Tensor:
        """(kv_heads, T * each, ...) to (n, kv_heads, L * each, ...)."""
        by_token = rows.unflatten(1, (-1, each)).index_select(1, self.index)
        return by_token.unflatten(1, (self.count, self.length)).flatten(2, 3).transpose(0, 1)

    def _put(self, rows: torch.Tensor, taken: torch.Tensor, each: int, *, add: bool) -> None:
        """The other way, leaving padding out."""
        by_place = taken.transpose(0, 1).unflatten(2, (self.length, each)).flatten(1, 2)
        if self.padding.numel():
            by_place = by_place.index_select(1, self.real)
        by_token = rows.unflatten(1, (-1, each))
        if add:
            by_token.index_add_(1, self.tokens, by_place)
        else:
            by_token.index_copy_(1, self.tokens, by_place)

    def _mask(self, group: int, like: torch.Tensor) -> torch.Tensor:
        """(1, 1, L * group, L), to be added to scores."""
        at = torch.arange(self.length, device=like.device)
        hidden = (at > at[:, None])[:, None].expand(-1, group, -1).reshape(-1, self.length)
        return like.new_zeros(hidden.shape).masked_fill_(hidden, -torch.inf)[None, None]


BLOCK = 128
"""Queries that are attended to together."""

SPAN = 64
"""A run of keys that all queries of a block see is worth a product of its own from this length."""

MASK_BYTES = 64 << 20
"""Masks of all blocks are made once for all layers up to this size together."""


@dataclass(frozen=True, slots=True)
class TreeBlock:
    """Consecutive queries, and what some of them see: the block itself and part of the trunk."""

    begin: int
    end: int
    trunk: torch.Tensor  # (K,) index of each token before the block that is seen, by all or by some
    bias: torch.Tensor  # (Q, 1, P + Q) for what not all see: 0 where a query may look, else -inf

    @property
    def queries(self) -> int:
        """How many there are."""
        return self.end - self.begin

    @property
    def width(self) -> int:
        """Keys that are seen, by all or by some."""
        return self.trunk.numel() + self.queries

    def rows(self, group: int) -> slice:
        """Its queries where each counts for all heads of a group."""
        return slice(self.begin * group, self.end * group)

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
        """(Q * group, K + Q), to be added to scores."""
        shape = (self.queries, group, self.width)
        mask = torch.zeros(shape, dtype=dtype, device=self.bias.device)
        mask[..., self.width - self.bias.shape[-1] :] = self.bias
        return mask.view(-1, self.width)


class Span(NamedTuple):
    """Consecutive queries that all see the same long run of keys: no mask, nothing to gather."""

    queries: slice
    keys: slice

    def rows(self, group: int) -> slice:
        """Its queries where each counts for all heads of a group."""
        return slice(self.queries.start * group, self.queries.stop * group)

    def joined(self, other: "Span") -> "Span | None":
        """Both as one, where the other's queries come next and see the same keys."""
        follows = other.queries.start == self.queries.stop and other.keys == self.keys
        return (
            self._replace(queries=slice(self.queries.start, other.queries.stop))
            if follows
            else None
        )


class _AttendsByRows:
    """A plan as one layer uses it."""

    __slots__ = ()
    end: torch.Tensor

    def attend(
        self, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float
    ) -> torch.Tensor:
        """From (1, heads, T, D) and (1, kv_heads, T, D) to (1, T, heads, D)."""
        rows = (x[0].transpose(0, 1).contiguous() for x in (query, key, value))
        return _TreeAttention.apply(*rows, self, scale)[None]

    def attend_by(
        self,
        scoring: Scoring,
        layer: int,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
    ) -> torch.Tensor:
        """The same for scores that are not plain products."""
        q, k, v = (x[0].transpose(0, 1) for x in (query, key, value))
        return attend_tree(q, k, v, self.end, scoring)[None]


@dataclass(frozen=True, slots=True)
class TreePlan(_AttendsByRows):
    """What each block of a tree's tokens may see, and what is seen by long runs of them at once."""

    end: torch.Tensor
    blocks: tuple[TreeBlock, ...]
    leaves: tuple[Leaves, ...]
    spans: tuple[Span, ...]
    depth: int
    made: dict[tuple[int, torch.dtype], tuple[torch.Tensor, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, end: torch.Tensor, block: int = BLOCK, span: int = SPAN) -> "TreePlan":
        """From the index where each token's subtree ends."""
        runs = _apart(end, span)
        batches = in_batches(list(runs))
        taken = sorted(chain for batch in batches for chain in batch)
        cuts = [cut for part in _between(taken, end.numel()) for cut in _cuts(end, part, block)]
        found = [_block(end, cut, span) for cut in cuts]
        spans = [
            Span(slice(*place), run) for place in taken for run in _seen_runs(end, place, span)[0]
        ]
        spans += [one for _, several in found for one in several]
        leaves = tuple(Leaves.of(batch, end.device) for batch in batches)
        return cls(end, tuple(one for one, _ in found), leaves, _joined(spans), _depth(end))

    def forward(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """What each row (T, heads, D) attends to, and logarithms of sums (kv_heads, T * group)."""
        count, kv_heads = query.shape[0], key.shape[1]
        group = query.shape[1] // kv_heads
        query = _grouped(query, kv_heads)
        out = torch.empty_like(query)
        sums = torch.empty((kv_heads, count * group), dtype=torch.float32, device=query.device)
        key, value = (x.transpose(0, 1).contiguous() for x in (key, value))
        for block, mask in zip(self.blocks, self.masks(group, query.dtype), strict=True):
            rows = block.rows(group)
            seen = (block.gather(key), block.gather(value))
            out[:, rows], sums[:, rows] = attend(query[:, rows], *seen, mask, scale)
        for leaves in self.leaves:
            leaves.forward(query, (key, value), (out, sums), scale)
        for span in self.spans:
            rows = span.rows(group)
            more = attend(query[:, rows], key[:, span.keys], value[:, span.keys], None, scale)
            out[:, rows], sums[:, rows] = merged((out[:, rows], sums[:, rows]), more)
        return _ungrouped(out, count), sums

    def backward(
        self, grad: torch.Tensor, kept: tuple[torch.Tensor, ...], scale: float
    ) -> torch.Tensor:
        """Gradients (T, heads + 2 kv_heads, D), joined, from what `forward` took and gave."""
        query, key, value, out, sums = kept
        count, heads, depth = query.shape
        kv_heads = key.shape[1]
        group = heads // kv_heads
        of_queries = (*(_grouped(x, kv_heads) for x in (grad, query, out)), sums)
        key, value = (x.transpose(0, 1).contiguous() for x in (key, value))
        query_sum, key_sum, value_sum = (torch.zeros_like(x) for x in (of_queries[1], key, value))
        for block, mask in zip(self.blocks, self.masks(group, query.dtype), strict=True):
            rows = block.rows(group)
            seen = (block.gather(key), block.gather(value))
            found = attend_backward(tuple(x[:, rows] for x in of_queries), seen, mask, scale)
            query_sum[:, rows] = found[0]
            block.scatter_add(key_sum, found[1])
            block.scatter_add(value_sum, found[2])
        for leaves in self.leaves:
            into = (query_sum, key_sum, value_sum)
            leaves.backward(of_queries, (key, value), into, scale)
        for span in self.spans:
            rows = span.rows(group)
            seen = (key[:, span.keys], value[:, span.keys])
            found = attend_backward(tuple(x[:, rows] for x in of_queries), seen, None, scale)
            query_sum[:, rows] += found[0]
            key_sum[:, span.keys] += found[1]
            value_sum[:, span.keys] += found[2]
        joined = query.new_empty((count, heads + 2 * kv_heads, depth))
        joined[:, :heads] = _ungrouped(query_sum, count)
        joined[:, heads : heads + kv_heads] = key_sum.transpose(0, 1)
        joined[:, heads + kv_heads :] = value_sum.transpose(0, 1)
        return joined

    def masks(self, group: int, dtype: torch.dtype) -> Iterable[torch.Tensor]:
        """Every block's mask: for all layers where they are small, else made one by one."""
        if (group, dtype) not in self.made and self._mask_bytes(group) > MASK_BYTES:
            return (block.mask(group, dtype) for block in self.blocks)
        if (group, dtype) not in self.made:
            self.made[group, dtype] = tuple(block.mask(group, dtype) for block in self.blocks)
        return self.made[group, dtype]

    def _mask_bytes(self, group: int) -> int:
        return sum(4 * group * block.queries * block.width for block in self.blocks)

    def longest_path(self) -> int:
        """The depth of the tree."""
        return self.depth


def _block(end: torch.Tensor, place: Chain, span: int) -> tuple[TreeBlock, list[Span]]:
    """Consecutive queries, and the long runs of keys that all of them see."""
    begin, stop = place
    index = torch.arange(stop, device=end.device)
    queries, before = index[begin:], index[:begin]
    runs, by_all = _seen_runs(end, place, span)
    by_some = before[(end[:begin] > begin) & (end[:begin] < stop)]
    keys = torch.cat([by_some, queries])
    visible = (keys[None] <= queries[:, None]) & (queries[:, None] < end[keys][None])
    bias = torch.zeros(visible.shape, device=end.device).masked_fill_(~visible, -torch.inf)
    block = TreeBlock(begin, stop, torch.cat([by_all, by_some]), bias[:, None])
    return block, [Span(slice(begin, stop), run) for run in runs]


def _apart(end: torch.Tensor, span: int) -> dict[Chain, tuple[slice, ...]]:
    """The last branches that see nothing of their trunk but long runs of keys, and those runs."""
    seen = {chain: _seen_runs(end, chain, span) for chain in chains(end.tolist())}
    return {chain: runs for chain, (runs, rest) in seen.items() if not rest.numel()}


def _seen_runs(
    end: torch.Tensor, place: Chain, span: int
) -> tuple[tuple[slice, ...], torch.Tensor]:
    """What comes before consecutive queries and is seen by all: long runs, and the rest."""
    begin, stop = place
    return _long_runs((end[:begin] >= stop).nonzero()[:, 0], span)


def _between(taken: list[Chain], count: int) -> list[Chain]:
    """The runs of tokens that are left."""
    edges = [0, *(edge for place in taken for edge in place), count]
    pairs = zip(edges[::2], edges[1::2], strict=True)
    return [(begin, stop) for begin, stop in pairs if begin < stop]


def _cuts(end: torch.Tensor, part: Chain, block: int) -> list[Chain]:
    """Where blocks begin and stop: after so many tokens, or sooner where the last branch began."""
    first, stop = part
    own = end[first : stop - 1]
    branches = set(
        (own == torch.arange(first + 1, stop, device=end.device))
        .nonzero()[:, 0]
        .add(first)
        .tolist()
    )
    cuts, begin, branch = [], first, first
    for last in range(first, stop):
        branch = last + 1 if last in branches else branch
        if last + 1 - begin >= block:
            cut = branch if branch - begin > block // 2 else last + 1
            cuts.append((begin, cut))
            begin = cut
    return [*cuts, (begin, stop)] if begin < stop else cuts


def _depth(end: torch.Tensor) -> int:
    """Tokens on the longest path."""
    return int(depths(end).max()) + 1


@dataclass(frozen=True, slots=True)
class KernelTreePlan(_AttendsByRows):
    """The same on NVIDIA GPUs, by kernels of our own."""

    end: torch.Tensor
    blocks: Any  # TreeBlocks
    depth: int

    @classmethod
    def of(cls, end: torch.Tensor) -> "KernelTreePlan":
        """From the index where each token's subtree ends."""
        from practicum.engine.kernels.tree_tiles import TreeBlocks

        return cls(end, TreeBlocks.of(end), _depth(end))

    def forward(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """What each row attends to, and the logarithms of its sums of exponentials."""
        from practicum.engine.kernels.triton_tree_attention import tree_forward

        return tree_forward(query, key, value, self.blocks, scale)

    def backward(
        self, grad: torch.Tensor, kept: tuple[torch.Tensor, ...], scale: float
    ) -> torch.Tensor:
        """Gradients (T, heads + 2 kv_heads, D), joined."""
        from practicum.engine.kernels.triton_tree_attention import tree_backward

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
    for span in sorted(spans, key=lambda one: one.queries.start):
        alike = found.setdefault((span.keys.start, span.keys.stop), [])
        joined = alike[-1].joined(span) if alike else None
        alike[-1:] = [joined] if joined else [*alike[-1:], span]
    return tuple(span for alike in found.values() for span in alike)


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
