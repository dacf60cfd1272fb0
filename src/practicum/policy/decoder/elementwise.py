"""The small operations between products, in torch; `kernels` has the same ones for NVIDIA GPUs.

Each backward recomputes what it needs from the operation's input, so that nothing else is kept.
"""

from typing import Any, Protocol

import torch
from torch.nn.functional import rms_norm, silu

__all__ = ["Elementwise", "TorchElementwise", "elementwise_for"]


class Elementwise(Protocol):
    """Operations on rows; the two implementations are checked against each other."""

    def rms_norm(
        self, x: torch.Tensor, weight: torch.Tensor, eps: float, out: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Rows (…, H) scaled to a root mean square of 1, times the weight."""
        ...

    def rms_norm_backward(
        self,
        grad: torch.Tensor,
        x: torch.Tensor,
        weight: torch.Tensor,
        eps: float,
        add: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Gradient of the rows, plus `add`."""
        ...

    def rotate(
        self,
        x: torch.Tensor,
        cos: torch.Tensor,
        sin: torch.Tensor,
        *,
        inverse: bool = False,
        out: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """(T, heads, D) turned by its positions' angles, or back by them; `out` may be `x`.

        Angles are (T, 1, D), as `DecoderParts.angles` gives them.
        """
        ...

    def silu_mul(self, gate_up: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
        """silu(gate) * up from (T, 2 I)."""
        ...

    def silu_mul_backward(
        self, grad: torch.Tensor, gate_up: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The gradient of (T, 2 I), and the activation again."""
        ...


class TorchElementwise:
    """On any device."""

    def rms_norm(
        self, x: torch.Tensor, weight: torch.Tensor, eps: float, out: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Computed in float32, as the models do."""
        if x.dtype == torch.float32 and out is None:
            return rms_norm(x, x.shape[-1:], weight, eps)
        wide = x.float()
        scaled = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True).add_(eps))
        return torch.mul(scaled.to(x.dtype), weight, out=out)

    def rms_norm_backward(
        self,
        grad: torch.Tensor,
        x: torch.Tensor,
        weight: torch.Tensor,
        eps: float,
        add: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """R (g - x r^2 mean(g x)), with g the gradient times the weight and r the scale."""
        wide, g = x.float(), grad.float() * weight.float()
        r = torch.rsqrt(wide.square().mean(-1, keepdim=True).add_(eps))
        shrink = (g * wide).mean(-1, keepdim=True).mul_(r * r)
        g.addcmul_(wide, shrink, value=-1.0).mul_(r)
        found = g.to(x.dtype)
        return found if add is None else found.add_(add)

    def rotate(
        self,
        x: torch.Tensor,
        cos: torch.Tensor,
        sin: torch.Tensor,
        *,
        inverse: bool = False,
        out: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Each half turns into the other."""
        wide, sign = x.float(), -1.0 if inverse else 1.0
        other = wide.roll(x.shape[-1] // 2, -1)
        room = out if x.dtype == torch.float32 else None
        turned = torch.mul(wide, cos, out=room).addcmul_(other, sin, value=sign)
        if room is not None:
            return turned
        return turned.to(x.dtype) if out is None else out.copy_(turned)

    def silu_mul(self, gate_up: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
        """Two passes over half of it."""
        gate, up = gate_up.chunk(2, dim=-1)
        return torch.mul(silu(gate), up, out=out)

    def silu_mul_backward(
        self, grad: torch.Tensor, gate_up: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """With torch's own backward of silu."""
        gate, up = gate_up.chunk(2, dim=-1)
        activated = silu(gate)
        found = torch.empty_like(gate_up)
        for_gate, for_up = found.chunk(2, dim=-1)
        torch.mul(grad, activated, out=for_up)
        for_gate.copy_(torch.ops.aten.silu_backward(grad * up, gate))
        return found, activated.mul_(up)


def elementwise_for(device: torch.device) -> Any:
    """The fastest there is for a device."""
    if device.type == "cuda":
        from practicum.policy.kernels.elementwise import TritonElementwise

        return TritonElementwise()
    return TorchElementwise()
