"""What this machine has, what of it this process may use, and where a model runs on it.

`detect_machine` reads CPUs, memory, accelerators and packages. Containers, batch systems and
service managers limit CPUs and memory by control groups, which `/proc/meminfo` and the number of
CPUs do not show, so those are read too. `choose_device` and its neighbours place a model. At the
end are glibc's malloc settings, which decide how much freed memory a process keeps.
"""

import ctypes
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

from practicum.core.config.config_sections import ModelConfig
from practicum.core.config.run_config import RunConfig
from practicum.core.errors import ConfigError

BASE_PACKAGES = ("practicum", "numpy", "pydantic", "pyyaml", "rich", "typer")


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One accelerator."""

    kind: Literal["cuda", "rocm", "mps"]
    name: str
    memory_bytes: int
    free_bytes: int
    capability: str = ""
    """Compute capability such as 9.0, or AMD's architecture such as gfx942."""
    is_usable: bool = True
    """Whether the installed torch can use it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Extra:
    """An optional dependency group: installed versions by package, None for a missing one."""

    name: str
    packages: dict[str, str | None]

    @property
    def is_installed(self) -> bool:
        """Whether all its packages are installed."""
        return all(version is not None for version in self.packages.values())

    @property
    def install_command(self) -> str:
        """The command that installs it."""
        return f"pip install 'practicum[{self.name}]'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """The machine's resources at one moment, as this process may use them."""

    system: str
    python: str
    cpu: str
    physical_cores: int
    logical_cores: int
    allowed_cores: int
    """Cores this process may use, by its affinity and its control group's CPU quota."""
    memory_bytes: int
    """Of the machine, or of the control group if that allows less."""
    available_bytes: int
    """What can be allocated now without swapping."""
    is_memory_limited: bool
    """Whether a control group allows less memory than the machine has."""
    has_avx2: bool
    has_avx512: bool
    folder: str
    disk_free_bytes: int
    """On the disk of `folder`."""
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
    """Reads the machine's resources.

    Args:
        root: Where `/proc` and `/sys` are.
        folder: Its free disk space counts; if it does not exist, its nearest parent's that does.
        look_for_devices: Look for accelerators, which may import torch.
        affinity: Cores this process may run on; by default the operating system is asked.
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
        cpu=_first(processors, "model name", "Model", "Hardware")
        or platform.processor()
        or platform.machine(),
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
    """The blocks of `/proc/cpuinfo`, one per logical CPU; none if there is no such file."""
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
    known = [block for block in processors if "core id" in block]
    return len({(block.get("physical id", "0"), block["core id"]) for block in known})


def _affinity(logical: int) -> int:
    # Not on macOS.
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else logical


def _memory(file: Path) -> tuple[int, int]:
    """Total and available bytes."""
    if sys.platform == "win32":
        return _windows_memory()
    if not file.is_file():
        # Without /proc (macOS) only the total is known, not what other processes use.
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


if sys.platform == "win32":

    def _windows_memory() -> tuple[int, int]:
        """Total and available bytes, as `GlobalMemoryStatusEx` tells them."""
        # The struct is two 32-bit numbers, the first its own size, and seven 64-bit ones.
        status = (ctypes.c_uint64 * 8)(64)
        ctypes.windll.kernel32.GlobalMemoryStatusEx(ctypes.byref(status))
        return int(status[1]), int(status[2])


def _disk_free(folder: Path) -> int:
    at = folder.absolute()
    while not at.exists():
        at = at.parent
    return shutil.disk_usage(at).free


DTYPE_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}

TORCH_DEVICE = {"cuda": "cuda", "rocm": "cuda", "mps": "mps"}
"""Torch's name for each kind of device; ROCm builds call it cuda too."""


def device_kind(device: str) -> str:
    """`cuda` for `cuda:1`.

    >>> device_kind("cuda:1"), device_kind("cpu")
    ('cuda', 'cpu')
    """
    return device.partition(":")[0]


def usable_gpus(machine: Machine) -> int:
    """How many GPUs torch can use here, which it numbers from 0."""
    return sum(TORCH_DEVICE[d.kind] == "cuda" for d in machine.devices if d.is_usable)


