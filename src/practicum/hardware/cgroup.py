"""What the control groups of Linux allow this process, versions 1 and 2.

A container, a batch system or a service manager sets these limits; `/proc/meminfo` and the number
of processors know nothing of them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["CgroupLimits", "read_cgroup_limits"]

MOUNT = Path("sys/fs/cgroup")

NO_LIMIT_BYTES = 1 << 60
"""Version 1 writes 'no limit' as a number near 2^63."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CgroupLimits:
    """The tightest limits among the groups this process is in; None where there is none."""

    memory_bytes: int | None
    memory_free_bytes: int | None
    """What is left of it: limit less use, where file pages that can be dropped are not use."""
    cpus: float | None
    """Processors' worth of time it may use."""


def read_cgroup_limits(root: Path = Path("/")) -> CgroupLimits:
    """Limits of this process; `root` is where `/proc` and `/sys` are looked for."""
    memory: list[tuple[int, int]] = []
    cpus: list[float] = []
    for controllers, path in _memberships(root / "proc/self/cgroup"):
        if controllers == "":
            for base in (root / MOUNT, root / MOUNT / "unified"):
                for folder in _up(base, path):
                    memory += _memory_v2(folder)
                    cpus += _cpus_v2(folder)
        if "memory" in controllers.split(","):
            for folder in _up(root / MOUNT / "memory", path):
                memory += _memory_v1(folder)
        if "cpu" in controllers.split(","):
            for name in ("cpu", controllers):
                for folder in _up(root / MOUNT / name, path):
                    cpus += _cpus_v1(folder)
    return CgroupLimits(
        memory_bytes=min((limit for limit, _ in memory), default=None),
        memory_free_bytes=min((max(0, limit - used) for limit, used in memory), default=None),
        cpus=min(cpus, default=None),
    )


def _memberships(file: Path) -> Iterator[tuple[str, str]]:
    """Lines such as `4:memory:/a/b` (version 1) and `0::/a/b` (version 2)."""
    for line in _text(file).splitlines():
        _, _, rest = line.partition(":")
        controllers, colon, path = rest.partition(":")
        if colon:
            yield controllers, path


def _up(base: Path, path: str) -> Iterator[Path]:
    """The group's folder and its parents, up to the mount.

    Inside a container the path is often the host's and not there; the mount itself always counts.
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
    quota, _, period = _text(folder / "cpu.max").partition(" ")
    if quota.isdigit() and period.strip().isdigit():
        yield int(quota) / int(period)


def _cpus_v1(folder: Path) -> Iterator[float]:
    quota, period = _number(folder / "cpu.cfs_quota_us"), _number(folder / "cpu.cfs_period_us")
    if quota is not None and period is not None and quota > 0:
        yield quota / period


def _stat(file: Path, key: str) -> int:
    for line in _text(file).splitlines():
        name, _, value = line.partition(" ")
        if name == key and value.isdigit():
            return int(value)
    return 0


def _number(file: Path) -> int | None:
    text = _text(file).strip()
    return int(text) if text.lstrip("-").isdigit() else None


def _text(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:  # absent, or a limit that an unprivileged process may not read
        return ""
