"""A model's layers as we compute them: linear layers fused, with their adapters, and packed.

A joined layer's weight has the second halves of its adapters beside it and the first ones below:

    W  s B
    A   0

Learning multiplies by the upper part, y = [x, x A'] [W, s B]' and backwards
[dx, dy s B] = dy [W, s B], so an adapter costs one thin product forward and three backward, and no
pass over the output. Sampling multiplies by the left part, [y, x A'] = x [W; A]', and adds the rest
in passing. The layers of the `transformers` module keep their own weights, as views into it.

Llama, Mistral, Qwen2 and Qwen3 are the same computation: a norm, joined query/key/value products,
rotated positions, attention, a product, a norm, joined gate/up products, a gate, a product.

The small operations between products are here in torch; `kernels` has them for NVIDIA GPUs. Each
backward recomputes what it needs from the operation's input, so that nothing else is kept.
"""

import functools
import math
import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.linalg import vector_norm
from torch.nn.functional import linear, rms_norm, silu

ROWS_NUMBERS = 2**18
"""Numbers of an array that are worked on at a time, 1 MiB of float32, where steps are many."""


class Elementwise(Protocol):
    """Operations on rows; the two implementations are checked against each other."""

    def rms_norm(self, x: Tensor, weight: Tensor, eps: float, out: Tensor | None = None) -> Tensor:
        """Rows (…, H) scaled to a root mean square of 1, times the weight."""
        ...

    def rms_norm_backward(
        self, grad: Tensor, x: Tensor, weight: Tensor, eps: float, add: Tensor | None = None
    ) -> Tensor:
        """Gradient of the rows, plus `add`."""
        ...

    def rotate(
        self, x: Tensor, cos: Tensor, sin: Tensor, inverse: bool = False, out: Tensor | None = None
    ) -> Tensor:
        """(T, heads, D) turned by its positions' angles, or back by them; `out` may be `x`.

        Angles are (T, 1, D), as `DecoderParts.angles` gives them.
        """
        ...

    def silu_mul(self, gate_up: Tensor, out: Tensor | None = None) -> Tensor:
        """silu(gate) * up from (T, 2 I)."""
        ...

    def silu_mul_backward(self, grad: Tensor, gate_up: Tensor) -> tuple[Tensor, Tensor]:
        """The gradient of (T, 2 I), and the activation again."""
        ...


