"""Attention by plan: one function for `transformers` modules, told per call what may see what.

Modules loaded with `attn_implementation=ATTENTION` hand their queries, keys and values to the plan
given as the keyword `plan`. Tokens travel as one row without padding; the plan alone knows which
belong together.
"""

from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch.nn.functional import scaled_dot_product_attention

__all__ = ["ATTENTION", "AttentionPlan", "CachePlan", "TreePlan", "register_attention"]

ATTENTION = "practicum"
"""Name under which `transformers` knows our attention."""


class AttentionPlan(Protocol):
    """What one forward pass may attend to."""

    def attend(
        self, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float
    ) -> torch.Tensor:
        """From (1, heads, T, D) and (1, kv_heads, T, D) to (1, T, heads, D)."""
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
            raise NotImplementedError(f"attention option {name!r} of this architecture")
    window = options.get("sliding_window")
    if window is not None and query.shape[2] > window:
        raise NotImplementedError(f"sliding-window attention over more than {window} tokens")
    scale = scaling if scaling is not None else query.shape[-1] ** -0.5
    return plan.attend(module.layer_idx, query, key, value, scale), None


@dataclass(frozen=True, slots=True)
class TreePlan:
    """A prefix tree in depth-first order; `visible` is (1, 1, T, T), true where one may look."""

    visible: torch.Tensor

    @classmethod
    def of(cls, end: torch.Tensor) -> "TreePlan":
        """From the index where each token's subtree ends."""
        index = torch.arange(end.numel(), device=end.device)
        visible = (index[None, :] <= index[:, None]) & (index[:, None] < end[None, :])
        return cls(visible[None, None])

    def attend(
        self, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float
    ) -> torch.Tensor:
        """Dense attention under the tree's mask."""
        groups = query.shape[1] // key.shape[1]
        key, value = (x.repeat_interleave(groups, dim=1) for x in (key, value))
        out = scaled_dot_product_attention(query, key, value, attn_mask=self.visible, scale=scale)
        return out.transpose(1, 2)


@dataclass(frozen=True, slots=True)
class Bucket:
    """Segments of similar length, attended to together.

    Shapes are of the padded bucket: B segments, Q new tokens, L tokens of path.
    """

    rows: torch.Tensor  # (B, Q) index into the step's tokens; padding repeats a real one
    slots: torch.Tensor  # (B, L) KV slots of each path; padding repeats a real one
    visible: torch.Tensor  # (B, 1, Q, L)
    keep: torch.Tensor  # (B, Q) true for real tokens


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
        groups = query.shape[1] // key.shape[1]
        for bucket in self.buckets:
            q = flat[bucket.rows].transpose(1, 2)  # (B, heads, Q, D)
            k = keys[bucket.slots].transpose(1, 2).repeat_interleave(groups, dim=1)
            v = values[bucket.slots].transpose(1, 2).repeat_interleave(groups, dim=1)
            attended = scaled_dot_product_attention(q, k, v, attn_mask=bucket.visible, scale=scale)
            out[bucket.rows[bucket.keep]] = attended.transpose(1, 2)[bucket.keep]
        return out[None]
