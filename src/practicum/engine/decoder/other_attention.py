"""Attention of families whose scores are not plain products: capped, in a window, or with sinks.

Computed with torch's own operations, block by block, on any device: slower than the fused ways,
which know only scaled products. What is kept for the way back is each block's inputs; its scores
are made again.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

BLOCK = 128
"""Queries that are attended to together."""


@dataclass(frozen=True, slots=True)
class Scoring:
    """How a layer turns products of queries and keys into shares of attention."""

    scale: float
    softcap: float | None = None
    """Scores are bent to stay within this, on either side."""
    window: int | None = None
    """Tokens that a query looks back on, its own included."""
    sinks: Tensor | None = None  # (heads,)
    """For each head, a score that takes a share and gives nothing."""

    def is_plain(self, longest_path: int) -> bool:
        """Whether scaled products are all there is to it, on paths no longer than that."""
        within = self.window is None or longest_path <= self.window
        return within and self.softcap is None and self.sinks is None

    def sees(self, query_places: Tensor, key_places: Tensor) -> Tensor:
        """Which keys of its path a query looks at, from the places of both on it."""
        seen = key_places <= query_places
        if self.window is None:
            return seen
        return seen & (key_places > query_places - self.window)

    def attend(self, query: Tensor, key: Tensor, value: Tensor, seen: Tensor) -> Tensor:
        """(..., Q, heads, D) over (..., K, kv_heads, D); `seen` is (..., Q, K)."""
        kv_heads = key.shape[-2]
        by_key_head = query.unflatten(-2, (kv_heads, -1))  # (..., Q, kv_heads, group, D)
        scores = torch.einsum("...qhgd,...khd->...hgqk", by_key_head, key) * self.scale
        if self.softcap is not None:
            scores = torch.tanh(scores / self.softcap) * self.softcap
        hidden = ~seen[..., None, None, :, :]
        shares = self._shares(scores.masked_fill(hidden, -torch.inf), kv_heads).to(value.dtype)
        return torch.einsum("...hgqk,...khd->...qhgd", shares, value).flatten(-3, -2)

    def _shares(self, scores: Tensor, kv_heads: int) -> Tensor:
        """(..., kv_heads, group, Q, K), of which sinks take their part."""
        if self.sinks is None:
            return scores.softmax(-1, dtype=torch.float32)
        sinks = self.sinks.to(scores.dtype).view(kv_heads, -1, 1, 1)
        with_sinks = torch.cat([scores, sinks.expand(*scores.shape[:-1], 1)], -1)
        return with_sinks.softmax(-1, dtype=torch.float32)[..., :-1]


def depths(end: Tensor) -> Tensor:
    """(T,) the place of each token on its path, from the index where each one's subtree ends."""
    ended = torch.bincount(end, minlength=end.numel() + 1)[: end.numel()]
    return torch.arange(end.numel(), device=end.device) - ended.cumsum(0)


def attend_tree(query: Tensor, key: Tensor, value: Tensor, end: Tensor, scoring: Scoring) -> Tensor:
    """Tokens of a prefix tree, (T, heads, D), each over its ancestors and itself; with gradient."""
    place, index = depths(end), torch.arange(end.numel(), device=end.device)
    parts = []
    for begin, stop in _blocks(end.numel()):
        # Some query of the block may see these; the rest of the tree none of them does.
        keys = torch.cat([(end[:begin] > begin).nonzero()[:, 0], index[begin:stop]])
        queries = index[begin:stop, None]
        seen = (keys <= queries) & (queries < end[keys])
        seen = seen & scoring.sees(place[begin:stop, None], place[keys])
        inputs = (query[begin:stop], key.index_select(0, keys), value.index_select(0, keys), seen)
        parts.append(checkpoint(scoring.attend, *inputs, use_reentrant=False))
    return torch.cat(parts)


def _blocks(count: int) -> Iterator[tuple[int, int]]:
    return ((begin, min(begin + BLOCK, count)) for begin in range(0, count, BLOCK))
