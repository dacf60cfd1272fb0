"""Control groups (v1 and v2): limits of memory, processes and CPU time for a whole sandbox.

`find_cgroups` looks for a folder where this process may create groups, and creates one to be sure.
Groups are created below the group of this process, so that its limits hold for its sandboxes too.
Version 2 forbids that to a group that has processes, except at the top; then they are created
beside it, in a parent.
"""

import errno
import os
import re
import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from practicum.core.command import SandboxSpec

PERIOD_US = 100_000
KILL_TIMEOUT_S = 5.0
POLL_S = 0.002


class Group(ABC):
    """What groups of both versions share. See `Cgroup`."""

    __slots__ = ()

    @property
    @abstractmethod
    def name(self) -> str:
        """The name of its folder."""

    @property
    @abstractmethod
    def procs_files(self) -> tuple[Path, ...]:
        """Files that take the pid of a process that enters; see `Cgroup`."""

    @property
    @abstractmethod
    def oom_file(self) -> Path:
        """Has a line `oom_kill N`."""

    @abstractmethod
    def _kill_once(self, pids: list[int]) -> None:
        """SIGKILL all processes inside; some may have forked meanwhile."""

    def processes(self) -> list[int]:
        """The processes inside, in any of the hierarchies."""
        return sorted({pid for path in self.procs_files for pid in _pids_in(path)})

    def oom_kills(self) -> int:
        """From the kernel's own count."""
        return read_count(self.oom_file, "oom_kill")

    def kill(self, timeout_s: float = KILL_TIMEOUT_S) -> bool:
        """Kill until no process is left; False if that takes too long."""
        until = time.monotonic() + timeout_s
        while pids := self.processes():
            self._kill_once(pids)
            if time.monotonic() > until:
                return False
            time.sleep(POLL_S)
        return True

    def _await_frozen(self, is_frozen: Callable[[], bool]) -> None:
        until = time.monotonic() + KILL_TIMEOUT_S
        while not is_frozen():
            if time.monotonic() > until:
                raise TimeoutError(f"the processes in {self.name} cannot be held still")
            time.sleep(POLL_S)


def put(path: Path, text: str) -> None:
    """Write to a kernel file; never creates one."""
    fd = os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


def read_count(path: Path, key: str) -> int:
    """The number of a key in a file of `key number` lines; 0 if file or key is missing."""
    try:
        lines = path.read_text().splitlines()
    except FileNotFoundError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.split()[:1] == [key]), 0)


def _pids_in(path: Path) -> list[int]:
    """Processes in a `cgroup.procs` file; none where the group is gone."""
    try:
        return [int(line) for line in path.read_text().split()]
    except (FileNotFoundError, OSError):
        return []


def kill_all(pids: list[int]) -> None:
    """SIGKILL each; the kernel shows a process outside our pid namespace as 0."""
    for pid in pids:
        if pid > 0:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def remove_folder(folder: Path) -> bool:
    """Remove an empty group; returns whether it is gone."""
    try:
        os.rmdir(folder)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def quota_us(spec: SandboxSpec) -> int:
    """CPU time per period, in microseconds; the kernel's minimum is 1,000."""
    return max(1_000, round(spec.cpus * PERIOD_US))


def orphaned_groups(base: Path, prefix: str) -> set[str]:
    """Groups `<prefix>-<owner pid>-<number>` in a folder whose owner process is dead."""
    pattern = re.compile(re.escape(prefix) + r"-(\d+)-\d+")
    names = {entry.name: pattern.fullmatch(entry.name) for entry in base.iterdir()}
    return {name for name, match in names.items() if match and not _is_alive(int(match[1]))}


def _is_alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in ("Z", "X")


V1_CONTROLLERS = ("memory", "pids", "cpu", "freezer")


