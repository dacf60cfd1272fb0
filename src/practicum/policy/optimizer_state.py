"""Optimizer moments and random generators as safetensors, so that resuming keeps the bits."""

from collections.abc import Sequence
from pathlib import Path

import torch

__all__ = ["load_optimizer", "save_optimizer", "steps_taken"]

OPTIMIZER_FILE = "optimizer.safetensors"
RANDOM_FILE = "random.safetensors"


def save_optimizer(
    optimizer: torch.optim.Optimizer, parameters: Sequence[torch.Tensor], folder: Path
) -> None:
    """Write each parameter's moments by its place in the list, and torch's generators."""
    from safetensors.torch import save_file

    tensors = {
        f"{place}.{name}": value.detach().cpu().contiguous()
        for place, parameter in enumerate(parameters)
        for name, value in optimizer.state.get(parameter, {}).items()
    }
    save_file(tensors, folder / OPTIMIZER_FILE)
    generators = {"cpu": torch.get_rng_state()}
    if parameters[0].is_cuda:
        generators["cuda"] = torch.cuda.get_rng_state(parameters[0].device)
    save_file(generators, folder / RANDOM_FILE)


def load_optimizer(
    optimizer: torch.optim.Optimizer, parameters: Sequence[torch.Tensor], folder: Path
) -> None:
    """Read back what `save_optimizer` wrote."""
    from safetensors.torch import load_file

    tensors = load_file(folder / OPTIMIZER_FILE)
    optimizer.state.clear()
    for key, value in tensors.items():
        place, name = key.split(".", 1)
        parameter = parameters[int(place)]
        where = "cpu" if name == "step" else parameter.device
        optimizer.state[parameter][name] = value.to(where)
    generators = load_file(folder / RANDOM_FILE)
    torch.set_rng_state(generators["cpu"])
    if "cuda" in generators and parameters[0].is_cuda:
        torch.cuda.set_rng_state(generators["cuda"], parameters[0].device)


def steps_taken(optimizer: torch.optim.Optimizer) -> int:
    """How often the optimizer has moved its parameters, in this process and before it."""
    return max((int(state["step"]) for state in optimizer.state.values()), default=0)
