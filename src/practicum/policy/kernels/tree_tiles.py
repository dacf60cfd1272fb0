"""What the kernels of tree attention share: their tiles, how rows are loaded, who sees whom."""

from typing import NamedTuple

import torch
import triton
import triton.language as tl

from practicum.policy.kernels.tree_blocks import TreeBlocks

__all__ = ["LN_2", "LOG2_E", "Attended", "Tile", "load_rows", "load_task", "padded_depth", "sees"]

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
