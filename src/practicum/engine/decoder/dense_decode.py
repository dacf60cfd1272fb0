"""Forward passes without gradient: any mix of rows, or many tokens for the same rows.

Between two changes of the batch nothing needs planning: every row takes one token a step. A decode
run copies what its rows see out of the pool once, each common beginning only once for all the rows
that share it, appends in place, and writes what is new back to the pool when it ends.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from practicum.core.sample import Ints
from practicum.engine.compute_thread import give_way
from practicum.engine.decoder.attention import AttentionPlan, KvPool, attend_in_batch, merged_out
from practicum.engine.decoder.layers import DecoderParts, Elementwise, LayerParts, LayerProducts


def planned_states(
    parts: DecoderParts,
    products: Sequence[LayerProducts],
    small: Elementwise,
    plan: AttentionPlan,
    token_ids: torch.Tensor,
    positions: torch.Tensor,
) -> torch.Tensor:
    """Hidden states (T, H) after the last norm; the plan says who sees whom."""
    angles = parts.angles(positions)
    x = parts.embedding[token_ids]
    for number, (layer, of_layer) in enumerate(zip(parts.layers, products, strict=True)):
        give_way()
        heads = of_layer.qkv(x).view(x.shape[0], -1, parts.head_dim)
        turn_heads(heads, parts, layer, small, angles)
        q, k, v = (h.transpose(0, 1)[None] for h in parts.split_heads(heads))
        attended = plan.attend(number, q, k, v, parts.scale)[0].flatten(1)
        x = of_layer.output(attended, x)
        x = of_layer.down(of_layer.activated(x), x)
    return small.rms_norm(x, parts.final_norm, parts.eps)


def turn_heads(
    heads: torch.Tensor,
    parts: DecoderParts,
    layer: LayerParts,
    small: Elementwise,
    angles: tuple[torch.Tensor, torch.Tensor],
) -> None:
    """Turn queries and keys of (T, heads + 2 kv_heads, D) in place, normed if the family does."""
    if layer.query_norm is not None and layer.key_norm is not None:
        query, key, _ = parts.split_heads(heads)
        for x, weight in ((query, layer.query_norm), (key, layer.key_norm)):
            x.copy_(small.rms_norm(x, weight, parts.eps))
    turning = heads[:, : -parts.kv_heads]
    small.rotate(turning, *angles, out=turning)


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeRow:
    """A row before its next token: where its path is cached, and where it goes on."""

    path: Ints
    """Slots of the tokens that are computed already."""
    fresh: Ints
    """Slots for the tokens to come."""
    group: int
    """The same for rows that are attended to together."""
    prefix: int
    """How much of the path is the same for all rows of its group."""


class DenseDecode:
    """One decode run over a pool; `step` as often as wanted, then `close`."""

    def __init__(
        self,
        parts: DecoderParts,
        products: Sequence[LayerProducts],
        small: Elementwise,
        pool: KvPool,
        rows: Sequence[DecodeRow],
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
        self._cos = cos.unflatten(0, (room, -1))
        self._sin = sin.unflatten(0, (room, -1))

    def step(self, token_ids: torch.Tensor) -> torch.Tensor:
        """One token of every row, in order; returns their hidden states (B, H)."""
        parts, small = self._parts, self._small
        angles = self._cos[self._done], self._sin[self._done]
        x = parts.embedding[token_ids]
        for number, (layer, products) in enumerate(zip(parts.layers, self._products, strict=True)):
            give_way()
            heads = products.qkv(x).view(x.shape[0], -1, parts.head_dim)
            turn_heads(heads, parts, layer, small, angles)
            x = products.output(self._attend(number, heads), x)
            x = products.down(products.activated(x), x)
        self._done += 1
        return small.rms_norm(x, parts.final_norm, parts.eps)

    def _attend(self, layer: int, heads: torch.Tensor) -> torch.Tensor:
        """From (B, heads + 2 kv_heads, D), turned, to (B, heads * D)."""
        scale, count = self._parts.scale, self._parts.heads
        query, new = heads[:, :count], heads[:, count:]
        if len(self._groups) == 1:
            [only] = self._groups
            only.append(layer, new, self._done)
            return only.attend(layer, query, self._done, scale).flatten(1)
        out = torch.empty_like(query)
        for group in self._groups:
            of = group.members
            group.append(layer, new[of], self._done)
            out[of] = group.attend(layer, query[of], self._done, scale)
        return out.flatten(1)

    def close(self) -> None:
        """Put what was computed into the pool."""
        for group in self._groups:
            fresh = [self._rows[i].fresh[: self._done] for i in group.members.tolist()]
            slots = torch.from_numpy(np.concatenate(fresh)).to(group.members.device)
            group.store(self._pool, slots, self._done)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    """Rows that share a prefix, and their tails, aligned at their ends.

    Every row writes its next key and value at the same place.
    """

    members: torch.Tensor
    prefixes: list[
        tuple[torch.Tensor, torch.Tensor]
    ]  # a layer's keys and values (1, kv_heads, K, D)
    tails: list[torch.Tensor]  # a layer's keys and values (B, 2, kv_heads, longest + room, D)
    longest: int
    bias: torch.Tensor | None  # (B, 1, 1, longest + room), where tails differ in length

    @classmethod
    def of(cls, members: list[int], rows: Sequence[DecodeRow], pool: KvPool, room: int) -> "_Group":
        device = pool.layers[0][0].device
        prefix = rows[members[0]].prefix
        paths = [rows[i].path[prefix:] for i in members]
        longest = max(path.size for path in paths)
        slots = np.zeros((len(paths), longest), np.int64)
        for row, path in zip(slots, paths, strict=True):
            row[longest - path.size :] = path
        shared = torch.from_numpy(rows[members[0]].path[:prefix]).to(device)
        before = torch.from_numpy(slots).to(device)
        prefixes, tails = [], []
        for layer in pool.layers:
            prefixes.append(_prefix(layer, shared))
            tails.append(_tail(layer, before, room))
        bias = None
        if any(path.size < longest for path in paths):
            lacking = torch.tensor([longest - path.size for path in paths], device=device)
            places = torch.arange(longest + room, device=device)
            bias = torch.zeros((len(paths), longest + room), device=device)
            bias.masked_fill_(places[None] < lacking[:, None], -torch.inf)
            bias = bias[:, None, None]
        return cls(
            members=torch.tensor(members, device=device),
            prefixes=prefixes,
            tails=tails,
            longest=longest,
            bias=bias,
        )

    def append(self, layer: int, new: torch.Tensor, done: int) -> None:
        """Put keys and values (B, 2 kv_heads, D) behind what `done` steps have put there."""
        tail = self.tails[layer]
        tail[:, :, :, self.longest + done] = new.view(tail.shape[:3] + tail.shape[4:])

    def attend(self, layer: int, query: torch.Tensor, done: int, scale: float) -> torch.Tensor:
        """From (B, heads, D) to what they attend to."""
        prefix_k, prefix_v = self.prefixes[layer]
        seen = self.longest + done + 1
        tail_k, tail_v = self.tails[layer][:, :, :, :seen].unbind(1)
        rows, kv_heads, depth = query.shape[0], prefix_k.shape[1], query.shape[2]
        grouped = query.view(rows, kv_heads, -1, depth)
        mask = None if self.bias is None else self.bias[..., :seen]
        after = attend_in_batch(grouped, tail_k, tail_v, mask, scale)
        if not prefix_k.shape[2]:
            return after[0].reshape(query.shape)
        together = grouped.transpose(0, 1).reshape(1, kv_heads, -1, depth)
        out, log_sum = attend_in_batch(together, prefix_k, prefix_v, None, scale)
        on_prefix = (
            out.view(kv_heads, rows, -1, depth).transpose(0, 1),
            log_sum.view(kv_heads, rows, -1).transpose(0, 1),
        )
        return merged_out(on_prefix, after).reshape(query.shape)

    def store(self, pool: KvPool, slots: torch.Tensor, done: int) -> None:
        """Copy the last `done` keys and values of every row into the pool."""
        for into, tail in zip(pool.layers, self.tails, strict=True):
            for x, mine in zip(into, tail.unbind(1), strict=True):
                new = mine[:, :, self.longest : self.longest + done].transpose(1, 2)
                x[slots] = new.flatten(0, 1)


def _prefix(
    pool: tuple[torch.Tensor, torch.Tensor], slots: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Keys and values of some slots, (1, kv_heads, K, D)."""
    key, value = (x.index_select(0, slots).transpose(0, 1)[None].contiguous() for x in pool)
    return key, value


def _tail(pool: tuple[torch.Tensor, torch.Tensor], slots: torch.Tensor, room: int) -> torch.Tensor:
    """(B, 2, kv_heads, before + room, D), the first part filled from the pool."""
    (count, before), (_, kv_heads, depth) = slots.shape, pool[0].shape
    tail = pool[0].new_zeros((count, 2, kv_heads, before + room, depth))
    for x, mine in zip(pool, tail.unbind(1), strict=True):
        found = x.index_select(0, slots.flatten()).view(count, before, kv_heads, depth)
        mine[:, :, :before] = found.transpose(1, 2)
    return tail
