"""Limits for a whole sandbox: control groups, in both of the forms that kernels offer.

`find_cgroups` looks where this process may make groups of its own, tries it, and says why not
where it cannot. Groups are made below the one this process is in, so that limits set on it from
outside hold for its sandboxes too. Version 2 forbids that to a group with processes in it unless
it is the top one; there they are made beside it.
"""

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from practicum.core.command import SandboxSpec
from practicum.sandboxes.cgroups import version1, version2
from practicum.sandboxes.cgroups.files import KILL_TIMEOUT_S, put
from practicum.sandboxes.cgroups.version1 import Version1
from practicum.sandboxes.cgroups.version2 import Version2

__all__ = [
    "Cgroup",
    "Cgroups",
    "CgroupsUnusable",
    "find_cgroups",
    "require_cgroups",
    "why_no_cgroups",
]


class CgroupsUnusable(Exception):
    """No group can be made here; the sentence says why."""


class Cgroup(Protocol):
    """One group: what is written into `procs_files` enters it, with all it starts from then on."""

    @property
    def name(self) -> str:
        """The name it was made under."""
        ...

    @property
    def procs_files(self) -> tuple[Path, ...]:
        """Files that take the pid of a process that is to enter; it must be written to all."""
        ...

    @property
    def oom_file(self) -> Path:
        """Where the kernel counts, in a line `oom_kill N`, what it killed for memory."""
        ...

    def processes(self) -> list[int]:
        """Who is inside."""
        ...

    def oom_kills(self) -> int:
        """How many processes the memory limit has ended."""
        ...

    def freeze(self) -> None:
        """Hold every process still; returns when they are."""
        ...

    def thaw(self) -> None:
        """Let them go on."""
        ...

    def kill(self, timeout_s: float = KILL_TIMEOUT_S) -> bool:
        """End every process, however fast they fork; whether none is left in time."""
        ...

    def remove(self) -> bool:
        """Take the group away if nobody is inside; whether it is gone."""
        ...


class Cgroups(Protocol):
    """A place where groups can be made."""

    @property
    def version(self) -> int:
        """1 or 2."""
        ...

    def create(self, name: str, spec: SandboxSpec) -> Cgroup:
        """A new group with the limits of a sandbox; `OSError` where the kernel refuses."""
        ...

    def sweep(self, prefix: str = "practicum") -> list[str]:
        """End and remove the groups `<prefix>-<pid>-<number>` whose owner is dead; their names."""
        ...


def find_cgroups(proc: Path = Path("/proc/self")) -> Cgroups | None:
    """Where groups can be made, or None; `why_no_cgroups` then says why."""
    try:
        return require_cgroups(proc)
    except CgroupsUnusable:
        return None


def why_no_cgroups(proc: Path = Path("/proc/self")) -> str | None:
    """The reason, as a sentence, or None where groups can be made."""
    try:
        require_cgroups(proc)
    except CgroupsUnusable as error:
        return str(error)
    return None


def require_cgroups(proc: Path = Path("/proc/self")) -> Cgroups:
    """Where groups can be made, tried by making one; `CgroupsUnusable` with all the reasons."""
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
    """A mounted hierarchy of groups, as /proc tells of it."""

    kind: str
    """`cgroup` for version 1, `cgroup2` for version 2."""
    controllers: frozenset[str]
    top: Path
    """Where it is mounted."""
    own: Path
    """The folder of the group this process is in, or the top where that is not to be seen."""


def _hierarchies(proc: Path) -> list[Hierarchy]:
    """Every hierarchy that is mounted and that this process is a part of."""
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
    """A group's path from the folder that is mounted; a mount may show a part of the hierarchy.

    >>> _below("/", "/a/b"), _below("/a", "/a/b"), _below("/a", "/c"), _below("/", "/../c")
    ('a/b', 'b', '.', '.')
    """
    inside = os.path.relpath(path, root)
    return "." if inside.startswith("..") or "/.." in path else inside


def _find_version1(proc: Path) -> Version1:
    bases: dict[str, Path] = {}
    for hierarchy in _hierarchies(proc):
        if hierarchy.kind == "cgroup":
            for name in hierarchy.controllers.intersection(version1.CONTROLLERS):
                bases.setdefault(name, hierarchy.own)
    missing = sorted(set(version1.CONTROLLERS) - set(bases))
    if missing:
        raise CgroupsUnusable(f"version 1: {', '.join(missing)} not mounted")
    return _tried(Version1({name: bases[name] for name in version1.CONTROLLERS}))


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
    """Have the groups in a folder limited; `CgroupsUnusable` where that was not handed to us."""
    try:
        offered = (folder / "cgroup.controllers").read_text().split()
        missing = [name for name in version2.CONTROLLERS if name not in offered]
        if missing:
            raise CgroupsUnusable(f"version 2: {folder} has no controller {', '.join(missing)}")
        switch = folder / "cgroup.subtree_control"
        for name in version2.CONTROLLERS:
            if name not in switch.read_text().split():
                put(switch, f"+{name}")
    except OSError as error:
        raise CgroupsUnusable(f"version 2: {folder}: {error.strerror}") from error


def _tried(place: Place) -> Place:
    """The place itself, once a group was made there and processes may enter it."""
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
