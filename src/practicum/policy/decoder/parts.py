"""A `transformers` model taken apart, where its family is one we compute ourselves.

Llama, Mistral, Qwen2 and Qwen3 are the same computation: a norm, joined query/key/value products,
rotated positions, attention, a product, a norm, joined gate/up products, a gate, a product.
"""

from dataclasses import dataclass
from typing import Any

import torch

from practicum.policy.decoder.projection import Projection

__all__ = ["DecoderParts", "LayerParts", "can_take_apart", "take_apart"]

FAMILIES = frozenset({"llama", "mistral", "qwen2", "qwen3"})
FIXED_ROTATIONS = frozenset({"default", "linear", "llama3", "yarn"})
"""Kinds of rotary embedding whose angles do not depend on how long a conversation is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerParts:
    """The weights of one layer."""

    attention_norm: torch.Tensor
    qkv: Projection
    query_norm: torch.Tensor | None
    key_norm: torch.Tensor | None
    output: Projection
    mlp_norm: torch.Tensor
    gate_up: Projection
    down: Projection

    @property
    def projections(self) -> tuple[Projection, ...]:
        """All four, in the order they are used."""
        return (self.qkv, self.output, self.gate_up, self.down)


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderParts:
    """A whole decoder: embedding, layers, last norm."""

    embedding: torch.Tensor
    layers: tuple[LayerParts, ...]
    final_norm: torch.Tensor
    eps: float
    heads: int
    kv_heads: int
    head_dim: int
    scale: float
    window: int | None
    """Tokens that a token may look back, if the model limits them."""
    rotary: Any
    """The model's own rotary embedding."""

    @torch.no_grad()
    def sync(self) -> None:
        """Bring the adapters, as they are now, into every joined weight, all in a few calls."""
        pairs = [pair for x in self.layers for p in x.projections for pair in p.places()]
        if pairs:
            into, values, scales = (list(column) for column in zip(*pairs, strict=True))
            torch._foreach_copy_(into, torch._foreach_mul(values, scales))

    def split_heads(self, heads: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Queries, keys and values of joined ones (T, heads + 2 kv_heads, D)."""
        query, key, value = heads.split([self.heads, self.kv_heads, self.kv_heads], dim=1)
        return query, key, value

    def angles(self, positions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Cosines and sines of positions, each (T, 1, head_dim), float32.

        A sine has the sign with which it takes the other half of a head to its place.
        """
        like = torch.empty(0, dtype=torch.float32, device=positions.device)
        cos, sin = (x[0, :, None] for x in self.rotary(like, positions[None]))
        first, second = sin.chunk(2, dim=-1)
        return cos, torch.cat([-first, second], dim=-1)


def can_take_apart(causal_lm: Any) -> bool:
    """Whether the model is of a family, and with the settings, that `take_apart` knows."""
    config = causal_lm.config
    if config.model_type not in FAMILIES or config.hidden_act != "silu":
        return False
    rotation = getattr(causal_lm.base_model.rotary_emb, "rope_type", "default")
    first = causal_lm.base_model.layers[0]
    linear = torch.nn.Linear
    plain = all(isinstance(_base(layer), linear) for layer in _linear_layers(first))
    return plain and rotation in FIXED_ROTATIONS


def take_apart(causal_lm: Any) -> DecoderParts:
    """Join what can be joined; the model's own layers become views of the joined weights."""
    decoder, config = causal_lm.base_model, causal_lm.config
    attention = decoder.layers[0].self_attn
    return DecoderParts(
        embedding=decoder.embed_tokens.weight,
        layers=tuple(_layer(layer) for layer in decoder.layers),
        final_norm=decoder.norm.weight,
        eps=float(config.rms_norm_eps),
        heads=config.num_attention_heads,
        kv_heads=config.num_key_value_heads,
        head_dim=attention.head_dim,
        scale=float(attention.scaling),
        window=_window(causal_lm),
        rotary=decoder.rotary_emb,
    )


def _window(causal_lm: Any) -> int | None:
    if causal_lm.config.model_type == "mistral":
        return getattr(causal_lm.config, "sliding_window", None)
    windows = [getattr(x.self_attn, "sliding_window", None) for x in causal_lm.base_model.layers]
    return min((w for w in windows if w is not None), default=None)


def _layer(layer: Any) -> LayerParts:
    attention = layer.self_attn
    q, k, v, output, gate, up, down = _linear_layers(layer)
    return LayerParts(
        attention_norm=layer.input_layernorm.weight,
        qkv=Projection((q, k, v)),
        query_norm=_weight(getattr(attention, "q_norm", None)),
        key_norm=_weight(getattr(attention, "k_norm", None)),
        output=Projection((output,)),
        mlp_norm=layer.post_attention_layernorm.weight,
        gate_up=Projection((gate, up)),
        down=Projection((down,)),
    )


def _linear_layers(layer: Any) -> tuple[Any, ...]:
    attention, mlp = layer.self_attn, layer.mlp
    of_attention = (attention.q_proj, attention.k_proj, attention.v_proj, attention.o_proj)
    return (*of_attention, mlp.gate_proj, mlp.up_proj, mlp.down_proj)


def _base(layer: Any) -> Any:
    return getattr(layer, "base_layer", layer)


def _weight(norm: Any) -> torch.Tensor | None:
    return None if norm is None else norm.weight