class TorchElementwise:
    """On any device."""

    def rms_norm(self, x: Tensor, weight: Tensor, eps: float, out: Tensor | None = None) -> Tensor:
        """Computed in float32, as the models do."""
        if x.dtype == torch.float32 and out is None:
            return rms_norm(x, x.shape[-1:], weight, eps)
        wide = x.float()
        scaled = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True).add_(eps))
        return torch.mul(scaled.to(x.dtype), weight, out=out)

    def rms_norm_backward(
        self, grad: Tensor, x: Tensor, weight: Tensor, eps: float, add: Tensor | None = None
    ) -> Tensor:
        """R (g - x r^2 mean(g x)), with g the gradient times the weight and r the scale."""
        wide, g = x.float(), grad.float() * weight.float()
        r = torch.rsqrt(wide.square().mean(-1, keepdim=True).add_(eps))
        shrink = (g * wide).mean(-1, keepdim=True).mul_(r * r)
        g.addcmul_(wide, shrink, value=-1.0).mul_(r)
        found = g.to(x.dtype)
        return found if add is None else found.add_(add)

    def rotate(
        self, x: Tensor, cos: Tensor, sin: Tensor, inverse: bool = False, out: Tensor | None = None
    ) -> Tensor:
        """Each half turns into the other."""
        wide, sign = x.float(), -1.0 if inverse else 1.0
        other = wide.roll(x.shape[-1] // 2, -1)
        room = out if x.dtype == torch.float32 else None
        turned = torch.mul(wide, cos, out=room).addcmul_(other, sin, value=sign)
        if room is not None:
            return turned
        return turned.to(x.dtype) if out is None else out.copy_(turned)

    def silu_mul(self, gate_up: Tensor, out: Tensor | None = None) -> Tensor:
        """Two passes over half of it."""
        gate, up = gate_up.chunk(2, dim=-1)
        return torch.mul(silu(gate), up, out=out)

    def silu_mul_backward(self, grad: Tensor, gate_up: Tensor) -> tuple[Tensor, Tensor]:
        """Some rows at a time: what is made on the way then stays in the processor's caches."""
        half = gate_up.shape[-1] // 2
        rows = max(1, ROWS_NUMBERS // half)
        found, activated = torch.empty_like(gate_up), gate_up.new_empty(grad.shape)
        between = gate_up.new_empty((min(rows, grad.shape[0]), half))
        pieces = (x.split(rows) for x in (grad, gate_up, found, activated))
        for of_grad, *others in zip(*pieces, strict=True):
            _silu_mul_backward(of_grad, *others, between=between[: of_grad.shape[0]])
        return found, activated


def _silu_mul_backward(
    grad: Tensor, gate_up: Tensor, found: Tensor, activated: Tensor, *, between: Tensor
) -> None:
    """The last three are written; torch's own backward of silu."""
    (gate, up), (for_gate, for_up) = gate_up.chunk(2, dim=-1), found.chunk(2, dim=-1)
    torch.ops.aten.silu.out(gate, out=activated)
    torch.mul(grad, activated, out=for_up)
    torch.mul(grad, up, out=between)
    torch.ops.aten.silu_backward.grad_input(between, gate, grad_input=for_gate)
    activated.mul_(up)


def elementwise_for(device: torch.device) -> Any:
    """The fastest there is for a device."""
    if device.type == "cuda":
        from practicum.engine.kernels.triton_elementwise import TritonElementwise

        return TritonElementwise()
    return TorchElementwise()


@dataclass(frozen=True, slots=True)
class Adapter:
    """One LoRA pair: the outputs it adds to, its columns among all ranks, and its `peft` layer."""

    outputs: slice
    ranks: slice
    layer: Any

    @property
    def first(self) -> torch.Tensor:
        """A, (r, in)."""
        return self.layer.lora_A["default"].weight

    @property
    def second(self) -> torch.Tensor:
        """B, (out, r)."""
        return self.layer.lora_B["default"].weight

    @property
    def scale(self) -> float:
        """What the product of the two is multiplied by."""
        return float(self.layer.scaling["default"])


class Projection:
    """A joined linear layer with the adapters of its parts."""

    def __init__(self, layers: Sequence[Any]) -> None:
        bases = [getattr(layer, "base_layer", layer) for layer in layers]
        self.inputs = bases[0].in_features
        self.sizes = tuple(base.out_features for base in bases)
        self.adapters = _adapters(layers, self.sizes)
        self.ranks = self.adapters[-1].ranks.stop if self.adapters else 0
        self.outputs = sum(self.sizes)
        whole = (self.outputs + self.ranks, self.inputs + self.ranks)
        self._whole = bases[0].weight.new_zeros(whole)
        self.bias = _joined_bias(bases)
        begin = 0
        for base in bases:
            part = self._whole[begin : begin + base.out_features, : self.inputs]
            part.copy_(base.weight.data)
            base.weight.data = part
            begin += base.out_features

    @property
    def base(self) -> torch.Tensor:
        """(out, in), without any adapter."""
        return self._whole[: self.outputs, : self.inputs]

    @property
    def joined(self) -> torch.Tensor:
        """(out, in + ranks): the weight, and the second halves beside it."""
        return self._whole[: self.outputs]

    @property
    def stacked(self) -> torch.Tensor:
        """(out + ranks, in): the weight, and the first halves below it."""
        return self._whole[:, : self.inputs]

    @property
    def first(self) -> torch.Tensor:
        """(ranks, in): every A, one below the other, as they were when they were last put here."""
        return self._whole[self.outputs :, : self.inputs]

    @property
    def second(self) -> torch.Tensor:
        """(out, ranks): every B times its scale, each beside the outputs it adds to."""
        return self._whole[: self.outputs, self.inputs :]

    @property
    def is_adapted(self) -> bool:
        """Whether its adapters count now; `peft` switches them all together."""
        return bool(self.adapters) and not self.adapters[0].layer.disable_adapters

    def parameters(self) -> tuple[torch.nn.Parameter, ...]:
        """A and B of every adapter, in order."""
        return tuple(p for a in self.adapters for p in (a.first, a.second))

    def places(self) -> list[tuple[torch.Tensor, torch.Tensor, float]]:
        """Where each half of each adapter goes, what it is now, and its factor there."""
        found = []
        for a in self.adapters:
            found.append((self.first[a.ranks], a.first.detach(), 1.0))
            found.append((self.second[a.outputs, a.ranks], a.second.detach(), a.scale))
        return found

    @torch.no_grad()
    def folded(self, scratch: torch.Tensor) -> torch.Tensor:
        """The weight and what its adapters add to it, (out, in), made in a flat buffer."""
        weight = scratch[: self.outputs * self.inputs].view(self.outputs, self.inputs)
        weight.copy_(self.base)
        if self.is_adapted:
            for a in self.adapters:
                weight[a.outputs].addmm_(a.second.detach(), a.first.detach(), alpha=a.scale)
        return weight


def _adapters(layers: Sequence[Any], sizes: Sequence[int]) -> tuple[Adapter, ...]:
    found: list[Adapter] = []
    output = rank = 0
    for layer, size in zip(layers, sizes, strict=True):
        if hasattr(layer, "lora_A"):
            r = layer.lora_A["default"].weight.shape[0]
            found.append(Adapter(slice(output, output + size), slice(rank, rank + r), layer))
            rank += r
        output += size
    return tuple(found)


def _joined_bias(bases: Sequence[Any]) -> torch.Tensor | None:
    if all(base.bias is None for base in bases):
        return None
    return torch.cat(
        [
            base.bias.data if base.bias is not None else base.weight.new_zeros(base.out_features)
            for base in bases
        ]
    )


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


_pointwise: Any = torch.ops.mkldnn._linear_pointwise
ONEDNN_ROWS = 16
"""Rows that oneDNN lays weights out for; more and fewer are right as well."""
MKL_ROWS = 256
"""Rows that MKL is told of; any number of them is right, and none was slower so."""


WORTH_PACKING = 2**17
"""Numbers that a weight has at least before its product gains more by packing than a call costs."""


class LayerProducts(Protocol):
    """A layer's products, each from rows (T, in), with the norms before them."""

    def qkv(self, x: torch.Tensor) -> torch.Tensor:
        """Norm; queries, keys and values, joined."""
        ...

    def output(self, attended: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        """Residual and what attention adds to it."""
        ...

    def activated(self, x: torch.Tensor) -> torch.Tensor:
        """Norm; silu(gate) * up."""
        ...

    def down(self, activated: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        """Residual and what the gated part adds to it."""
        ...


def can_pack(like: torch.Tensor) -> bool:
    """Whether this build of torch has packed products for such weights."""
    of_cpu = like.device.type == "cpu" and like.dtype == torch.float32
    return of_cpu and (_has_mkl() or _has_onednn())


def _has_mkl() -> bool:
    return torch.backends.mkl.is_available() and hasattr(torch.ops.mkl, "_mkl_linear")


def _has_onednn() -> bool:
    return torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")


@functools.cache
def _prefers_mkl() -> bool:
    """MKL is the fastest on Intel's processors, and slower than plain products on others."""
    listed = Path("/proc/cpuinfo")
    processor = listed.read_text() if listed.is_file() else platform.processor()
    return _has_mkl() and ("GenuineIntel" in processor or not _has_onednn())


AddRows = Callable[[int, torch.Tensor, torch.Tensor], torch.Tensor]
"""From a projection's number in the layer, its rows and its product: what a row's own adapter adds
to the product, added in place; see `row_adapters`."""


def packed_products(
    parts: DecoderParts, small: Elementwise, adds: Sequence[AddRows | None]
) -> "list[PackedProducts]":
    """Folded weights in the blocks that a library of this build reads fastest.

    A copy of the weights: made when sampling begins, dropped when learning does.
    """
    first = parts.layers[0]
    scratch = first.qkv.base.new_empty(max(p.outputs * p.inputs for p in first.projections))
    pairs = zip(parts.layers, adds, strict=True)
    return [PackedProducts(layer, small, parts.eps, scratch, add) for layer, add in pairs]


class _FewRowsNorm:
    """Root mean square norm in the fewest operations: x / |(x, sqrt(n eps))| * (w sqrt(n)).

    For few rows an operation's cost is that of starting it.
    """

    def __init__(self, weight: torch.Tensor, eps: float) -> None:
        root = math.sqrt(weight.numel())
        self._weight = weight.detach() * root
        self._eps = weight.new_tensor(math.sqrt(eps) * root)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        length = torch.hypot(vector_norm(x, 2, -1, True), self._eps)
        return torch.div(x, length).mul_(self._weight)


class PackedProducts:
    """Packed products and, apart from them, the small operations: oneDNN fuses those at a loss."""

    def __init__(
        self,
        layer: LayerParts,
        small: Elementwise,
        eps: float,
        scratch: torch.Tensor,
        add: AddRows | None = None,
    ) -> None:
        self._small = small
        self._norm = _FewRowsNorm(layer.attention_norm, eps)
        self._mlp_norm = _FewRowsNorm(layer.mlp_norm, eps)
        self._qkv, self._output, self._gate_up, self._down = (
            _adding(packed_linear(p.folded(scratch), p.bias), number, add)
            for number, p in enumerate(layer.projections)
        )

    def qkv(self, x: torch.Tensor) -> torch.Tensor:
        """One product."""
        return self._qkv(self._norm(x))

    def output(self, attended: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        """Added to the product."""
        return self._output(attended).add_(residual)

    def activated(self, x: torch.Tensor) -> torch.Tensor:
        """One product, then the gate."""
        return self._small.silu_mul(self._gate_up(self._mlp_norm(x)))

    def down(self, activated: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        """Added to the product."""
        return self._down(activated).add_(residual)


def _adding(
    product: Callable[..., torch.Tensor], number: int, add: AddRows | None
) -> Callable[..., torch.Tensor]:
    if add is None:
        return product
    return lambda rows: add(number, rows, product(rows))


def packed_linear(weight: torch.Tensor, bias: torch.Tensor | None) -> Callable[..., torch.Tensor]:
    """A function from rows to their product with a weight that is copied and packed."""
    if weight.numel() < WORTH_PACKING:
        kept = weight.detach().clone()
        return lambda rows: linear(rows, kept, bias)
    if not _prefers_mkl():
        reordered = _reordered(weight)
        return lambda rows: _pointwise(rows, reordered, bias, "none", [], "")
    linear_of_mkl = torch.ops.mkl._mkl_linear.default
    packed = torch.ops.mkl._mkl_reorder_linear_weight(weight.detach().contiguous(), MKL_ROWS)
    # Only the shape of the second weight is read, as long as the rows are those that are announced.
    shape = weight.new_empty(1).expand(weight.shape)
    return lambda rows: linear_of_mkl(rows, packed, shape, bias, rows.shape[0])


def _reordered(weight: torch.Tensor) -> torch.Tensor:
    return torch.ops.mkldnn._reorder_linear_weight(weight.detach().contiguous(), ONEDNN_ROWS)


class FusedProducts:
    """The learner's own weights and adapters, unfolded: nothing is copied."""

    def __init__(
        self, layer: LayerParts, small: Elementwise, eps: float, add: AddRows | None = None
    ) -> None:
        self._small, self._eps = small, eps
        self._layer = layer
        self._add = add

    def qkv(self, x: torch.Tensor) -> torch.Tensor:
        """One product over input and adapters."""
        normed = self._small.rms_norm(x, self._layer.attention_norm, self._eps)
        return self._product(0, normed)

    def output(self, attended: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        """Added while the product is made."""
        return self._product(1, attended, residual)

    def activated(self, x: torch.Tensor) -> torch.Tensor:
        """One product, then the gate."""
        normed = self._small.rms_norm(x, self._layer.mlp_norm, self._eps)
        return self._small.silu_mul(self._product(2, normed))

    def down(self, activated: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        """Added while the product is made."""
        return self._product(3, activated, residual)

    def _product(
        self, number: int, x: torch.Tensor, residual: torch.Tensor | None = None
    ) -> torch.Tensor:
        out = self._base_product(self._layer.projections[number], x, residual)
        return out if self._add is None else self._add(number, x, out)

    def _base_product(
        self, projection: Projection, x: torch.Tensor, add: torch.Tensor | None
    ) -> torch.Tensor:
        weight = projection.base
        if projection.is_adapted:
            x, weight = torch.cat([x, x @ projection.first.t()], dim=1), projection.joined
        if add is None:
            return linear(x, weight, projection.bias)
        out = torch.addmm(add, x, weight.t())
        return out if projection.bias is None else out.add_(projection.bias)
