"""Accelerators, as torch sees them, or as the driver's own tool does."""

import importlib.util
import subprocess
from dataclasses import dataclass
from importlib import metadata
from typing import Any, Literal

__all__ = ["Device", "find_devices"]

MIB = 1024 * 1024

QUERY_TIMEOUT_S = 10
"""A driver that hangs must not hang the command that asks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One accelerator."""

    kind: Literal["cuda", "rocm", "mps"]
    name: str
    memory_bytes: int
    free_bytes: int
    capability: str = ""
    """Generation as the maker counts it, such as 9.0 or gfx942."""
    is_usable: bool = True
    """Whether the installed torch can use it."""


def find_devices(nvidia_smi: str = "nvidia-smi") -> tuple[Device, ...]:
    """Devices torch can use; if there is none, those that `nvidia-smi` lists, marked unusable."""
    return _torch_devices() or _listed_devices(nvidia_smi)


def _torch_devices() -> tuple[Device, ...]:
    if importlib.util.find_spec("torch") is None:
        return ()
    if metadata.version("torch").endswith("+cpu"):
        return ()  # a build without any device; loading it would only cost seconds
    import torch

    if torch.cuda.is_available():
        return tuple(_cuda_device(torch, index) for index in range(torch.cuda.device_count()))
    if torch.backends.mps.is_available():
        memory = int(torch.mps.recommended_max_memory())
        used = int(torch.mps.driver_allocated_memory())
        return (
            Device(kind="mps", name="Apple GPU", memory_bytes=memory, free_bytes=memory - used),
        )
    return ()


def _cuda_device(torch: Any, index: int) -> Device:
    found = torch.cuda.get_device_properties(index)
    free, total = torch.cuda.mem_get_info(index)
    is_amd = torch.version.hip is not None
    capability = getattr(found, "gcnArchName", "") if is_amd else f"{found.major}.{found.minor}"
    return Device(
        kind="rocm" if is_amd else "cuda",
        name=found.name,
        memory_bytes=total,
        free_bytes=free,
        capability=capability,
    )


def _listed_devices(program: str) -> tuple[Device, ...]:
    command = [
        program,
        "--query-gpu=name,memory.total,memory.free,compute_cap",
        "--format=csv,noheader,nounits",
    ]
    try:
        answer = subprocess.run(
            command, capture_output=True, text=True, timeout=QUERY_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ()
    if answer.returncode != 0:
        return ()
    rows = [line.rsplit(",", 3) for line in answer.stdout.splitlines() if line.strip()]
    return tuple(_listed_device(row) for row in rows if len(row) == 4)


def _listed_device(row: list[str]) -> Device:
    name, total, free, capability = (cell.strip() for cell in row)
    return Device(
        kind="cuda",
        name=name,
        memory_bytes=_mib(total),
        free_bytes=_mib(free),
        capability=capability,
        is_usable=False,
    )


def _mib(cell: str) -> int:
    # Cards that share the machine's memory answer `[N/A]`.
    return int(float(cell) * MIB) if cell.replace(".", "", 1).isdigit() else 0
