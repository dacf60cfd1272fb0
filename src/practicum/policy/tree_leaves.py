"""Attention within the short last branches of a tree, all those of about one length in one call.

A block of many short branches would compute mostly what its mask then hides. What such a branch
sees of its trunk is long runs of keys, which `tree_attention` attends to by itself.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from practicum.policy.block_attention import attend_in_batch, attend_in_batch_backward

__all__ = ["Chain", "Leaves", "chains", "in_batches"]

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
