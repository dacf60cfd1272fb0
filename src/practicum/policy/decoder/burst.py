"""Several tokens for the same rows in one go, with keys and values laid out densely for it.

Between two changes of the batch nothing needs planning: every row takes one token a step. A burst
copies what its rows see out of the pool once, each common beginning only once for all the rows that
share it, appends in place, and writes what is new back to the pool when it ends.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from practicum.core.sample import Ints
from practicum.policy.block_attention import attend_in_batch, merged_out
from practicum.policy.decoder.elementwise import Elementwise
from practicum.policy.decoder.parts import DecoderParts
from practicum.policy.decoder.products import LayerProducts
from practicum.policy.decoder.states import turned_heads
from practicum.policy.kv_pool import KvPool

__all__ = ["BurstRow", "DenseBurst"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BurstRow:
    """A row before its next token: where its path is cached, and where it goes on."""

    path: Ints
    """Slots of the tokens that are computed already."""
    fresh: Ints
    """Slots for the tokens to come."""
    group: int
    """The same for rows that are attended to together."""
    trunk: int
    """How much of the path is the same for all rows of its group."""


class DenseBurst:
    """One burst over a pool; `step` as often as wanted, then `close`."""

    def __init__(
        self,
        parts: DecoderParts,
        products: Sequence[LayerProducts],
        small: Elementwise,
        pool: KvPool,
        rows: Sequence[BurstRow],
    ) -> None:
        self._parts, self._products, self._small, self._pool = parts, products, small, pool
        self._rows = rows
        self._done = 0
        room = min(row.fresh.size for row in rows)
        groups: dict[int, list[int]] = {}
        for number, row in enumerate(rows):
            groups.setdefault(row.group, []).append(number)
        self._groups = [_Group.of(members, rows, pool, room) for members in groups.values()]
        device = pool.layers[0][0].device
        first = torch.tensor([row.path.size for row in rows], device=device)
        steps = torch.arange(room, device=device)
        cos, sin = parts.angles((first[None] + steps[:, None]).flatten())
        self._cos = cos.view(room, len(rows), -1)
        self._sin = sin.view(room, len(rows), -1)

    def step(self, token_ids: torch.Tensor) -> torch.Tensor:
        """One token of every row, in order; returns their hidden states (B, H)."""
        parts, small, eps = self._parts, self._small, self._parts.eps
        cos, sin = self._cos[self._done], self._sin[self._done]
        x = parts.embedding[token_ids]
        for number, (layer, products) in enumerate(zip(parts.layers, self._products, strict=True)):
            qkv = products.qkv(small.rms_norm(x, layer.attention_norm, eps))
            heads = qkv.view(x.shape[0], -1, parts.head_dim)
            turned = turned_heads(heads[:, : -parts.kv_heads], parts, layer, small, (cos, sin))
            attended = self._attend(number, turned, heads[:, -parts.kv_heads :])
            x = products.output(attended, x)
            x = products.down(products.activated(small.rms_norm(x, layer.mlp_norm, eps)), x)
        self._done += 1
        return small.rms_norm(x, parts.final_norm, eps)

    def _attend(self, layer: int, turned: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        """From (B, heads + kv_heads, D), rotated, and (B, kv_heads, D) to (B, heads * D)."""
        parts = self._parts
        query, key = turned[:, : parts.heads], turned[:, parts.heads :]
        if len(self._groups) == 1:
            [only] = self._groups
            only.append(layer, key, value, self._done)
            return only.attend(layer, query, self._done, parts.scale).flatten(1)
        out = torch.empty_like(query)
        for group in self._groups:
            of = group.members
            group.append(layer, key[of], value[of], self._done)
            out[of] = group.attend(layer, query[of], self._done, parts.scale)
        return out.flatten(1)

    def close(self) -> None:
        """Put what was computed into the pool."""
        for group in self._groups:
            fresh = [self._rows[i].fresh[: self._done] for i in group.members.tolist()]
            slots = torch.from_numpy(np.concatenate(fresh)).to(group.members.device)
            group.store(self._pool, slots, self._done)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    """Rows that share a trunk, and their tails, aligned at their ends.

    Tails are (B, kv_heads, longest + room, D): every row writes its next key at the same place.
    """

    members: torch.Tensor
    trunks: list[tuple[torch.Tensor, torch.Tensor]]  # a layer's (kv_heads, K, D)
    tails: list[tuple[torch.Tensor, torch.Tensor]]
    longest: int
    bias: torch.Tensor | None  # (B, 1, 1, longest + room), where tails differ in length

    @classmethod
    def of(cls, members: list[int], rows: Sequence[BurstRow], pool: KvPool, room: int) -> "_Group":
        device = pool.layers[0][0].device
        trunk = rows[members[0]].trunk
        paths = [rows[i].path[trunk:] for i in members]
        longest = max(path.size for path in paths)
        slots = np.zeros((len(paths), longest), np.int64)
        for row, path in zip(slots, paths, strict=True):
            row[longest - path.size :] = path
        shared = torch.from_numpy(rows[members[0]].path[:trunk]).to(device)
        before = torch.from_numpy(slots).to(device)
        trunks, tails = [], []
        for layer in pool.layers:
            trunks.append(_pair(x.index_select(0, shared).transpose(0, 1) for x in layer))
            tails.append(_pair(_tail(x, before, room) for x in layer))
        bias = None
        if any(path.size < longest for path in paths):
            lacking = torch.tensor([longest - path.size for path in paths], device=device)
            places = torch.arange(longest + room, device=device)
            bias = torch.zeros((len(paths), longest + room), device=device)
            bias.masked_fill_(places[None] < lacking[:, None], -torch.inf)
            bias = bias[:, None, None]
        return cls(
            members=torch.tensor(members, device=device),
            trunks=trunks,
            tails=tails,
            longest=longest,
            bias=bias,
        )

    def append(self, layer: int, key: torch.Tensor, value: torch.Tensor, done: int) -> None:
        """Put (B, kv_heads, D) behind what `done` steps have put there."""
        for tail, new in zip(self.tails[layer], (key, value), strict=True):
            tail[:, :, self.longest + done] = new

    def attend(self, layer: int, query: torch.Tensor, done: int, scale: float) -> torch.Tensor:
        """From (B, heads, D) to what they attend to."""
        trunk_k, trunk_v = self.trunks[layer]
        seen = self.longest + done + 1
        tail_k, tail_v = (x[:, :, :seen] for x in self.tails[layer])
        kv_heads = trunk_k.shape[0]
        grouped = query.unflatten(1, (kv_heads, -1))
        mask = None if self.bias is None else self.bias[..., :seen]
        after = attend_in_batch(grouped, tail_k, tail_v, mask, scale)
        if not trunk_k.shape[1]:
            return after[0].reshape(query.shape)
        together = grouped.transpose(0, 1).reshape(1, kv_heads, -1, query.shape[2])
        on_trunk = attend_in_batch(together, trunk_k[None], trunk_v[None], None, scale)
        out, log_sum = (x[0].unflatten(1, (query.shape[0], -1)).transpose(0, 1) for x in on_trunk)
        return merged_out((out, log_sum), after).reshape(query.shape)

    def store(self, pool: KvPool, slots: torch.Tensor, done: int) -> None:
        """Copy the last `done` keys and values of every row into the pool."""
        for into, tail in zip(pool.layers, self.tails, strict=True):
            for x, mine in zip(into, tail, strict=True):
                new = mine[:, :, self.longest : self.longest + done].transpose(1, 2)
                x[slots] = new.flatten(0, 1)


def _pair(found: Iterable[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    first, second = (x.contiguous() for x in found)
    return first, second


def _tail(x: torch.Tensor, slots: torch.Tensor, room: int) -> torch.Tensor:
    """(B, kv_heads, before + room, D), the first part filled from the pool."""
    count, before = slots.shape
    tail = x.new_zeros((count, x.shape[1], before + room, x.shape[2]))
    found = x.index_select(0, slots.flatten()).view(count, before, *x.shape[1:])
    tail[:, :, :before] = found.transpose(1, 2)
    return tail
