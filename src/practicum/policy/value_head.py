"""What an episode may still earn, read off the hidden state before a token."""

from pathlib import Path

import torch

__all__ = ["ValueHead"]

WEIGHTS_FILE = "value_head.safetensors"


class ValueHead(torch.nn.Module):
    """One number for each hidden state, 0 at first; float32 whatever the model is.

    States are brought to the same size, because families of models differ in it by orders of
    magnitude and the learning rate should not have to.
    """

    def __init__(self, width: int, device: torch.device | str) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(width, 1, device=device, dtype=torch.float32)
        torch.nn.init.zeros_(self.linear.weight)
        torch.nn.init.zeros_(self.linear.bias)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """(N, H) to (N,)."""
        states = hidden.float()
        states = states / states.square().mean(-1, keepdim=True).add(1e-6).sqrt()
        values: torch.Tensor = self.linear(states)[:, 0]
        return values

    def save(self, folder: Path) -> None:
        """Write the weights into an existing folder."""
        from safetensors.torch import save_file

        tensors = {k: v.detach().cpu().contiguous() for k, v in self.state_dict().items()}
        save_file(tensors, folder / WEIGHTS_FILE)

    def load(self, folder: Path) -> None:
        """Read back what `save` wrote; a checkpoint without one leaves the head as it is."""
        from safetensors.torch import load_file

        if (folder / WEIGHTS_FILE).is_file():
            self.load_state_dict(load_file(folder / WEIGHTS_FILE))
