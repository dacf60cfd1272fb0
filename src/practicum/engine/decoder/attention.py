"""Attention by plan over cached keys and values: what may see what is said per call.

On CPUs torch's fused attention, which also says the logarithms of its sums; elsewhere plain
products.

Modules loaded with `attn_implementation=ATTENTION` hand their queries, keys and values to the plan
given as the keyword `plan`. Tokens travel as one row without padding; the plan alone knows which
belong together.
"""

from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from practicum.engine.decoder.other_attention import Scoring


class KvPool:
    """Keys and values of all layers, each (capacity + 1, kv_heads, head_dim).

    The slot after the last belongs to nobody: rows that only fill up a batch write there.
    """

    def __init__(
        self, config: Any, capacity: int, dtype: torch.dtype, device: torch.device
    ) -> None:
        heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
        head_dim = (
            getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        )
        self._shape = (heads, head_dim)
        self._options = {"dtype": dtype, "device": device}
        self.layers = [
            (self._empty(capacity), self._empty(capacity)) for _ in range(config.num_hidden_layers)
        ]

    def _empty(self, capacity: int) -> torch.Tensor:
        return torch.zeros((capacity + 1, *self._shape), **self._options)

    @property
    def spare(self) -> int:
        """The slot that belongs to nobody."""
        return self.layers[0][0].shape[0] - 1

    def grow(self, capacity: int) -> None:
        """More slots; what is cached stays where it is."""
        self.layers = [(self._grown(k, capacity), self._grown(v, capacity)) for k, v in self.layers]

    def _grown(self, old: torch.Tensor, capacity: int) -> torch.Tensor:
        new = self._empty(capacity)
        new[: old.shape[0] - 1] = old[:-1]
        return new


Attended = tuple[Tensor, Tensor]
"""What (..., N, D) queries attend to, and the logarithms of their sums (..., N)."""


def merged(one: Attended, other: Attended) -> Attended:
    """Attention over two sets of keys, from attention over each."""
    log_sum = torch.logaddexp(one[1], other[1])
    first, second = (
        x * (log_part - log_sum).exp().unsqueeze(-1).to(x.dtype) for x, log_part in (one, other)
    )
    return first + second, log_sum


def merged_out(one: Attended, other: Attended) -> Tensor:
    """The first half of `merged`, in fewer steps."""
    share = torch.sigmoid(other[1] - one[1]).unsqueeze(-1)
    return torch.lerp(one[0], other[0], share.to(one[0].dtype))


def _halves(rows: Tensor) -> Tensor:
    """(kv_heads, N, ...) as a batch of two halves, so that an odd number of heads fills all cores.

    The fused backward pass gives whole heads to threads.
    """
    batch = 1 if rows.shape[1] % 2 else 2
    return rows.unflatten(1, (batch, -1)).transpose(0, 1)


def _evened(rows: Tensor) -> Tensor:
    """(kv_heads, N, ...), with a row of zeros more where N is odd: its gradients are zero."""
    if rows.shape[1] % 2 == 0:
        return rows
    return torch.cat([rows, torch.zeros_like(rows[:, :1])], 1)


def _whole(halves: Tensor) -> Tensor:
    """The inverse of `_halves`."""
    return halves.transpose(0, 1).flatten(1, 2)


def _fused_mask(mask: Tensor | None) -> Tensor | None:
    """(N, M) for the halves of N queries."""
    return None if mask is None else _halves(mask[None])


def attend(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scale: float
) -> Attended:
    """(kv_heads, N, D) over (kv_heads, M, D)."""
    if query.device.type == "cpu":
        halves = _halves(query)
        keys, values = (x.expand(halves.shape[0], -1, -1, -1) for x in (key, value))
        out, log_sum = attend_in_batch(halves, keys, values, _fused_mask(mask), scale)
        return _whole(out), _whole(log_sum)
    return _attend_by_products(query, key, value, mask, scale)


