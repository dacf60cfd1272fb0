"""An adapter as it was at one moment, to compare the policy with while it goes on learning."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch

from practicum.core.errors import CheckpointError

__all__ = ["HeldAdapter"]

REFERENCE_FILE = "reference.safetensors"


class HeldAdapter:
    """A copy of an adapter's tensors, which can stand in their place for a while."""

    def __init__(self, parameters: Sequence[torch.nn.Parameter]) -> None:
        self._parameters = parameters
        self._held = [p.detach().clone() for p in parameters]

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """The model as it was; afterwards it is again, to the bit, what it is now."""
        now = [p.data for p in self._parameters]
        self._put(self._held)
        try:
            yield
        finally:
            self._put(now)

    def _put(self, tensors: Sequence[torch.Tensor]) -> None:
        for parameter, tensor in zip(self._parameters, tensors, strict=True):
            parameter.data = tensor

    def save(self, folder: Path) -> None:
        """Write the tensors by their places."""
        from safetensors.torch import save_file

        tensors = {str(place): held.cpu().contiguous() for place, held in enumerate(self._held)}
        save_file(tensors, folder / REFERENCE_FILE)

    def load(self, folder: Path) -> None:
        """Read back what `save` wrote."""
        from safetensors.torch import load_file

        path = folder / REFERENCE_FILE
        if not path.is_file():
            raise CheckpointError(
                f"{folder} does not hold the policy that its stage started from ({REFERENCE_FILE}),"
                " and algorithm.reference is start; take the config of the run it came from, or "
                "algorithm.reference=base"
            )
        saved = load_file(path)
        self._held = [saved[str(n)].to(held.device) for n, held in enumerate(self._held)]
