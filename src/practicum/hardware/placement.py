"""Where a model runs, how precise its weights are, and on how many threads."""

from typing import Literal

from practicum.core.errors import ConfigError
from practicum.hardware.detect import Machine
from practicum.hardware.devices import Device

__all__ = [
    "DTYPE_BYTES",
    "available_memory",
    "choose_device",
    "choose_dtype",
    "plan_threads",
    "total_memory",
]

DTYPE_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}

TORCH_DEVICE = {"cuda": "cuda", "rocm": "cuda", "mps": "mps"}
"""What torch calls each kind of device; AMD's go by NVIDIA's name."""


def choose_device(machine: Machine, wanted: str = "auto") -> str:
    """`cpu`, `cuda` or `mps`: the one wanted if it is here, the best one for `auto`."""
    usable = [TORCH_DEVICE[device.kind] for device in machine.devices if device.is_usable]
    if wanted == "auto":
        return usable[0] if usable else "cpu"
    if wanted == "cpu" or wanted in usable:
        return wanted
    raise ConfigError(
        f"model.device = {wanted!r} cannot be used: {_absence(machine, wanted)}; "
        f"set model.device to one of: auto, {', '.join(dict.fromkeys([*usable, 'cpu']))}"
    )


def _absence(machine: Machine, wanted: str) -> str:
    listed = [device.name for device in machine.devices if not device.is_usable]
    if wanted == "cuda" and listed:
        return f"{listed[0]} is here but the installed torch cannot use it"
    return "no such device is here"


def choose_dtype(device: str, wanted: str = "auto") -> Literal["float32", "bfloat16"]:
    """Precision of the weights: float32 on a CPU, bfloat16 on a device, unless told.

    On a CPU float32 is the faster one, and sampler and learner agree to 1e-4 only in it.
    """
    if wanted == "auto":
        return "float32" if device == "cpu" else "bfloat16"
    if wanted == "float32":
        return "float32"
    if wanted == "bfloat16":
        return "bfloat16"
    raise ConfigError(
        f"model.dtype = {wanted!r} cannot be used; set model.dtype to auto, float32 or bfloat16"
    )


def plan_threads(machine: Machine) -> int:
    """One thread a physical core that may be used: two on one core only get in each other's way."""
    return max(1, min(machine.allowed_cores, machine.physical_cores))


def available_memory(machine: Machine, device: str) -> int:
    """Bytes that can be had now where the model would run."""
    found = _device_of(machine, device)
    if found is None:
        return machine.available_bytes
    # An Apple device takes its memory from the machine's.
    return min(found.free_bytes, machine.available_bytes) if device == "mps" else found.free_bytes


def total_memory(machine: Machine, device: str) -> int:
    """Bytes that there are where the model would run, whoever has them now."""
    found = _device_of(machine, device)
    if found is None:
        return machine.memory_bytes
    return min(found.memory_bytes, machine.memory_bytes) if device == "mps" else found.memory_bytes


def _device_of(machine: Machine, device: str) -> Device | None:
    if device == "cpu":
        return None
    usable = (d for d in machine.devices if d.is_usable and TORCH_DEVICE[d.kind] == device)
    return next(usable, None)