def choose_device(machine: Machine, wanted: str = "auto") -> str:
    """`cpu`, `cuda`, `cuda:1` or `mps`: the wanted one if usable, or the best one for `auto`."""
    usable = [TORCH_DEVICE[device.kind] for device in machine.devices if device.is_usable]
    if wanted == "auto":
        return usable[0] if usable else "cpu"
    numbered = [f"cuda:{number}" for number in range(usable_gpus(machine))]
    if wanted == "cpu" or wanted in usable or wanted in numbered:
        return wanted
    usable = usable if len(numbered) < 2 else [*usable, *numbered]
    raise ConfigError(
        f"model.device = {wanted!r} cannot be used: {_absence(machine, wanted)}; "
        f"set model.device to one of: auto, {', '.join(dict.fromkeys([*usable, 'cpu']))}"
    )


def process_devices(config: RunConfig, machine: Machine) -> tuple[str, ...]:
    """Where each process of a run computes: a GPU for each, or all where the config says."""
    count, device = config.hardware.processes, choose_device(machine, config.model.device)
    if count == 1 or device != "cuda":
        return (device,) * count
    if count > (here := usable_gpus(machine)):
        others = f"type --processes {here}, or share a GPU" if here > 1 else "share it"
        raise ConfigError(
            f"hardware.processes = {count} takes a GPU for each and {here} can be used here; "
            f"{others} with model.device=cuda:0"
        )
    return tuple(f"cuda:{number}" for number in range(count))


def _absence(machine: Machine, wanted: str) -> str:
    listed = [device.name for device in machine.devices if not device.is_usable]
    if device_kind(wanted) == "cuda" and listed:
        return f"{listed[0]} is here but the installed torch cannot use it"
    return "no such device is here"


