"""Control groups of version 1: a hierarchy of folders for each controller."""

import errno
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from practicum.core.command import SandboxSpec
from practicum.sandboxes.cgroups.files import (
    KILL_TIMEOUT_S,
    PERIOD_US,
    POLL_S,
    counted,
    kill_all,
    left_behind,
    pids_in,
    put,
    quota_us,
    taken_away,
)

__all__ = ["CONTROLLERS", "Group1", "Version1"]

CONTROLLERS = ("memory", "pids", "cpu", "freezer")


@dataclass(frozen=True, slots=True)
class Group1:
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

    def processes(self) -> list[int]:
        """Who is inside, in any of the hierarchies."""
        return sorted({pid for path in self.procs_files for pid in pids_in(path)})

    def oom_kills(self) -> int:
        """From the kernel's own count."""
        return counted(self.oom_file, "oom_kill")

    def freeze(self) -> None:
        """The state reads FREEZING until the last one stands still."""
        state = self.folders["freezer"] / "freezer.state"
        until = time.monotonic() + KILL_TIMEOUT_S
        put(state, "FROZEN")
        while state.read_text().strip() != "FROZEN":
            if time.monotonic() > until:
                raise TimeoutError(f"the processes in {self.name} cannot be held still")
            time.sleep(POLL_S)

    def thaw(self) -> None:
        """Let them go on."""
        put(self.folders["freezer"] / "freezer.state", "THAWED")

    def kill(self, timeout_s: float = KILL_TIMEOUT_S) -> bool:
        """Frozen, they cannot fork between the look and the signal; they die when thawed."""
        until = time.monotonic() + timeout_s
        while pids := self.processes():
            if "freezer" in self.folders:
                with suppress(OSError):
                    self.freeze()
                kill_all(self.processes())
                self.thaw()
            else:
                kill_all(pids)
            if time.monotonic() > until:
                return False
            time.sleep(POLL_S)
        return True

    def remove(self) -> bool:
        """All folders must go."""
        gone = [taken_away(folder) for folder in dict.fromkeys(self.folders.values())]
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
        """A folder in each hierarchy, made whole or not at all."""
        group = Group1({kind: base / name for kind, base in self.bases.items()})
        made: list[Path] = []
        try:
            for folder in dict.fromkeys(group.folders.values()):
                folder.mkdir()
                made.append(folder)
            self._limit(group.folders, spec)
        except OSError:
            for folder in made:
                taken_away(folder)
            raise
        return group

    def _limit(self, folders: dict[str, Path], spec: SandboxSpec) -> None:
        memory, size = folders["memory"], str(spec.memory_mb << 20)
        put(memory / "memory.limit_in_bytes", size)
        # Memory and swap together: no swap. Kernels without this file do not account for swap.
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
            # A group above has less than is asked for here: then its limit is the one that holds.
            if error.errno != errno.EINVAL:
                raise

    def sweep(self, prefix: str = "practicum") -> list[str]:
        """A crash may have left some of the folders only."""
        names = {name for base in self.bases.values() for name in left_behind(base, prefix)}
        for name in sorted(names):
            folders = {kind: base / name for kind, base in self.bases.items()}
            group = Group1({kind: at for kind, at in folders.items() if at.is_dir()})
            if group.folders:
                group.kill()
                group.remove()
        return sorted(names)
