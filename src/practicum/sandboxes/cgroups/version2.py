"""Control groups of version 2: one hierarchy of folders for all controllers."""

import time
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

__all__ = ["CONTROLLERS", "Group2", "Version2"]

CONTROLLERS = ("memory", "pids", "cpu")
"""Groups are frozen and killed without one."""


@dataclass(frozen=True, slots=True)
class Group2:
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

    def processes(self) -> list[int]:
        """Who is inside."""
        return pids_in(self.folder / "cgroup.procs")

    def oom_kills(self) -> int:
        """From the kernel's own count."""
        return counted(self.oom_file, "oom_kill")

    def freeze(self) -> None:
        """The events file says when the last one stands still."""
        until = time.monotonic() + KILL_TIMEOUT_S
        put(self.folder / "cgroup.freeze", "1")
        while counted(self.folder / "cgroup.events", "frozen") != 1:
            if time.monotonic() > until:
                raise TimeoutError(f"the processes in {self.name} cannot be held still")
            time.sleep(POLL_S)

    def thaw(self) -> None:
        """Let them go on."""
        put(self.folder / "cgroup.freeze", "0")

    def kill(self, timeout_s: float = KILL_TIMEOUT_S) -> bool:
        """By the kernel at once, or, where it is older than 5.14, again and again."""
        until = time.monotonic() + timeout_s
        switch = self.folder / "cgroup.kill"
        while pids := self.processes():
            if switch.exists():
                put(switch, "1")
            else:
                kill_all(pids)
            if time.monotonic() > until:
                return False
            time.sleep(POLL_S)
        return True

    def remove(self) -> bool:
        """See `Cgroup.remove`."""
        return taken_away(self.folder)


@dataclass(frozen=True, slots=True)
class Version2:
    """The one hierarchy of version 2, and the folder in which groups may be made."""

    base: Path

    @property
    def version(self) -> int:
        """The new form."""
        return 2

    def create(self, name: str, spec: SandboxSpec) -> Group2:
        """One folder, made whole or not at all."""
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
        names = sorted(left_behind(self.base, prefix))
        for name in names:
            group = Group2(self.base / name)
            group.kill()
            group.remove()
        return names
