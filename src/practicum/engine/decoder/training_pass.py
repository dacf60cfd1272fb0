"""The forward pass that carries gradient, written so that little is kept for the way back.

A layer keeps its two inputs, the rotated queries, keys and values, what attention gave, and the
joined gate and up products. Norms and activations are made again when they are needed. Base weights
are frozen: gradients go to the adapters and to the layer before.
"""

from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch.utils.checkpoint import checkpoint

from practicum.engine.decoder.layers import DecoderParts, Elementwise, LayerParts, Projection


class Tree(Protocol):
    """Attention over a prefix tree, forward and backward, on rows (T, heads, D)."""

    def forward(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """What each token attends to, and what its backward needs besides."""
        ...

    def backward(
        self, grad: torch.Tensor, kept: tuple[torch.Tensor, ...], scale: float
    ) -> torch.Tensor:
        """Gradients (T, heads + 2 kv_heads, D), joined, from (query, key, value, out, extra)."""
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
        self.first = projection.first if self.is_adapted else None

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
        inner = wide.new_empty((wide.shape[0], 0))
        if self.first is not None:
            inner = wide[:, : p.inputs] @ self.first.t()
            wide[:, p.inputs :] = inner
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
        adapters = self.projection.adapters
        first = (for_inner.t() @ x).float()
        if grad.is_cuda:
            # One launch for all: what it makes of one's ranks and another's outputs is unused.
            joined = (grad.t() @ inner).float()
            second = [joined[a.outputs, a.ranks] for a in adapters]
        else:
            second = [(grad[:, a.outputs].t() @ inner[:, a.ranks]).float() for a in adapters]
        pairs = ((first[a.ranks], b * a.scale) for a, b in zip(adapters, second, strict=True))
        return tuple(half for pair in pairs for half in pair)


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
        heads = qkv.view(x.shape[0], -1, one.parts.head_dim)
        turning = heads[:, : -one.parts.kv_heads]
        raw = _norm_heads(turning, one, layer)
        one.small.rotate(turning, one.cos, one.sin, out=turning)
        out, extra = one.tree.forward(*one.parts.split_heads(heads), one.parts.scale)
        ctx.save_for_backward(x, inner, heads, out, extra, *raw)
        ctx.one, ctx.layer, ctx.product = one, layer, product
        return out.flatten(1)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[Any, ...]:
        x, inner, heads, out, extra, *raw = ctx.saved_tensors
        one, layer, product = ctx.one, ctx.layer, ctx.product
        kept = (*one.parts.split_heads(heads), out, extra)
        joined = one.tree.backward(grad.view_as(out), kept, one.parts.scale)
        turning = joined[:, : -one.parts.kv_heads]
        one.small.rotate(turning, one.cos, one.sin, inverse=True, out=turning)
        if raw:
            _norm_heads_backward(turning, raw[0], one, layer)
        return _normed_grads(ctx, joined.flatten(1), x, layer.attention_norm, inner, product)


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
        ctx.save_for_backward(x, inner)
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
        ctx.save_for_backward(attended, inner)
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
        ctx.save_for_backward(gate_up, inner)
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


def _norm_heads(turning: torch.Tensor, one: Pass, layer: LayerParts) -> list[torch.Tensor]:
    """Norm queries and keys in place, if the family does; returns what they were before."""
    if layer.query_norm is None or layer.key_norm is None:
        return []
    before = turning.clone(memory_format=torch.contiguous_format)
    for part, was, weight in _by_norm((turning, before), one, layer):
        part.copy_(one.small.rms_norm(was, weight, one.parts.eps))
    return [before]


def _norm_heads_backward(
    grads: torch.Tensor, before: torch.Tensor, one: Pass, layer: LayerParts
) -> None:
    """Turn the gradients of normed queries and keys into those of the ones before, in place."""
    for grad, was, weight in _by_norm((grads, before), one, layer):
        grad.copy_(one.small.rms_norm_backward(grad, was, weight, one.parts.eps))


def _by_norm(pair: tuple[torch.Tensor, torch.Tensor], one: Pass, layer: LayerParts) -> Any:
    """The queries of both with the queries' norm, then the keys with theirs."""
    sizes = [one.parts.heads, one.parts.kv_heads]
    weights = (layer.query_norm, layer.key_norm)
    return zip(*(x.split(sizes, dim=1) for x in pair), weights, strict=True)