def choose_dtype(device: str, wanted: str = "auto") -> Literal["float32", "bfloat16"]:
    """The dtype of the weights; `auto` is float32 on a CPU and bfloat16 on an accelerator.

    On a CPU float32 is faster, and only in float32 do sampler and learner agree to 1e-4.
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
    """One thread per usable physical core: hyperthreads share the units that matrices need."""
    return max(1, min(machine.allowed_cores, machine.physical_cores))


def available_memory(machine: Machine, device: str) -> int:
    """Bytes free now on the device."""
    found = _device_of(machine, device)
    if found is None:
        return machine.available_bytes
    # An Apple GPU shares the machine's memory.
    return min(found.free_bytes, machine.available_bytes) if device == "mps" else found.free_bytes


def total_memory(machine: Machine, device: str) -> int:
    """Bytes of the device in all, used or not."""
    found = _device_of(machine, device)
    if found is None:
        return machine.memory_bytes
    return min(found.memory_bytes, machine.memory_bytes) if device == "mps" else found.memory_bytes


def _device_of(machine: Machine, device: str) -> Device | None:
    kind, _, number = device.partition(":")
    if kind == "cpu":
        return None
    usable = [d for d in machine.devices if d.is_usable and TORCH_DEVICE[d.kind] == kind]
    return next(iter(usable[int(number or 0) :]), None)


def placement(model: ModelConfig) -> tuple[Literal["float32", "bfloat16"], str]:
    """The dtype and the device of a model, from its config or, for `auto`, from the machine."""
    if model.runtime != "torch":
        raise ConfigError(
            f"model.runtime: {model.runtime} can act but not learn; leave it out to train"
        )
    device = choose_device(detect_machine(), model.device)
    return choose_dtype(device, model.dtype), device


def thread_count(config: RunConfig) -> int:
    """Of a process: as the config says, or OpenMP's own variable, or its part of `plan_threads`."""
    asked = os.environ.get("OMP_NUM_THREADS", "")
    named = int(asked) if asked.isdecimal() else 0
    here = plan_threads(detect_machine())
    return config.hardware.threads or named or max(1, here // config.hardware.processes)


MIB = 1024 * 1024

QUERY_TIMEOUT_S = 10
"""After this `nvidia-smi` is given up: a driver that hangs must not hang the command."""


def find_devices(nvidia_smi: str = "nvidia-smi") -> tuple[Device, ...]:
    """Devices that torch can use; if there are none, those of `nvidia-smi`, marked unusable."""
    return _torch_devices() or _listed_devices(nvidia_smi)


def _torch_devices() -> tuple[Device, ...]:
    if importlib.util.find_spec("torch") is None:
        return ()
    if metadata.version("torch").endswith("+cpu"):
        return ()  # a CPU build; importing it would take seconds for nothing
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
    try:
        free, total = torch.cuda.mem_get_info(index)
    except RuntimeError as error:
        if "out of memory" not in str(error):
            raise
        free, total = 0, found.total_memory  # other programs fill it: not even the question fits
    # What torch's caching allocator holds but does not use is free for this process.
    free += torch.cuda.memory_reserved(index) - torch.cuda.memory_allocated(index)
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
    query = "--query-gpu=name,memory.total,memory.free,compute_cap"
    command = [program, query, "--format=csv,noheader,nounits"]
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
    # GPUs that share the machine's memory answer `[N/A]`.
    return int(float(cell) * MIB) if cell.replace(".", "", 1).isdigit() else 0


CGROUP_MOUNT = Path("sys/fs/cgroup")

NO_LIMIT_BYTES = 1 << 60
"""cgroup version 1 writes 'no limit' as a number near 2^63."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CgroupLimits:
    """The tightest limits among the control groups of this process; None means no limit."""

    memory_bytes: int | None
    memory_free_bytes: int | None
    """Limit less use; inactive page cache does not count as used, since the kernel can drop it."""
    cpus: float | None
    """CPU quota divided by its period, such as 1.5 CPUs."""


def read_cgroup_limits(root: Path = Path("/")) -> CgroupLimits:
    """Limits of this process from cgroup versions 1 and 2; `/proc` and `/sys` are under `root`."""
    memory: list[tuple[int, int]] = []
    cpus: list[float] = []
    for controllers, path in _groups_of_process(root / "proc/self/cgroup"):
        if controllers == "":
            for base in (root / CGROUP_MOUNT, root / CGROUP_MOUNT / "unified"):
                for folder in _group_and_parents(base, path):
                    memory += _memory_v2(folder)
                    cpus += _cpus_v2(folder)
        if "memory" in controllers.split(","):
            for folder in _group_and_parents(root / CGROUP_MOUNT / "memory", path):
                memory += _memory_v1(folder)
        if "cpu" in controllers.split(","):
            for name in ("cpu", controllers):
                for folder in _group_and_parents(root / CGROUP_MOUNT / name, path):
                    cpus += _cpus_v1(folder)
    return CgroupLimits(
        memory_bytes=min((limit for limit, _ in memory), default=None),
        memory_free_bytes=min((max(0, limit - used) for limit, used in memory), default=None),
        cpus=min(cpus, default=None),
    )


def _groups_of_process(file: Path) -> Iterator[tuple[str, str]]:
    """Controllers and path from lines such as `4:memory:/a/b` (v1) and `0::/a/b` (v2)."""
    for line in _read_text(file).splitlines():
        _, _, rest = line.partition(":")
        controllers, colon, path = rest.partition(":")
        if colon:
            yield controllers, path


def _group_and_parents(base: Path, path: str) -> Iterator[Path]:
    """The group's folder and its parents, up to the mount: each may have a limit.

    Inside a container the path is often the host's and does not exist; then the mount is left.
    """
    inside = base / path.strip("/")
    for folder in (inside, *inside.parents):
        if not folder.is_relative_to(base):
            break
        if folder.is_dir():
            yield folder


def _memory_v2(folder: Path) -> Iterator[tuple[int, int]]:
    limit = _number(folder / "memory.max")
    if limit is not None:
        used = _number(folder / "memory.current") or 0
        yield limit, used - _stat(folder / "memory.stat", "inactive_file")


def _memory_v1(folder: Path) -> Iterator[tuple[int, int]]:
    limit = _number(folder / "memory.limit_in_bytes")
    if limit is not None and limit < NO_LIMIT_BYTES:
        used = _number(folder / "memory.usage_in_bytes") or 0
        yield limit, used - _stat(folder / "memory.stat", "total_inactive_file")


def _cpus_v2(folder: Path) -> Iterator[float]:
    quota, _, period = _read_text(folder / "cpu.max").partition(" ")
    if quota.isdigit() and period.strip().isdigit():
        yield int(quota) / int(period)


def _cpus_v1(folder: Path) -> Iterator[float]:
    quota, period = _number(folder / "cpu.cfs_quota_us"), _number(folder / "cpu.cfs_period_us")
    if quota is not None and period is not None and quota > 0:
        yield quota / period


def _stat(file: Path, key: str) -> int:
    for line in _read_text(file).splitlines():
        name, _, value = line.partition(" ")
        if name == key and value.isdigit():
            return int(value)
    return 0


def _number(file: Path) -> int | None:
    text = _read_text(file).strip()
    return int(text) if text.lstrip("-").isdigit() else None


def _read_text(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:  # absent, or a limit that an unprivileged process may not read
        return ""


EXTRA_REQUIREMENT = re.compile(r"""^([A-Za-z0-9._-]+)[^;]*;.*extra\s*==\s*["']([^"']+)["']""")
"""A line of package metadata such as `torch==2.13.0; extra == 'train'`."""


def find_extras(requirements: Sequence[str] | None = None) -> tuple[Extra, ...]:
    """Every extra that Practicum declares, from package metadata; nothing is imported."""
    lines = metadata.requires("practicum") if requirements is None else requirements
    found: dict[str, dict[str, str | None]] = {}
    for line in lines or ():
        match = EXTRA_REQUIREMENT.match(line)
        if match:
            package, extra = match.groups()
            found.setdefault(extra, {})[package] = installed_version(package)
    return tuple(Extra(name=name, packages=packages) for name, packages in found.items())


def installed_version(package: str) -> str | None:
    """The version of a package, or None if it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


THRESHOLD_BYTES = 4 << 20
"""In a compact heap, blocks of this size and more are returned to the system as soon as they are
freed. Smaller ones are worth keeping: with a threshold of 64 KiB updates took up to 1.7 times as
long, with this one 1.15 times (checkpointed, SmolLM2-135M's shape, 1,024 tokens, one thread)."""

MMAP_THRESHOLD, TRIM_THRESHOLD, ARENA_MAX = -3, -1, -8
"""Parameters of `mallopt`, as in glibc's `malloc.h`."""

KEPT_BYTES = 32 << 20
"""The largest M_MMAP_THRESHOLD of glibc: smaller blocks come from the heap and stay in it."""


def is_heap_compact() -> bool:
    """Whether the environment makes malloc return large freed blocks to the system."""
    value = os.environ.get("MALLOC_MMAP_THRESHOLD_", "")
    return value.isdigit() and int(value) <= THRESHOLD_BYTES


def make_heap_compact() -> bool:
    """Makes malloc return large freed blocks; False if the C library has no `mallopt`."""
    return _mallopt((MMAP_THRESHOLD, THRESHOLD_BYTES))


def keep_heap() -> bool:
    """Makes malloc keep freed memory, in one heap for all threads; False if it has no `mallopt`.

    The first touch of a page (a page fault) costs far more than using it again, and each update
    allocates the same gigabyte as the one before.
    """
    return _mallopt((ARENA_MAX, 1), (MMAP_THRESHOLD, KEPT_BYTES), (TRIM_THRESHOLD, 2**31 - 1))


def use_one_heap() -> bool:
    """Makes malloc serve all threads from one heap (arena); False if it has no `mallopt`.

    Memory that one thread allocates and another frees fragments an arena per thread, and such
    arenas grow for minutes. Threads that already have an arena keep it, so call this early.
    """
    return _mallopt((ARENA_MAX, 1))


def give_back_heap() -> bool:
    """Returns all free pages of the heap now (`malloc_trim`); False if none were returned."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if os.name == "posix" else None
    return trim is not None and trim(0) == 1


def _mallopt(*settings: tuple[int, int]) -> bool:
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if os.name == "posix" else None
    return mallopt is not None and all(mallopt(*setting) == 1 for setting in settings)
