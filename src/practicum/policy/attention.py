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


BLOCK = 128
"""Queries of a prefix tree that are attended to together."""


@dataclass(frozen=True, slots=True)
class TreeBlock:
    """Consecutive queries of a tree, and the only tokens any of them may see."""

    begin: int
    end: int
    keys: torch.Tensor  # (K,) index of each token seen
    visible: torch.Tensor  # (1, 1, Q, K)


@dataclass(frozen=True, slots=True)
class TreePlan:
    """A prefix tree in depth-first order, attended to block by block.

    Consecutive tokens of a tree have nearly the same ancestors, so a block sees little besides
    itself and its trunk: cost follows the tree, not its square, and no T x T mask is made.
    """

    blocks: tuple[TreeBlock, ...]

    @classmethod
    def of(cls, end: torch.Tensor, block: int = BLOCK) -> "TreePlan":
        """From the index where each token's subtree ends."""
        index = torch.arange(end.numel(), device=end.device)
        blocks = []
        for begin in range(0, end.numel(), block):
            queries = index[begin : begin + block]
            trunk = index[:begin][end[:begin] > begin]
            keys = torch.cat([trunk, queries])
            visible = (keys[None] <= queries[:, None]) & (queries[:, None] < end[keys][None])
            blocks.append(TreeBlock(begin, begin + queries.numel(), keys, visible[None, None]))
        return cls(tuple(blocks))

    def attend(
        self, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float
    ) -> torch.Tensor:
        """Attention of each block over the tokens it sees."""
        groups = query.shape[1] // key.shape[1]
        out = []
        for block in self.blocks:
            k, v = (
                x.index_select(2, block.keys).repeat_interleave(groups, dim=1) for x in (key, value)
            )
            q = query[:, :, block.begin : block.end]
            out.append(scaled_dot_product_attention(q, k, v, attn_mask=block.visible, scale=scale))
        return torch.cat(out, dim=2).transpose(1, 2)

    def longest_path(self) -> int:
        """The depth of the tree."""
        return max(int(block.visible.sum(-1).max()) for block in self.blocks)


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

    def longest_path(self) -> int:
        """The widest bucket's."""
        return max(bucket.slots.shape[1] for bucket in self.buckets)
