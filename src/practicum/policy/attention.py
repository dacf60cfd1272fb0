"""Attention by plan: one function for `transformers` modules, told per call what may see what.

Modules loaded with `attn_implementation=ATTENTION` hand their queries, keys and values to the plan
given as the keyword `plan`. Tokens travel as one row without padding; the plan alone knows which
belong together.
"""

from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch.nn.functional import scaled_dot_product_attention

from practicum.core.errors import UserError

__all__ = ["ATTENTION", "AttentionPlan", "Bucket", "CachePlan", "register_attention"]

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
    window = options.get("sliding_window")
    if window is not None and (length := plan.longest_path()) > window:
        raise UserError(
            f"this model attends to {window} tokens at a time, and a conversation has {length}; "
            "lower rollouts.max_turns or choose a model without a sliding window"
        )
    scale = scaling if scaling is not None else query.shape[-1] ** -0.5
    return plan.attend(module.layer_idx, query, key, value, scale), None


@dataclass(frozen=True, slots=True)
class Bucket:
    """Segments of similar length, attended to together.

    Shapes are of the padded bucket: B segments, Q new tokens, L tokens of path.
    """

    rows: torch.Tensor  # (B, Q) index into the step's tokens; padding repeats a real one
    slots: torch.Tensor  # (B, L) KV slots of each path; padding repeats a real one
    visible: torch.Tensor  # (B, 1, Q * group, L), each query once for each head of its group
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
        kv_heads, depth = keys.shape[1:]
        for bucket in self.buckets:
            b, n = bucket.rows.shape
            q = flat[bucket.rows].view(b, n, kv_heads, -1, depth).transpose(1, 2)
            attended = scaled_dot_product_attention(
                q.reshape(b, kv_heads, -1, depth),
                keys[bucket.slots].transpose(1, 2),
                values[bucket.slots].transpose(1, 2),
                attn_mask=bucket.visible,
                scale=scale,
            )
            by_token = attended.view(b, kv_heads, n, -1, depth).transpose(1, 2)
            by_token = by_token.reshape(b, n, -1, depth)
            out[bucket.rows[bucket.keep]] = by_token[bucket.keep]
        return out[None]

    def longest_path(self) -> int:
        """The widest bucket's."""
        return max(bucket.slots.shape[1] for bucket in self.buckets)
