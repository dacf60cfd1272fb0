"""The forward pass without gradient, for any mix of rows and lengths."""

from collections.abc import Sequence

import torch

from practicum.policy.attention import AttentionPlan
from practicum.policy.decoder.elementwise import Elementwise
from practicum.policy.decoder.parts import DecoderParts, LayerParts
from practicum.policy.decoder.products import LayerProducts

__all__ = ["planned_states", "turned_heads"]


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
    eps = parts.eps
    x = parts.embedding[token_ids]
    for number, (layer, of_layer) in enumerate(zip(parts.layers, products, strict=True)):
        qkv = of_layer.qkv(small.rms_norm(x, layer.attention_norm, eps))
        heads = qkv.view(x.shape[0], -1, parts.head_dim)
        turned = turned_heads(heads[:, : -parts.kv_heads], parts, layer, small, angles)
        query, key = turned[:, : parts.heads], turned[:, parts.heads :]
        q, k, v = (h.transpose(0, 1)[None] for h in (query, key, heads[:, -parts.kv_heads :]))
        attended = plan.attend(number, q, k, v, parts.scale)[0].flatten(1)
        x = of_layer.output(attended, x)
        x = of_layer.down(of_layer.activated(small.rms_norm(x, layer.mlp_norm, eps)), x)
    return small.rms_norm(x, parts.final_norm, eps)


def turned_heads(
    heads: torch.Tensor,
    parts: DecoderParts,
    layer: LayerParts,
    small: Elementwise,
    angles: tuple[torch.Tensor, torch.Tensor],
) -> torch.Tensor:
    """Queries and keys (T, heads + kv_heads, D), normed if the family does, turned by position."""
    if layer.query_norm is not None and layer.key_norm is not None:
        query, key = heads.split([parts.heads, parts.kv_heads], dim=1)
        normed = small.rms_norm(query, layer.query_norm, parts.eps)
        heads = torch.cat([normed, small.rms_norm(key, layer.key_norm, parts.eps)], dim=1)
    return small.rotate(heads, *angles)
