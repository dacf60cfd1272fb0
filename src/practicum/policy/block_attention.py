"""Attention over some of the keys that queries see, its backward, and the joining of such parts.

On CPUs torch's fused attention, which also says the logarithms of its sums; elsewhere plain
products.
"""

import torch

__all__ = [
    "Attended",
    "attend",
    "attend_backward",
    "attend_in_batch",
    "attend_in_batch_backward",
    "merged",
    "merged_out",
]

Attended = tuple[torch.Tensor, torch.Tensor]
"""What (..., N, D) queries attend to, and the logarithms of their sums (..., N)."""


def merged(one: Attended, other: Attended) -> Attended:
    """Attention over two sets of keys, from attention over each."""
    log_sum = torch.logaddexp(one[1], other[1])
    first, second = (
        x * (log_part - log_sum).exp().unsqueeze(-1).to(x.dtype) for x, log_part in (one, other)
    )
    return first + second, log_sum


def merged_out(one: Attended, other: Attended) -> torch.Tensor:
    """The first half of `merged`, in fewer steps."""
    share = torch.sigmoid(other[1] - one[1]).unsqueeze(-1)
    return torch.lerp(one[0], other[0], share.to(one[0].dtype))


def _halves(rows: torch.Tensor) -> torch.Tensor:
    """(kv_heads, N, ...) as a batch of two halves, so that an odd number of heads fills all cores.

    The fused backward pass gives whole heads to threads.
    """
    batch = 1 if rows.shape[1] % 2 else 2
    return rows.unflatten(1, (batch, -1)).transpose(0, 1)


def _evened(rows: torch.Tensor) -> torch.Tensor:
    """(kv_heads, N, ...), with a row of zeros more where N is odd: its gradients are zero."""
    if rows.shape[1] % 2 == 0:
        return rows
    return torch.cat([rows, torch.zeros_like(rows[:, :1])], 1)


def _whole(halves: torch.Tensor) -> torch.Tensor:
    """The inverse of `_halves`."""
    return halves.transpose(0, 1).flatten(1, 2)


def _fused_mask(mask: torch.Tensor | None) -> torch.Tensor | None:
    """(N, M) for the halves of N queries."""
    return None if mask is None else _halves(mask[None])


def attend(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    scale: float,
) -> Attended:
    """(kv_heads, N, D) over (kv_heads, M, D)."""
    if query.device.type == "cpu":
        halves = _halves(query)
        keys, values = (x.expand(halves.shape[0], -1, -1, -1) for x in (key, value))
        out, log_sum = attend_in_batch(halves, keys, values, _fused_mask(mask), scale)
        return _whole(out), _whole(log_sum)
    return _attend_by_products(query, key, value, mask, scale)


def attend_in_batch(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    scale: float,
) -> Attended:
    """(B, kv_heads, N, D) over (B, kv_heads, M, D); the mask is added to the scores."""
    if query.device.type == "cpu":
        fused = torch._scaled_dot_product_flash_attention_for_cpu
        found: Attended = fused(query, key, value, 0.0, False, attn_mask=mask, scale=scale)
        return found
    return _attend_by_products(query, key, value, mask, scale)


def _attend_by_products(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    scale: float,
) -> Attended:
    scores = _scores(query, key, mask, scale)
    log_sum = scores.logsumexp(-1)
    return (scores - log_sum[..., None]).exp_().to(value.dtype) @ value, log_sum


def _scores(
    query: torch.Tensor, key: torch.Tensor, mask: torch.Tensor | None, scale: float
) -> torch.Tensor:
    scores = (query @ key.transpose(-2, -1)).float().mul_(scale)
    return scores if mask is None else scores.add_(mask)


def attend_backward(
    queries: tuple[torch.Tensor, ...],
    seen: tuple[torch.Tensor, torch.Tensor],
    mask: torch.Tensor | None,
    scale: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
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
    queries: tuple[torch.Tensor, ...],
    seen: tuple[torch.Tensor, torch.Tensor],
    mask: torch.Tensor | None,
    scale: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The same with a batch before the heads, each with keys of its own."""
    grad, query, out, log_sum = queries
    if query.device.type != "cpu":
        return _backward_by_products(queries, seen, mask, scale)
    fused = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward
    inputs = (grad, query, *seen, out, log_sum)
    found: tuple[torch.Tensor, torch.Tensor, torch.Tensor] = fused(
        *inputs, 0.0, False, attn_mask=mask, scale=scale
    )
    return found


def _backward_by_products(
    queries: tuple[torch.Tensor, ...],
    seen: tuple[torch.Tensor, torch.Tensor],
    mask: torch.Tensor | None,
    scale: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    grad, query, out, log_sum = queries
    key, value = seen
    p = (_scores(query, key, mask, scale) - log_sum[..., None]).exp_()
    inner = (grad.float() * out.float()).sum(-1, keepdim=True)
    for_p = (grad @ value.transpose(-2, -1)).float()
    for_s = (for_p - inner).mul_(p).mul_(scale).to(query.dtype)
    for_v = p.to(grad.dtype).transpose(-2, -1) @ grad
    return for_s @ key, for_s.transpose(-2, -1) @ query, for_v
