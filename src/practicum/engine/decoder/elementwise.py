"""The small operations between products, in torch; `kernels` has the same ones for NVIDIA GPUs.

Each backward recomputes what it needs from the operation's input, so that nothing else is kept.
"""

from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn.functional import rms_norm, silu

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
