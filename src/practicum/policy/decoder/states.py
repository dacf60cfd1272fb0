"""The forward pass without gradient, for any mix of rows and lengths."""

from collections.abc import Sequence

import torch

from practicum.core.event_loop import give_way
from practicum.policy.attention import AttentionPlan
from practicum.policy.decoder.elementwise import Elementwise
from practicum.policy.decoder.parts import DecoderParts, LayerParts
from practicum.policy.decoder.products import LayerProducts

__all__ = ["planned_states", "turn_heads"]


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