@dataclass(frozen=True, slots=True)
class Group1(Group):
    """A group of version 1: a folder in each hierarchy. See `Cgroup`."""

    folders: dict[str, Path]

    @property
    def name(self) -> str:
        """The name of the folders."""
        return next(iter(self.folders.values())).name

    @property
    def procs_files(self) -> tuple[Path, ...]:
        """One in each hierarchy; controllers that are mounted together share one."""
        return tuple(dict.fromkeys(folder / "cgroup.procs" for folder in self.folders.values()))

    @property
    def oom_file(self) -> Path:
        """Has a line `oom_kill N`."""
        return self.folders["memory"] / "memory.oom_control"

    def freeze(self) -> None:
        """The state reads FREEZING until the last process is frozen."""
        state = self.folders["freezer"] / "freezer.state"
        put(state, "FROZEN")
        self._await_frozen(lambda: state.read_text().strip() == "FROZEN")

    def thaw(self) -> None:
        """Resume the processes."""
        put(self.folders["freezer"] / "freezer.state", "THAWED")

    def _kill_once(self, pids: list[int]) -> None:
        """Frozen, they cannot fork between the look and the signal; they die when thawed."""
        if "freezer" not in self.folders:
            kill_all(pids)
            return
        with suppress(OSError):
            self.freeze()
        kill_all(self.processes())
        self.thaw()

    def remove(self) -> bool:
        """All folders must go."""
        gone = [remove_folder(folder) for folder in dict.fromkeys(self.folders.values())]
        return all(gone)


@dataclass(frozen=True, slots=True)
class Version1:
    """Hierarchies of version 1, each with the folder in which groups may be made."""

    bases: dict[str, Path]

    @property
    def version(self) -> int:
        """The old form."""
        return 1

    def create(self, name: str, spec: SandboxSpec) -> Group1:
        """A folder in each hierarchy; all of them or none."""
        group = Group1({kind: base / name for kind, base in self.bases.items()})
        made: list[Path] = []
        try:
            for folder in dict.fromkeys(group.folders.values()):
                folder.mkdir()
                made.append(folder)
            self._limit(group.folders, spec)
        except OSError:
            for folder in made:
                remove_folder(folder)
            raise
        return group

    def _limit(self, folders: dict[str, Path], spec: SandboxSpec) -> None:
        memory, size = folders["memory"], str(spec.memory_mb << 20)
        put(memory / "memory.limit_in_bytes", size)
        # memsw is memory and swap together: equal limits mean no swap. Kernels without this file do
        # not account for swap.
        together = memory / "memory.memsw.limit_in_bytes"
        if together.exists():
            put(together, size)
        else:
            put(memory / "memory.swappiness", "0")
        put(folders["pids"] / "pids.max", str(spec.processes))
        put(folders["cpu"] / "cpu.cfs_period_us", str(PERIOD_US))
        try:
            put(folders["cpu"] / "cpu.cfs_quota_us", str(quota_us(spec)))
        except OSError as error:
            # EINVAL: a parent group has a lower quota, which then holds for this one too.
            if error.errno != errno.EINVAL:
                raise

    def sweep(self, prefix: str = "practicum") -> list[str]:
        """See `Cgroups.sweep`; after a crash only some of the folders may exist."""
        names = {name for base in self.bases.values() for name in orphaned_groups(base, prefix)}
        for name in sorted(names):
            folders = {kind: base / name for kind, base in self.bases.items()}
            group = Group1({kind: at for kind, at in folders.items() if at.is_dir()})
            if group.folders:
                group.kill()
                group.remove()
        return sorted(names)


V2_CONTROLLERS = ("memory", "pids", "cpu")
"""Freezing and killing need no controller in version 2."""


@dataclass(frozen=True, slots=True)
class Group2(Group):
    """A group of version 2: one folder. See `Cgroup`."""

    folder: Path

    @property
    def name(self) -> str:
        """The name of the folder."""
        return self.folder.name

    @property
    def procs_files(self) -> tuple[Path, ...]:
        """The one there is."""
        return (self.folder / "cgroup.procs",)

    @property
    def oom_file(self) -> Path:
        """Has a line `oom_kill N`."""
        return self.folder / "memory.events"

    def freeze(self) -> None:
        """`cgroup.events` says when the last process is frozen."""
        put(self.folder / "cgroup.freeze", "1")
        self._await_frozen(lambda: read_count(self.folder / "cgroup.events", "frozen") == 1)

    def thaw(self) -> None:
        """Resume the processes."""
        put(self.folder / "cgroup.freeze", "0")

    def _kill_once(self, pids: list[int]) -> None:
        """By the kernel at once, or, where it is older than 5.14, again and again."""
        switch = self.folder / "cgroup.kill"
        if switch.exists():
            put(switch, "1")
        else:
            kill_all(pids)

    def remove(self) -> bool:
        """See `Cgroup.remove`."""
        return remove_folder(self.folder)


