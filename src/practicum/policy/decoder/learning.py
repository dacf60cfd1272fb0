"""The forward pass that carries gradient, written so that little is kept for the way back.

A layer keeps its two inputs, the rotated queries, keys and values, what attention gave, and the
joined gate and up products. Norms and activations are made again when they are needed. Base weights
are frozen: gradients go to the adapters and to the layer before.
"""

from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch.utils.checkpoint import checkpoint

from practicum.policy.decoder.elementwise import Elementwise
from practicum.policy.decoder.parts import DecoderParts, LayerParts
from practicum.policy.decoder.projection import Projection

__all__ = ["Tree", "learn_states"]


class Tree(Protocol):
    """Attention over a prefix tree, forward and backward, on rows (T, heads, D)."""

    def forward(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """What each token attends to, and what its backward needs besides."""
        ...

    def backward(
        self, grad: torch.Tensor, kept: tuple[torch.Tensor, ...], scale: float
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Gradients of query, key and value, from (query, key, value, out, extra)."""
        ...


@dataclass(frozen=True, slots=True)
class Pass:
    """What all layers of one pass have in common."""

    parts: DecoderParts
    small: Elementwise
    tree: Tree
    cos: torch.Tensor
    sin: torch.Tensor


def learn_states(
    parts: DecoderParts,
    small: Elementwise,
    tree: Tree,
    token_ids: torch.Tensor,
    positions: torch.Tensor,
    *,
    checkpointed: bool = False,
) -> torch.Tensor:
    """Hidden states (T, H) after the last norm."""
    parts.sync()
    cos, sin = parts.angles(positions)
    one = Pass(parts, small, tree, cos, sin)
    x = parts.embedding[token_ids]
    for layer in parts.layers:
        if checkpointed and torch.is_grad_enabled():
            x = checkpoint(_layer, x, one, layer, use_reentrant=False, preserve_rng_state=False)
        else:
            x = _layer(x, one, layer)
    return _Norm.apply(x, parts.final_norm, one)


def _layer(x: torch.Tensor, one: Pass, layer: LayerParts) -> torch.Tensor:
    attended = _Attention.apply(x, one, layer, *layer.qkv.parameters())
    x = _Output.apply(attended, x, layer.output, *layer.output.parameters())
    gate_up = _GateUp.apply(x, one, layer, *layer.gate_up.parameters())
    return _Down.apply(gate_up, x, one, layer.down, *layer.down.parameters())


class _Product:
    """One use of a projection: its input, widened by what the adapters make of it.

    The input of a product with adapters is written straight into a buffer wide enough for both.
    """

    def __init__(self, projection: Projection) -> None:
        self.projection = projection
        self.is_adapted = projection.is_adapted
        self.first = projection.first_halves() if self.is_adapted else None

    def room(self, rows: int, like: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """An empty buffer, and the part of it that is the plain input."""
        extra = self.projection.ranks if self.is_adapted else 0
        wide = like.new_empty((rows, self.projection.inputs + extra))
        return wide, wide[:, : self.projection.inputs]

    def forward(
        self, wide: torch.Tensor, add: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The product, plus `add`, and the adapters' inner values (T, ranks)."""
        p = self.projection
        inner = wide[:, p.inputs :]
        if self.first is not None:
            inner.copy_(wide[:, : p.inputs] @ self.first.t())
        weight = p.joined if self.is_adapted else p.base
        if add is None:
            return torch.nn.functional.linear(wide, weight, p.bias), inner
        out = torch.addmm(add, wide, weight.t())
        return (out if p.bias is None else out.add_(p.bias)), inner

    def input_grad(self, grad: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Gradient of the input (T, in), and of the inner values (T, ranks)."""
        p = self.projection
        if self.first is None:
            return grad @ p.base, grad[:, :0]
        wide = grad @ p.joined
        for_input, for_inner = wide[:, : p.inputs], wide[:, p.inputs :]
        return for_input.addmm_(for_inner, self.first), for_inner

    def inner_grad(self, grad: torch.Tensor) -> torch.Tensor:
        """Gradient of the inner values alone, where the input needs none."""
        p = self.projection
        return grad @ p.joined[:, p.inputs :] if self.is_adapted else grad[:, :0]

    def adapter_grads(
        self, grad: torch.Tensor, x: torch.Tensor, inner: torch.Tensor, for_inner: torch.Tensor
    ) -> tuple[torch.Tensor | None, ...]:
        """Gradients of every A and B, in the order of `Projection.parameters`, float32."""
        if not self.is_adapted:
            return (None,) * (2 * len(self.projection.adapters))
        first = for_inner.t() @ x
        found: list[torch.Tensor] = []
        for a in self.projection.adapters:
            second = grad[:, a.outputs].t() @ inner[:, a.ranks]
            found.append(first[a.ranks].to(a.first.dtype))
            found.append(second.to(a.second.dtype).mul_(a.scale))
        return tuple(found)


class _Norm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor, one: Pass) -> torch.Tensor:
        ctx.save_for_backward(x, weight)
        ctx.one = one
        return one.small.rms_norm(x, weight, one.parts.eps)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[Any, ...]:
        x, weight = ctx.saved_tensors
        return ctx.one.small.rms_norm_backward(grad, x, weight, ctx.one.parts.eps), None, None


class _Attention(torch.autograd.Function):
    """Norm, joined query/key/value product, rotation and attention."""

    @staticmethod
    def forward(
        ctx: Any, x: torch.Tensor, one: Pass, layer: LayerParts, *adapters: torch.Tensor
    ) -> torch.Tensor:
        product = _Product(layer.qkv)
        wide, normed = product.room(x.shape[0], x)
        one.small.rms_norm(x, layer.attention_norm, one.parts.eps, out=normed)
        qkv, inner = product.forward(wide)
        query, key, value = _heads(qkv, one.parts)
        raw = (query, key) if layer.query_norm is not None else ()
        query, key = _head_norms(query, key, one, layer)
        query = one.small.rotate(query, one.cos, one.sin)
        key = one.small.rotate(key, one.cos, one.sin)
        value = value.contiguous()
        out, extra = one.tree.forward(query, key, value, one.parts.scale)
        ctx.save_for_backward(x, inner.clone(), query, key, value, out, extra, *raw)
        ctx.one, ctx.layer, ctx.product = one, layer, product
        return out.flatten(1)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[Any, ...]:
        x, inner, *kept = ctx.saved_tensors
        one, layer, product = ctx.one, ctx.layer, ctx.product
        grads = one.tree.backward(grad.view_as(kept[3]), tuple(kept[:5]), one.parts.scale)
        query, key = (one.small.rotate(g, one.cos, one.sin, inverse=True) for g in grads[:2])
        if layer.query_norm is not None:
            eps, back = one.parts.eps, one.small.rms_norm_backward
            query = back(query, kept[5], layer.query_norm, eps)
            key = back(key, kept[6], layer.key_norm, eps)
        joined = torch.cat([g.flatten(1) for g in (query, key, grads[2])], dim=1)
        return _normed_grads(ctx, joined, x, layer.attention_norm, inner, product)


class _GateUp(torch.autograd.Function):
    """Norm and the joined gate/up product."""

    @staticmethod
    def forward(
        ctx: Any, x: torch.Tensor, one: Pass, layer: LayerParts, *adapters: torch.Tensor
    ) -> torch.Tensor:
        product = _Product(layer.gate_up)
        wide, normed = product.room(x.shape[0], x)
        one.small.rms_norm(x, layer.mlp_norm, one.parts.eps, out=normed)
        gate_up, inner = product.forward(wide)
        ctx.save_for_backward(x, inner.clone())
        ctx.one, ctx.layer, ctx.product = one, layer, product
        return gate_up

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[Any, ...]:
        x, inner = ctx.saved_tensors
        return _normed_grads(ctx, grad, x, ctx.layer.mlp_norm, inner, ctx.product)


class _Output(torch.autograd.Function):
    """The product after attention, added to the residual."""

    @staticmethod
    def forward(
        ctx: Any,
        attended: torch.Tensor,
        residual: torch.Tensor,
        projection: Projection,
        *adapters: torch.Tensor,
    ) -> torch.Tensor:
        product = _Product(projection)
        wide, plain = product.room(attended.shape[0], attended)
        plain.copy_(attended)
        out, inner = product.forward(wide, add=residual)
        ctx.save_for_backward(attended, inner.clone())
        ctx.product = product
        return out

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[Any, ...]:
        attended, inner = ctx.saved_tensors
        for_input, for_inner = ctx.product.input_grad(grad)
        adapters = ctx.product.adapter_grads(grad, attended, inner, for_inner)
        return for_input, grad, None, *adapters


class _Down(torch.autograd.Function):
    """The gate and the product after it, added to the residual."""

    @staticmethod
    def forward(
        ctx: Any,
        gate_up: torch.Tensor,
        residual: torch.Tensor,
        one: Pass,
        projection: Projection,
        *adapters: torch.Tensor,
    ) -> torch.Tensor:
        product = _Product(projection)
        wide, activated = product.room(gate_up.shape[0], gate_up)
        one.small.silu_mul(gate_up, out=activated)
        out, inner = product.forward(wide, add=residual)
        ctx.save_for_backward(gate_up, inner.clone())
        ctx.one, ctx.product = one, product
        return out

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[Any, ...]:
        gate_up, inner = ctx.saved_tensors
        for_activated, for_inner = ctx.product.input_grad(grad)
        for_gate_up, activated = ctx.one.small.silu_mul_backward(for_activated, gate_up)
        adapters = ctx.product.adapter_grads(grad, activated, inner, for_inner)
        return for_gate_up, grad, None, None, *adapters


def _normed_grads(
    ctx: Any,
    grad: torch.Tensor,
    x: torch.Tensor,
    weight: torch.Tensor,
    inner: torch.Tensor,
    product: _Product,
) -> tuple[Any, ...]:
    """Through a product and the norm before it: of x, and of the adapters."""
    one: Pass = ctx.one
    normed = one.small.rms_norm(x, weight, one.parts.eps) if product.is_adapted else x
    if not ctx.needs_input_grad[0]:
        for_inner = product.inner_grad(grad)
        return None, None, None, *product.adapter_grads(grad, normed, inner, for_inner)
    for_normed, for_inner = product.input_grad(grad)
    adapters = product.adapter_grads(grad, normed, inner, for_inner)
    return one.small.rms_norm_backward(for_normed, x, weight, one.parts.eps), None, None, *adapters


def _heads(
    qkv: torch.Tensor, parts: DecoderParts
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The three parts of a joined product, each (T, heads, D)."""
    rows = qkv.view(qkv.shape[0], -1, parts.head_dim)
    return rows.split([parts.heads, parts.kv_heads, parts.kv_heads], dim=1)


def _head_norms(
    query: torch.Tensor, key: torch.Tensor, one: Pass, layer: LayerParts
) -> tuple[torch.Tensor, torch.Tensor]:
    if layer.query_norm is None or layer.key_norm is None:
        return query, key
    norm, eps = one.small.rms_norm, one.parts.eps
    return norm(query, layer.query_norm, eps), norm(key, layer.key_norm, eps)
