"""Attention by plan: one function for `transformers` modules, told per call what may see what.

Modules loaded with `attn_implementation=ATTENTION` hand their queries, keys and values to the plan
given as the keyword `plan`. Tokens travel as one row without padding; the plan alone knows which
belong together.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch.nn.functional import scaled_dot_product_attention

from practicum.core.errors import UserError
from practicum.policy.block_attention import attend, attend_in_batch, merged_out

__all__ = [
    "ATTENTION",
    "AttentionPlan",
    "Bucket",
    "CachePlan",
    "refuse_beyond_window",
    "register_attention",
]

ATTENTION = "practicum"
"""Name under which `transformers` knows our attention."""


class AttentionPlan(Protocol):
    """What one forward pass may attend to."""

    def attend(
        self, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float
    ) -> torch.Tensor:
        """From (1, heads, T, D) and (1, kv_heads, T, D) to (1, T, heads, D)."""
        ...

    def longest_path(self) -> int:
        """Tokens on the longest path, the new ones included."""
        ...


def register_attention() -> None:
    """Make `ATTENTION` known to `transformers`; calling it again does nothing new."""
    from transformers import AttentionInterface

    AttentionInterface.register(ATTENTION, _attend_by_plan)


def _attend_by_plan(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    *,
    plan: AttentionPlan,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    for name in ("softcap", "s_aux"):
        if options.get(name) is not None:
            raise UserError(
                f"this model's attention uses {name!r}, which Practicum does not compute; "
                "choose a model without it"
            )
    refuse_beyond_window(options.get("sliding_window"), plan.longest_path)
    scale = scaling if scaling is not None else query.shape[-1] ** -0.5
    return plan.attend(module.layer_idx, query, key, value, scale), None


def refuse_beyond_window(window: int | None, longest_path: Callable[[], int]) -> None:
    """A model that looks back only so far is refused where that would matter."""
    if window is not None and (length := longest_path()) > window:
        raise UserError(
            f"this model attends to {window} tokens at a time, and a conversation has {length}; "
            "lower rollouts.max_turns or choose a model without a sliding window"
        )


def _rows(values: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """`values[index]`, which takes torch several times as long on CPUs."""
    return values.index_select(0, index.flatten()).unflatten(0, index.shape)


@dataclass(frozen=True, slots=True)
class Bucket:
    """Segments of similar length, attended to together.

    Shapes are of the padded bucket: B segments, Q new tokens, L tokens of path after the trunk. The
    trunk is what all of them have in common: its keys and values are read once for all.
    """

    rows: torch.Tensor  # (B, Q) index into the step's tokens; padding repeats a real one
    trunk: torch.Tensor  # (K,) KV slots of the common beginning, empty if there is none
    slots: torch.Tensor  # (B, L) KV slots of each path after it; padding repeats a real one
    depth: torch.Tensor  # (B, Q) place of each new token on its path
    kept: torch.Tensor  # (N,) places in (B * Q,) that are no padding
    tokens: torch.Tensor  # (N,) index into the step's tokens of each of them
    starts_paths: bool  # nothing of any path was computed before

    def mask(self, group: int, dtype: torch.dtype) -> torch.Tensor:
        """(B, 1, Q * group, L) to add to scores: each query once for each head of its group."""
        first = self.trunk.numel()
        places = torch.arange(first, first + self.slots.shape[1], device=self.slots.device)
        ahead = places > self.depth.repeat_interleave(group, 1)[:, :, None]
        hidden = torch.zeros(ahead.shape, dtype=dtype, device=ahead.device)
        return hidden.masked_fill_(ahead, -torch.inf)[:, None]

    def attend_to_itself(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float
    ) -> torch.Tensor:
        """From rows (T, heads, D) to (B, Q, heads, D), where paths start here."""
        q, k, v = (_rows(x, self.rows).transpose(1, 2) for x in (query, key, value))
        found = scaled_dot_product_attention(
            q, k, v, is_causal=True, scale=scale, enable_gqa=q.shape[1] != k.shape[1]
        )
        return found.transpose(1, 2)

    def attend(
        self,
        query: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
        scale: float,
        mask: torch.Tensor,
    ) -> torch.Tensor:
        """From (B, kv_heads, Q * group, D), over a layer's pool, to the same shape."""
        k, v = (_rows(x, self.slots).transpose(1, 2) for x in (keys, values))
        if not self.trunk.numel():
            return scaled_dot_product_attention(query, k, v, attn_mask=mask, scale=scale)
        after = attend_in_batch(query, k, v, mask, scale)
        common = query.transpose(0, 1).flatten(1, 2)  # (kv_heads, B * Q * group, D)
        trunk_k, trunk_v = (_rows(x, self.trunk).transpose(0, 1) for x in (keys, values))
        out, log_sum = attend(common, trunk_k, trunk_v, None, scale)
        shape = (query.shape[1], query.shape[0], query.shape[2])
        on_trunk = (
            out.unflatten(1, shape[1:]).transpose(0, 1),
            log_sum.view(shape).transpose(0, 1),
        )
        return merged_out(on_trunk, after)


@dataclass(frozen=True, slots=True)
class CachePlan:
    """New tokens of many paths over a shared pool of cached keys and values."""

    pool: Any  # KvPool
    write_slots: torch.Tensor  # (T,)
    buckets: tuple[Bucket, ...]
    masks: tuple[torch.Tensor | None, ...]  # for each bucket that looks at the pool

    @classmethod
    def of(
        cls, pool: Any, write_slots: torch.Tensor, buckets: tuple[Bucket, ...], group: int
    ) -> "CachePlan":
        """What a bucket may see is worked out once for all layers."""
        dtype = pool.layers[0][0].dtype
        masks = tuple(None if b.starts_paths else b.mask(group, dtype) for b in buckets)
        return cls(pool, write_slots, buckets, masks)

    def attend(
        self, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float
    ) -> torch.Tensor:
        """Store the new keys and values, then attend along each path."""
        keys, values = self.pool.layers[layer]
        flat, k, v = (x[0].transpose(0, 1) for x in (query, key, value))  # (T, heads, D)
        keys[self.write_slots], values[self.write_slots] = k, v
        out = torch.zeros(flat.shape, dtype=flat.dtype, device=flat.device)  # what fills up is 0
        kv_heads, depth = keys.shape[1:]
        for bucket, mask in zip(self.buckets, self.masks, strict=True):
            if mask is None:
                by_token = bucket.attend_to_itself(flat, k, v, scale)
            else:
                b, n = bucket.rows.shape
                q = _rows(flat, bucket.rows).view(b, n, kv_heads, -1, depth).transpose(1, 2)
                q = q.reshape(b, kv_heads, -1, depth)
                attended = bucket.attend(q, keys, values, scale, mask)
                by_token = attended.view(b, kv_heads, n, -1, depth).transpose(1, 2)
                by_token = by_token.reshape(b, n, -1, depth)
            out[bucket.tokens] = _rows(by_token.flatten(0, 1), bucket.kept)
        return out[None]

    def longest_path(self) -> int:
        """The widest bucket's."""
        return max(b.trunk.numel() + b.slots.shape[1] for b in self.buckets)