def attend_in_batch(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scale: float
) -> Attended:
    """(B, kv_heads, N, D) over (B, kv_heads, M, D); the mask is added to the scores."""
    if query.device.type == "cpu":
        fused = torch._scaled_dot_product_flash_attention_for_cpu
        found: Attended = fused(query, key, value, 0.0, False, attn_mask=mask, scale=scale)
        return found
    return _attend_by_products(query, key, value, mask, scale)


def _attend_by_products(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scale: float
) -> Attended:
    scores = _scores(query, key, mask, scale)
    log_sum = scores.logsumexp(-1)
    return (scores - log_sum[..., None]).exp_().to(value.dtype) @ value, log_sum


def _scores(query: Tensor, key: Tensor, mask: Tensor | None, scale: float) -> Tensor:
    scores = (query @ key.transpose(-2, -1)).float().mul_(scale)
    return scores if mask is None else scores.add_(mask)


def attend_backward(
    queries: tuple[Tensor, ...], seen: tuple[Tensor, Tensor], mask: Tensor | None, scale: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of query, key and value, from the queries' (gradient, query, out, log_sum).

    Keys may be a part of all that is seen: `out` and `log_sum` are over all of it.
    """
    key, value = seen
    if key.device.type != "cpu":
        return _backward_by_products(queries, seen, mask, scale)
    count = queries[0].shape[1]
    if mask is None:
        queries = tuple(_evened(x) for x in queries)
    halves = tuple(_halves(x) for x in queries)
    keys, values = (x.expand(halves[0].shape[0], -1, -1, -1) for x in (key, value))
    found = attend_in_batch_backward(halves, (keys, values), _fused_mask(mask), scale)
    return _whole(found[0])[:, :count], found[1].sum(0), found[2].sum(0)


def attend_in_batch_backward(
    queries: tuple[Tensor, ...], seen: tuple[Tensor, Tensor], mask: Tensor | None, scale: float
) -> tuple[Tensor, Tensor, Tensor]:
    """The same with a batch before the heads, each with keys of its own."""
    grad, query, out, log_sum = queries
    if query.device.type != "cpu":
        return _backward_by_products(queries, seen, mask, scale)
    fused = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward
    inputs = (grad, query, *seen, out, log_sum)
    found: tuple[Tensor, Tensor, Tensor] = fused(*inputs, 0.0, False, attn_mask=mask, scale=scale)
    return found


def _backward_by_products(
    queries: tuple[Tensor, ...], seen: tuple[Tensor, Tensor], mask: Tensor | None, scale: float
) -> tuple[Tensor, Tensor, Tensor]:
    grad, query, out, log_sum = queries
    key, value = seen
    p = (_scores(query, key, mask, scale) - log_sum[..., None]).exp_()
    inner = (grad.float() * out.float()).sum(-1, keepdim=True)
    for_p = (grad @ value.transpose(-2, -1)).float()
    for_s = (for_p - inner).mul_(p).mul_(scale).to(query.dtype)
    for_v = p.to(grad.dtype).transpose(-2, -1) @ grad
    return for_s @ key, for_s.transpose(-2, -1) @ query, for_v


ATTENTION = "practicum"
"""Name under which `transformers` knows our attention."""


class AttentionPlan(Protocol):
    """What one forward pass may attend to."""

    def attend(
        self, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float
    ) -> torch.Tensor:
        """From (1, heads, T, D) and (1, kv_heads, T, D) to (1, T, heads, D)."""
        ...

    def attend_by(
        self, scoring: Scoring, layer: int, query: torch.Tensor, key: torch.Tensor, value: Tensor
    ) -> torch.Tensor:
        """The same for scores that are not plain products."""
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
    scoring = Scoring(
        scale=scaling if scaling is not None else query.shape[-1] ** -0.5,
        softcap=options.get("softcap"),
        window=options.get("sliding_window"),
        sinks=options.get("s_aux"),
    )
    if scoring.is_plain(plan.longest_path()):
        return plan.attend(module.layer_idx, query, key, value, scoring.scale), None
    return plan.attend_by(scoring, module.layer_idx, query, key, value), None


def _rows(values: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """`values[index]`, which takes torch several times as long on CPUs."""
    return values.index_select(0, index.flatten()).unflatten(0, index.shape)


@dataclass(frozen=True, slots=True)
class Bucket:
    """Segments of similar length, attended to together.

    Shapes are of the padded bucket: B segments, Q new tokens, L tokens of path after the prefix.
    The prefix is what all of them have in common: its keys and values are read once for all.
    """

    rows: torch.Tensor  # (B, Q) index into the step's tokens; padding repeats a real one
    prefix: torch.Tensor  # (K,) KV slots of the common beginning, empty if there is none
    slots: torch.Tensor  # (B, L) KV slots of each path after it; padding repeats a real one
    depth: torch.Tensor  # (B, Q) place of each new token on its path
    kept: torch.Tensor  # (N,) places in (B * Q,) that are no padding
    tokens: torch.Tensor  # (N,) index into the step's tokens of each of them
    starts_paths: bool  # nothing of any path was computed before

    def mask(self, group: int, dtype: torch.dtype) -> torch.Tensor:
        """(B, 1, Q * group, L) to add to scores: each query once for each head of its group."""
        first = self.prefix.numel()
        places = torch.arange(first, first + self.slots.shape[1], device=self.slots.device)
        ahead = places > self.depth.repeat_interleave(group, 1)[:, :, None]
        hidden = torch.zeros(ahead.shape, dtype=dtype, device=ahead.device)
        return hidden.masked_fill_(ahead, -torch.inf)[:, None]

    def attend_by(
        self, scoring: Scoring, query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor
    ) -> torch.Tensor:
        """From (T, heads, D), over a layer's pool, to (B, Q, heads, D)."""
        slots = torch.cat([self.prefix.expand(self.slots.shape[0], -1), self.slots], 1)
        places = torch.arange(slots.shape[1], device=slots.device)
        seen = scoring.sees(self.depth[..., None], places)
        q, k, v = _rows(query, self.rows), _rows(keys, slots), _rows(values, slots)
        return scoring.attend(q, k, v, seen)

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
        if not self.prefix.numel():
            return scaled_dot_product_attention(query, k, v, attn_mask=mask, scale=scale)
        after = attend_in_batch(query, k, v, mask, scale)
        common = query.transpose(0, 1).flatten(1, 2)  # (kv_heads, B * Q * group, D)
        prefix_k, prefix_v = (_rows(x, self.prefix).transpose(0, 1) for x in (keys, values))
        out, log_sum = attend(common, prefix_k, prefix_v, None, scale)
        shape = (query.shape[1], query.shape[0], query.shape[2])
        on_prefix = (
            out.unflatten(1, shape[1:]).transpose(0, 1),
            log_sum.view(shape).transpose(0, 1),
        )
        return merged_out(on_prefix, after)


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
        flat, k, v = self._store(layer, query, key, value)
        keys, values = self.pool.layers[layer]
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

    def attend_by(
        self, scoring: Scoring, layer: int, query: torch.Tensor, key: torch.Tensor, value: Tensor
    ) -> torch.Tensor:
        """The same for scores that are not plain products."""
        flat, _, _ = self._store(layer, query, key, value)
        keys, values = self.pool.layers[layer]
        out = torch.zeros_like(flat)
        for bucket in self.buckets:
            by_token = bucket.attend_by(scoring, flat, keys, values)
            out[bucket.tokens] = _rows(by_token.flatten(0, 1), bucket.kept)
        return out[None]

    def _store(
        self, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        """All three as rows (T, heads, D), keys and values kept in the pool."""
        flat, k, v = (x[0].transpose(0, 1) for x in (query, key, value))
        keys, values = self.pool.layers[layer]
        keys[self.write_slots], values[self.write_slots] = k, v
        return flat, k, v

    def longest_path(self) -> int:
        """The widest bucket's."""
        return max(b.prefix.numel() + b.slots.shape[1] for b in self.buckets)
