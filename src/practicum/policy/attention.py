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
    visible: torch.Tensor  # (B, 1, Q * group, L), each query once for each head of its group
    keep: torch.Tensor  # (B, Q) true for real tokens

    def attend(
        self, query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, scale: float
    ) -> torch.Tensor:
        """From (B, kv_heads, Q * group, D), over a layer's pool, to the same shape."""
        k, v = keys[self.slots].transpose(1, 2), values[self.slots].transpose(1, 2)
        if not self.trunk.numel():
            return scaled_dot_product_attention(query, k, v, attn_mask=self.visible, scale=scale)
        common = query.transpose(0, 1).flatten(1, 2)  # (kv_heads, B * Q * group, D)
        trunk_k, trunk_v = (x[self.trunk].transpose(0, 1) for x in (keys, values))
        on_trunk = (common @ trunk_k.transpose(1, 2)).float().mul_(scale)
        after = (query @ k.transpose(2, 3)).float().mul_(scale)
        after.masked_fill_(~self.visible, -torch.inf)
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

    def attend(
        self, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float
    ) -> torch.Tensor:
        """Store the new keys and values, then attend along each path."""
        keys, values = self.pool.layers[layer]
        keys[self.write_slots] = key[0].transpose(0, 1)
        values[self.write_slots] = value[0].transpose(0, 1)
        flat = query[0].transpose(0, 1)  # (T, heads, D)
        out = torch.empty_like(flat)
        kv_heads, depth = keys.shape[1:]
        for bucket in self.buckets:
            b, n = bucket.rows.shape
            q = flat[bucket.rows].view(b, n, kv_heads, -1, depth).transpose(1, 2)
            attended = bucket.attend(q.reshape(b, kv_heads, -1, depth), keys, values, scale)
            by_token = attended.view(b, kv_heads, n, -1, depth).transpose(1, 2)
            by_token = by_token.reshape(b, n, -1, depth)
            out[bucket.rows[bucket.keep]] = by_token[bucket.keep]
        return out[None]

    def longest_path(self) -> int:
        """The widest bucket's."""
        return max(b.trunk.numel() + b.slots.shape[1] for b in self.buckets)