@dataclass(frozen=True, slots=True)
class Version2:
    """The one hierarchy of version 2, and the folder in which groups may be made."""

    base: Path

    @property
    def version(self) -> int:
        """The new form."""
        return 2

    def create(self, name: str, spec: SandboxSpec) -> Group2:
        """One folder with its limits, or none."""
        group = Group2(self.base / name)
        group.folder.mkdir()
        try:
            self._limit(group.folder, spec)
        except OSError:
            group.remove()
            raise
        return group

    def _limit(self, folder: Path, spec: SandboxSpec) -> None:
        put(folder / "memory.max", str(spec.memory_mb << 20))
        # Kernels without this file do not account for swap.
        if (folder / "memory.swap.max").exists():
            put(folder / "memory.swap.max", "0")
        put(folder / "pids.max", str(spec.processes))
        put(folder / "cpu.max", f"{quota_us(spec)} {PERIOD_US}")

    def sweep(self, prefix: str = "practicum") -> list[str]:
        """See `Cgroups.sweep`."""
        names = sorted(orphaned_groups(self.base, prefix))
        for name in names:
            group = Group2(self.base / name)
            group.kill()
            group.remove()
        return names


class CgroupsUnusable(Exception):
    """No group can be created here; the message says why."""


class Cgroup(Protocol):
    """One group: a process whose pid is written to `procs_files` enters it, with later children."""

    @property
    def name(self) -> str:
        """The name it was created with."""
        ...

    @property
    def procs_files(self) -> tuple[Path, ...]:
        """A process enters when its pid is written to all of these files."""
        ...

    @property
    def oom_file(self) -> Path:
        """File with the kernel's count of out-of-memory kills, in a line `oom_kill N`."""
        ...

    def processes(self) -> list[int]:
        """The processes inside."""
        ...

    def oom_kills(self) -> int:
        """How many processes were killed for memory."""
        ...

    def freeze(self) -> None:
        """Freeze every process; returns once they are frozen."""
        ...

    def thaw(self) -> None:
        """Resume them."""
        ...

    def kill(self, timeout_s: float = KILL_TIMEOUT_S) -> bool:
        """Kill every process, however fast they fork; returns whether none is left in time."""
        ...

    def remove(self) -> bool:
        """Remove the group if it is empty; returns whether it is gone."""
        ...


class Cgroups(Protocol):
    """A folder in which groups can be created."""

    @property
    def version(self) -> int:
        """1 or 2."""
        ...

    def create(self, name: str, spec: SandboxSpec) -> Cgroup:
        """Create a group with the limits of a sandbox; `OSError` if the kernel refuses."""
        ...

    def sweep(self, prefix: str = "practicum") -> list[str]:
        """Kill and remove the groups `<prefix>-<pid>-<number>` of dead owners; their names."""
        ...


def find_cgroups(proc: Path = Path("/proc/self")) -> Cgroups | None:
    """Where groups can be created, or None; `why_no_cgroups` says why."""
    try:
        return require_cgroups(proc)
    except CgroupsUnusable:
        return None


def why_no_cgroups(proc: Path = Path("/proc/self")) -> str | None:
    """Why no groups can be created, as a sentence; None if they can."""
    try:
        require_cgroups(proc)
    except CgroupsUnusable as error:
        return str(error)
    return None


def require_cgroups(proc: Path = Path("/proc/self")) -> Cgroups:
    """Where groups can be created, tested by creating one; `CgroupsUnusable` with all reasons."""
    reasons: list[str] = []
    for found in (_find_version2, _find_version1):
        try:
            return found(proc)
        except CgroupsUnusable as error:
            reasons.append(str(error))
    raise CgroupsUnusable("; ".join(reasons))


