"""What a learner holds besides the weights it trains: saved, loaded, put back."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch

from practicum.core.errors import CheckpointError

OPTIMIZER_FILE = "optimizer.safetensors"
RANDOM_FILE = "random.safetensors"


def save_optimizer(
    optimizer: torch.optim.Optimizer, parameters: Sequence[torch.Tensor], folder: Path
) -> None:
    """Write each parameter's moments by its place in the list, and torch's generators."""
    from safetensors.torch import save_file

    save_file(_moments(optimizer, parameters), folder / OPTIMIZER_FILE)
    generators = {"cpu": torch.get_rng_state()}
    if parameters[0].is_cuda:
        generators["cuda"] = torch.cuda.get_rng_state(parameters[0].device)
    save_file(generators, folder / RANDOM_FILE)


def load_optimizer(
    optimizer: torch.optim.Optimizer, parameters: Sequence[torch.Tensor], folder: Path
) -> None:
    """Read back what `save_optimizer` wrote."""
    from safetensors.torch import load_file

    _put_moments(optimizer, parameters, load_file(folder / OPTIMIZER_FILE))
    generators = load_file(folder / RANDOM_FILE)
    torch.set_rng_state(generators["cpu"])
    if "cuda" in generators and parameters[0].is_cuda:
        torch.cuda.set_rng_state(generators["cuda"], parameters[0].device)


class TrainingSnapshot:
    """Parameters and their optimizer's moments as they are now, in the host's memory."""

    def __init__(
        self, optimizer: torch.optim.Optimizer, parameters: Sequence[torch.nn.Parameter]
    ) -> None:
        self._optimizer = optimizer
        self._parameters = parameters
        self._weights = [p.detach().to("cpu", copy=True) for p in parameters]
        # A moment of a model on the CPU is still the optimizer's own tensor here.
        self._moments = {k: v.clone() for k, v in _moments(optimizer, parameters).items()}

    @torch.no_grad()
    def restore(self) -> None:
        """Put all of it back, to the bit. To be called once."""
        for parameter, weight in zip(self._parameters, self._weights, strict=True):
            parameter.copy_(weight)
        _put_moments(self._optimizer, self._parameters, self._moments)


def _moments(
    optimizer: torch.optim.Optimizer, parameters: Sequence[torch.Tensor]
) -> dict[str, torch.Tensor]:
    return {
        f"{place}.{name}": value.detach().cpu().contiguous()
        for place, parameter in enumerate(parameters)
        for name, value in optimizer.state.get(parameter, {}).items()
    }


def _put_moments(
    optimizer: torch.optim.Optimizer,
    parameters: Sequence[torch.Tensor],
    moments: Mapping[str, torch.Tensor],
) -> None:
    optimizer.state.clear()
    for key, value in moments.items():
        place, name = key.split(".", 1)
        parameter = parameters[int(place)]
        where = "cpu" if name == "step" else parameter.device
        optimizer.state[parameter][name] = value.to(where)


def steps_taken(optimizer: torch.optim.Optimizer) -> int:
    """How often the optimizer has moved its parameters, in this process and before it."""
    return max((int(state["step"]) for state in optimizer.state.values()), default=0)


REFERENCE_FILE = "reference.safetensors"


class ReferenceAdapter:
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
