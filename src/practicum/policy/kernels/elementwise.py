"""The small operations of a decoder as one kernel each; `decoder.elementwise` has them in torch."""

import torch

from practicum.policy.kernels.gated import silu_mul, silu_mul_backward
from practicum.policy.kernels.norm import (
    add_rms_norm,
    head_rms_norm,
    head_rms_norm_backward,
    rms_norm_backward,
)
from practicum.policy.kernels.rotary import rotate

__all__ = ["TritonElementwise"]


class TritonElementwise:
    """On NVIDIA GPUs."""

    def rms_norm(
        self, x: torch.Tensor, weight: torch.Tensor, eps: float, out: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Rows, or every head of them."""
        if x.dim() == 3:
            return head_rms_norm(x, weight, eps)
        return add_rms_norm(x, weight, eps, out=out)[0]

    def rms_norm_backward(
        self,
        grad: torch.Tensor,
        x: torch.Tensor,
        weight: torch.Tensor,
        eps: float,
        add: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Gradient of the rows, plus `add`."""
        if x.dim() == 3:
            return head_rms_norm_backward(grad, x, weight, eps)
        return rms_norm_backward(grad, x, weight, eps, add)

    def rotate(
        self,
        x: torch.Tensor,
        cos: torch.Tensor,
        sin: torch.Tensor,
        *,
        inverse: bool = False,
        out: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Each token by its own row of the tables."""
        return rotate(x, cos, sin, torch.arange(x.shape[0], device=x.device), inverse, out)

    def silu_mul(self, gate_up: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
        """silu(gate) * up from (T, 2 I)."""
        return silu_mul(gate_up, out)

    def silu_mul_backward(
        self, grad: torch.Tensor, gate_up: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The gradient of (T, 2 I), and the activation again."""
        return silu_mul_backward(grad, gate_up)