Place = TypeVar("Place", Version1, Version2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hierarchy:
    """A mounted hierarchy of groups, from /proc/self/mountinfo and /proc/self/cgroup."""

    kind: str
    """`cgroup` for version 1, `cgroup2` for version 2."""
    controllers: frozenset[str]
    top: Path
    """Where it is mounted."""
    own: Path
    """The folder of this process's group, or `top` where the mount does not show it."""


def _hierarchies(proc: Path) -> list[Hierarchy]:
    """Every mounted hierarchy that this process is part of."""
    own: dict[str, str] = {}
    for line in (proc / "cgroup").read_text().splitlines():
        number, controllers, path = line.split(":", 2)
        own.update(dict.fromkeys(controllers.split(",") if number != "0" else ["cgroup2"], path))
    found: list[Hierarchy] = []
    for line in (proc / "mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        root, top = (word.replace("\\040", " ") for word in before.split()[3:5])
        kind, _, options = after.split()[:3]
        names = {"cgroup": frozenset(options.split(",")), "cgroup2": frozenset(["cgroup2"])}
        mine = [own[name] for name in names.get(kind, frozenset()) if name in own]
        if mine:
            below = _below(root, mine[0])
            found.append(
                Hierarchy(kind=kind, controllers=names[kind], top=Path(top), own=Path(top) / below)
            )
    return found


def _below(root: str, path: str) -> str:
    """A group's path relative to the mount, which may show only a part of the hierarchy.

    >>> _below("/", "/a/b"), _below("/a", "/a/b"), _below("/a", "/c"), _below("/", "/../c")
    ('a/b', 'b', '.', '.')
    """
    inside = os.path.relpath(path, root)
    return "." if inside.startswith("..") or "/.." in path else inside


def _find_version1(proc: Path) -> Version1:
    bases: dict[str, Path] = {}
    for hierarchy in _hierarchies(proc):
        if hierarchy.kind == "cgroup":
            for name in hierarchy.controllers.intersection(V1_CONTROLLERS):
                bases.setdefault(name, hierarchy.own)
    missing = sorted(set(V1_CONTROLLERS) - set(bases))
    if missing:
        raise CgroupsUnusable(f"version 1: {', '.join(missing)} not mounted")
    return _tried(Version1({name: bases[name] for name in V1_CONTROLLERS}))


def _find_version2(proc: Path) -> Version2:
    mounted = [hierarchy for hierarchy in _hierarchies(proc) if hierarchy.kind == "cgroup2"]
    if not mounted:
        raise CgroupsUnusable("version 2: not mounted")
    hierarchy, reason = mounted[0], ""
    folders = [hierarchy.own, *hierarchy.own.parents]
    for folder in folders[: folders.index(hierarchy.top) + 1]:
        try:
            _enable(folder)
            return _tried(Version2(folder))
        except CgroupsUnusable as error:
            reason = reason or str(error)
    raise CgroupsUnusable(reason)


def _enable(folder: Path) -> None:
    """Enable the controllers for groups in a folder; `CgroupsUnusable` where we may not."""
    try:
        offered = (folder / "cgroup.controllers").read_text().split()
        missing = [name for name in V2_CONTROLLERS if name not in offered]
        if missing:
            raise CgroupsUnusable(f"version 2: {folder} has no controller {', '.join(missing)}")
        switch = folder / "cgroup.subtree_control"
        for name in V2_CONTROLLERS:
            if name not in switch.read_text().split():
                put(switch, f"+{name}")
    except OSError as error:
        raise CgroupsUnusable(f"version 2: {folder}: {error.strerror}") from error


def _tried(place: Place) -> Place:
    """The place, after creating a group there and checking that processes may enter it."""
    try:
        group = place.create(f"practicum-{os.getpid()}-{time.monotonic_ns()}", SandboxSpec())
    except OSError as error:
        raise CgroupsUnusable(
            f"version {place.version}: {error.filename or 'limits'}: {error.strerror}"
        ) from error
    try:
        for path in group.procs_files:
            # To move a process, both its old group's parent and the new one must be ours.
            for needed in (path, path.parents[1] / "cgroup.procs"):
                if not os.access(needed, os.W_OK):
                    raise CgroupsUnusable(f"version {place.version}: {needed} cannot be written")
    finally:
        group.remove()
    return place
