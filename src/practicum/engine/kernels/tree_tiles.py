"""What the kernels of tree attention share: which blocks see which, tiles, how rows are loaded.

Tokens of a tree in depth-first order are cut into outer blocks, one for each program, and inner
blocks, which a program goes through. Two sides need lists: queries go through the keys they see,
and in the backward pass keys go through the queries that see them. Blocks in which every pair is
visible come first in each list, since they need no mask.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
import triton
import triton.language as tl

TASKS = 256
"""Parts that the key side is cut into, about. A trunk is seen by the whole tree: as one task, it
would still be running long after everything else."""

SHORTEST_TASK = 8
"""Inner blocks below which a list is not cut, since the parts have to be added up again."""


@dataclass(frozen=True, slots=True)
class TreeBlocks:
    """Lists of visible blocks, and the tasks that go through them.

    A task is a row of `query_tasks` or `key_tasks`: its outer block; where its part of `entries`
    begins, where blocks that need a mask begin in it, and where it ends; and for a key block that
    is shared between tasks, where its share of the sum goes, otherwise -1.
    """

    end: torch.Tensor  # (T,) int32 index where each token's subtree ends
    entries: torch.Tensor  # (E,) int32 inner blocks, list after list
    query_tasks: torch.Tensor  # (N, 5) int32, the longest first
    key_tasks: torch.Tensor  # (N', 5) int32, the longest first
    shares: torch.Tensor  # (S, 3) int32: a shared key block, its first share, how many it has
    share_count: int
    outer: int
    inner: int

    @classmethod
    def of(cls, end: torch.Tensor, outer: int = 128, inner: int = 64) -> "TreeBlocks":
        """From the index where each token's subtree ends; waits for the device once.

        Args:
            end: (T,) token i may see token j exactly when `j <= i < end[j]`.
            outer: Tokens of a program.
            inner: Tokens it looks at together; divides `outer`.
        """
        visible = _visible(end, outer, inner)
        counts = visible.sum(-1).cpu()  # (2, N, 2): side, outer block, with or without a mask
        place = visible.flatten().cumsum(0)
        columns = torch.arange(visible.shape[-1], dtype=torch.int32, device=end.device)
        # One entry more, for everything that is not visible.
        entries = columns.new_empty(int(counts.sum()) + 1)
        place = torch.where(visible.flatten(), place - 1, entries.numel() - 1)
        entries.scatter_(0, place, columns.repeat(visible.numel() // columns.numel()))
        bounds = torch.cat([counts.new_zeros(1), counts.flatten().cumsum(0)])
        first, middle, last = (bounds[i : bounds.numel() - 2 + i : 2].view(2, -1) for i in range(3))
        query_tasks = _tasks(first[0], middle[0], last[0], longest=int(counts.sum()))
        longest = max(SHORTEST_TASK, -(-int(counts[1].sum()) // TASKS))
        key_tasks = _tasks(first[1], middle[1], last[1], longest)
        shares = _shares(key_tasks)
        return cls(
            end=end.to(torch.int32),
            entries=entries,
            query_tasks=_longest_first(query_tasks).to(end.device, non_blocking=True),
            key_tasks=_longest_first(key_tasks).to(end.device, non_blocking=True),
            shares=shares.to(end.device, non_blocking=True),
            share_count=int(shares[:, 2].sum()),
            outer=outer,
            inner=inner,
        )

    def to(self, device: torch.device) -> "TreeBlocks":
        """The same lists on another device."""
        names = ("end", "entries", "query_tasks", "key_tasks", "shares")
        moved = {name: getattr(self, name).to(device, non_blocking=True) for name in names}
        return replace(self, **moved)


def _visible(end: torch.Tensor, outer: int, inner: int) -> torch.Tensor:
    """(2, N, 2, M) bool: sides, outer blocks, without and with a mask, inner blocks."""
    count = end.numel()
    blocks = -(-count // outer)
    beyond = blocks * outer - count
    highest = torch.nn.functional.pad(end, (0, beyond), value=0)
    lowest = torch.nn.functional.pad(end, (0, beyond), value=count)
    begin = torch.arange(0, blocks * outer, outer, device=end.device)[:, None]
    start = torch.arange(0, blocks * outer, inner, device=end.device)[None]
    # Outer blocks of queries, inner blocks of keys.
    sees = (highest.view(-1, inner).amax(1)[None] > begin) & (start < begin + outer)
    until = (begin + outer).clamp(max=count)
    sees_all = (start + inner - 1 <= begin) & (lowest.view(-1, inner).amin(1)[None] >= until)
    # Outer blocks of keys, inner blocks of queries; no subtree reaches to the end of a last block
    # that is not full, which therefore gets a mask.
    seen = (highest.view(-1, outer).amax(1)[:, None] > start) & (start + inner > begin)
    through = lowest.view(-1, outer).amin(1)[:, None] >= start + inner
    seen_by_all = (begin + outer - 1 <= start) & through
    queries = torch.stack([sees & sees_all, sees & ~sees_all], 1)
    keys = torch.stack([seen & seen_by_all, seen & ~seen_by_all], 1)
    return torch.stack([queries, keys])


def _tasks(
    first: torch.Tensor, middle: torch.Tensor, last: torch.Tensor, longest: int
) -> torch.Tensor:
    """One row of a task table for each outer block, or several where its list is long."""
    length = last - first
    parts = ((length + longest - 1) // longest).clamp(min=1)
    row = torch.repeat_interleave(torch.arange(first.numel()), parts)
    slot = torch.arange(row.numel())
    part = slot - (parts.cumsum(0) - parts)[row]
    begin = first[row] + length[row] * part // parts[row]
    stop = first[row] + length[row] * (part + 1) // parts[row]
    masked = middle[row].clamp(min=begin, max=stop)
    is_shared = parts[row] > 1
    share = torch.where(is_shared, is_shared.cumsum(0) - 1, -1)
    return torch.stack([row, begin, masked, stop, share], 1).to(torch.int32)


def _shares(tasks: torch.Tensor) -> torch.Tensor:
    """Which shares of which blocks have to be added up; tasks are still in order."""
    shared = tasks[tasks[:, 4] >= 0]
    block, count = torch.unique_consecutive(shared[:, 0], return_counts=True)
    return torch.stack([block, count.cumsum(0) - count, count], 1).to(torch.int32)


def _longest_first(tasks: torch.Tensor) -> torch.Tensor:
    order = torch.argsort(tasks[:, 3] - tasks[:, 1], descending=True, stable=True)
    return tasks[order].contiguous()


LOG2_E = tl.constexpr(1.4426950408889634)
LN_2 = tl.constexpr(0.6931471805599453)


class Attended(NamedTuple):
    """What went into the forward pass and what came out of it; see `tree_forward`."""

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    out: torch.Tensor
    lse: torch.Tensor
    blocks: TreeBlocks
    scale: float

    @property
    def padded(self) -> int:
        """The depth of a head as tiles have it."""
        return padded_depth(self.q.shape[2])


class Tile(NamedTuple):
    """Rows that a program owns, rows it goes through at a time, and how it is run."""

    own: int
    through: int
    warps: int
    stages: int

    def within(self, outer: int, inner: int) -> "Tile":
        """The same, no larger than the blocks that lists are made of."""
        return self._replace(own=min(self.own, outer), through=min(self.through, inner))


def padded_depth(depth: int) -> int:
    """A power of two, and no smaller than what tensor cores take."""
    return max(16, triton.next_power_of_2(depth))


@triton.jit
def load_task(
    tasks: tl.tensor, number: tl.tensor
) -> tuple[tl.tensor, tl.tensor, tl.tensor, tl.tensor, tl.tensor]:
    """Outer block, first entry, first one with a mask, end of entries, share: see `TreeBlocks`."""
    at = tasks + number * 5
    return tl.load(at), tl.load(at + 1), tl.load(at + 2), tl.load(at + 3), tl.load(at + 4)


@triton.jit
def load_rows(
    base: tl.tensor,
    start: tl.tensor,
    stride: tl.tensor,
    count: tl.tensor,
    ROWS: tl.constexpr,
    DEPTH: tl.constexpr,
    PADDED: tl.constexpr,
    AT_EDGE: tl.constexpr,
) -> tl.tensor:
    """(ROWS, PADDED) from row `start` on; zeros beyond the depth, and beyond `count` at an edge."""
    row, column = tl.arange(0, ROWS)[:, None], tl.arange(0, PADDED)[None]
    at = base + start.to(tl.int64) * stride + (row * stride + column)
    if AT_EDGE:
        return tl.load(at, mask=(row < count - start) & (column < DEPTH), other=0.0)
    if PADDED > DEPTH:
        return tl.load(at, mask=column < DEPTH, other=0.0)
    return tl.load(at)


@triton.jit
def sees(query: tl.tensor, key: tl.tensor, key_end: tl.tensor) -> tl.tensor:
    """Whether the token at index `query` may see the one at `key`, whose subtree ends there."""
    return (key <= query) & (query < key_end)
