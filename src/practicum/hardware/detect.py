"""What this machine has, and what of it this process may use."""

import os
import platform
import shutil
from dataclasses import dataclass
from pathlib import Path

from practicum.hardware.cgroup import read_cgroup_limits
from practicum.hardware.devices import Device, find_devices
from practicum.hardware.extras import Extra, find_extras, installed_version

__all__ = ["Machine", "detect_machine"]

BASE_PACKAGES = ("practicum", "numpy", "pydantic", "pyyaml", "rich", "typer")


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """One look at the machine."""

    system: str
    python: str
    cpu: str
    physical_cores: int
    logical_cores: int
    allowed_cores: int
    """Cores this process may use: its affinity, and its control group's share of time."""
    memory_bytes: int
    """Of the machine, or of the control group if that allows less."""
    available_bytes: int
    """What can be had now without pushing others out."""
    is_memory_limited: bool
    """Whether a control group allows less memory than the machine has."""
    has_avx2: bool
    has_avx512: bool
    folder: str
    disk_free_bytes: int
    """Where `folder` lies."""
    devices: tuple[Device, ...] = ()
    extras: tuple[Extra, ...] = ()
    packages: dict[str, str | None]


def detect_machine(
    *,
    root: Path = Path("/"),
    folder: Path = Path(),
    look_for_devices: bool = True,
    affinity: int | None = None,
) -> Machine:
    """Look at the machine.

    Args:
        root: Where `/proc` and `/sys` are looked for.
        folder: Whose free disk space counts; the nearest folder above it that exists is taken.
        look_for_devices: Ask for accelerators, which may load torch.
        affinity: Cores this process may run on; the system is asked unless given.
    """
    processors = _processors(root / "proc/cpuinfo")
    flags = set(_first(processors, "flags", "Features").split())
    logical = len(processors) or os.cpu_count() or 1
    limits = read_cgroup_limits(root)
    runnable = affinity if affinity is not None else _affinity(logical)
    time_share = logical if limits.cpus is None else max(1, int(limits.cpus))
    memory, available = _memory(root / "proc/meminfo")
    is_limited = limits.memory_bytes is not None and limits.memory_bytes < memory
    if is_limited:
        memory = min(memory, limits.memory_bytes or memory)
    if limits.memory_free_bytes is not None:
        available = min(available, limits.memory_free_bytes)
    return Machine(
        system=f"{platform.system()} {platform.machine()}",
        python=platform.python_version(),
        cpu=_first(processors, "model name", "Model", "Hardware") or _cpu_name(),
        physical_cores=_physical_cores(processors) or logical,
        logical_cores=logical,
        allowed_cores=max(1, min(runnable, time_share, logical)),
        memory_bytes=memory,
        available_bytes=available,
        is_memory_limited=is_limited,
        has_avx2="avx2" in flags,
        has_avx512="avx512f" in flags,
        folder=str(folder),
        disk_free_bytes=_disk_free(folder),
        devices=find_devices() if look_for_devices else (),
        extras=find_extras(),
        packages={name: installed_version(name) for name in BASE_PACKAGES},
    )


def _processors(file: Path) -> list[dict[str, str]]:
    """The blocks of `/proc/cpuinfo` that describe a processor; none where there is no such file."""
    if not file.is_file():
        return []
    blocks = []
    for text in file.read_text(errors="replace").split("\n\n"):
        lines = (line.partition(":") for line in text.splitlines())
        block = {key.strip(): value.strip() for key, colon, value in lines if colon}
        if "processor" in block:
            blocks.append(block)
    return blocks


def _first(processors: list[dict[str, str]], *keys: str) -> str:
    return next((block[key] for block in processors for key in keys if block.get(key)), "")


def _physical_cores(processors: list[dict[str, str]]) -> int:
    return len(
        {
            (block.get("physical id", "0"), block["core id"])
            for block in processors
            if "core id" in block
        }
    )


def _cpu_name() -> str:
    return platform.processor() or platform.machine()


def _affinity(logical: int) -> int:
    # Only Linux can say which cores a process may run on.
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else logical


def _memory(file: Path) -> tuple[int, int]:
    """Total and available bytes."""
    if not file.is_file():
        # Without /proc the system tells only the total, so what others use is not known.
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        return total, total
    fields = {}
    for line in file.read_text().splitlines():
        key, _, rest = line.partition(":")
        words = rest.split()
        if words and words[0].isdigit():
            fields[key] = int(words[0]) * 1024
    total = fields["MemTotal"]
    return total, fields.get("MemAvailable", fields.get("MemFree", total))


def _disk_free(folder: Path) -> int:
    at = folder.absolute()
    while not at.exists():
        at = at.parent
    return shutil.disk_usage(at).free
