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
    keep: torch.Tensor  # (B, Q) true for real tokens
    starts_paths: bool  # nothing of any path was computed before

    def visible(self, group: int) -> torch.Tensor:
        """(B, 1, Q * group, L): what each query may see, once for each head of its group."""
        first = self.trunk.numel()
        places = torch.arange(first, first + self.slots.shape[1], device=self.slots.device)
        return (places <= self.depth.repeat_interleave(group, 1)[:, :, None])[:, None]

    def attend_to_itself(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float
    ) -> torch.Tensor:
        """From rows (T, heads, D) to (B, Q, heads, D), where paths start here."""
        q, k, v = (x[self.rows].transpose(1, 2) for x in (query, key, value))
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
        visible: torch.Tensor,
    ) -> torch.Tensor:
        """From (B, kv_heads, Q * group, D), over a layer's pool, to the same shape."""
        k, v = keys[self.slots].transpose(1, 2), values[self.slots].transpose(1, 2)
        if not self.trunk.numel():
            return scaled_dot_product_attention(query, k, v, attn_mask=visible, scale=scale)
        common = query.transpose(0, 1).flatten(1, 2)  # (kv_heads, B * Q * group, D)
        trunk_k, trunk_v = (x[self.trunk].transpose(0, 1) for x in (keys, values))
        on_trunk = (common @ trunk_k.transpose(1, 2)).float().mul_(scale)
        after = (query @ k.transpose(2, 3)).float().mul_(scale)
        after.masked_fill_(~visible, -torch.inf)
        # One softmax over both parts: they share their largest score and their sum.
        shape = (query.shape[1], query.shape[0], query.shape[2], -1)
        on_trunk = on_trunk.view(*shape).transpose(0, 1)
        top = torch.maximum(on_trunk.amax(-1, keepdim=True), after.amax(-1, keepdim=True))
        on_trunk, after = on_trunk.sub(top).exp_(), after.sub_(top).exp_()
        total = on_trunk.sum(-1, keepdim=True) + after.sum(-1, keepdim=True)
        weights = on_trunk.transpose(0, 1).flatten(1, 2).to(v.dtype)
        out = (weights @ trunk_v).view(*shape).transpose(0, 1) + after.to(v.dtype) @ v
        return (out / total).to(query.dtype)


@dataclass(frozen=True, slots=True)
class CachePlan:
    """New tokens of many paths over a shared pool of cached keys and values."""

    pool: Any  # KvPool
    write_slots: torch.Tensor  # (T,)
    buckets: tuple[Bucket, ...]
    visible: tuple[torch.Tensor | None, ...]  # for each bucket that looks at the pool

    @classmethod
    def of(
        cls, pool: Any, write_slots: torch.Tensor, buckets: tuple[Bucket, ...], group: int
    ) -> "CachePlan":
        """What a bucket may see is worked out once for all layers."""
        visible = tuple(None if b.starts_paths else b.visible(group) for b in buckets)
        return cls(pool, write_slots, buckets, visible)

    def attend(
        self, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float
    ) -> torch.Tensor:
        """Store the new keys and values, then attend along each path."""
        keys, values = self.pool.layers[layer]
        flat, k, v = (x[0].transpose(0, 1) for x in (query, key, value))  # (T, heads, D)
        keys[self.write_slots], values[self.write_slots] = k, v
        out = torch.empty(flat.shape, dtype=flat.dtype, device=flat.device)
        kv_heads, depth = keys.shape[1:]
        for bucket, visible in zip(self.buckets, self.visible, strict=True):
            if visible is None:
                by_token = bucket.attend_to_itself(flat, k, v, scale)
            else:
                b, n = bucket.rows.shape
                q = flat[bucket.rows].view(b, n, kv_heads, -1, depth).transpose(1, 2)
                q = q.reshape(b, kv_heads, -1, depth)
                attended = bucket.attend(q, keys, values, scale, visible)
                by_token = attended.view(b, kv_heads, n, -1, depth).transpose(1, 2)
                by_token = by_token.reshape(b, n, -1, depth)
            out[bucket.rows[bucket.keep]] = by_token[bucket.keep]
        return out[None]

    def longest_path(self) -> int:
        """The widest bucket's."""
        return max(b.trunk.numel() + b.slots.shape[1] for b in self.buckets)
