"""What the host sees of a process, from outside: through its own /proc, never by what is said."""

import ctypes
import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

__all__ = [
    "KERNEL_FILES",
    "NAMESPACES",
    "OpenFile",
    "Seen",
    "interfaces_of",
    "is_harmless_device",
    "kernel_state",
    "pids",
    "pids_with",
    "resident_mb",
    "set_apart",
]

NAMESPACES = ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup")
ALL_NAMESPACES = (*NAMESPACES, "time", "pid_for_children", "time_for_children")
CLONE_NEWUSER = 0x10000000
HARMLESS = {os.makedev(1, minor) for minor in (3, 5, 7, 8, 9)} | {
    os.makedev(5, minor) for minor in (0, 2)
}
"""null, zero, full, random, urandom, tty and ptmx."""
PSEUDO_TERMINALS = range(136, 144)
KERNEL_FILES = (
    *("core_pattern", "core_uses_pid", "ctrl-alt-del", "domainname", "hostname", "modprobe"),
    *("panic", "pid_max", "poweroff_cmd", "printk", "sysrq", "threads-max"),
)
STARTED_FIELD, NICE_FIELD, POLICY_FIELD, TERMINAL_FIELD = 19, 16, 38, 4
"""Places in /proc/PID/stat, counted from the state of the process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenFile:
    """A file that a process holds open."""

    number: int
    link: str
    mode: int
    device: int
    identity: tuple[int, int]
    """File system and inode: the same for two names of one file."""
    is_written: bool

    @property
    def is_device(self) -> bool:
        """Whether it is a character or block device."""
        return stat.S_ISCHR(self.mode) or stat.S_ISBLK(self.mode)


@dataclass(frozen=True, slots=True)
class Seen:
    """One process."""

    pid: int

    @property
    def folder(self) -> Path:
        """Where the host's kernel tells of it."""
        return Path(f"/proc/{self.pid}")

    def status(self, name: str) -> str:
        """A line of its status."""
        for line in (self.folder / "status").read_text().splitlines():
            key, _, value = line.partition(":")
            if key == name:
                return value.strip()
        raise KeyError(name)

    def _stat(self, field: int) -> str:
        return (self.folder / "stat").read_text().rpartition(")")[2].split()[field]

    @property
    def parent(self) -> "Seen":
        """Who started it, or has taken it over."""
        return Seen(int(self.status("PPid")))

    @property
    def started(self) -> str:
        """When: together with the pid it tells one process from all others."""
        return self._stat(STARTED_FIELD)

    @property
    def niceness(self) -> int:
        """Less is more of the processor."""
        return int(self._stat(NICE_FIELD))

    @property
    def policy(self) -> int:
        """How it is scheduled; 0 is like everyone."""
        return int(self._stat(POLICY_FIELD))

    @property
    def terminal(self) -> int:
        """Its controlling terminal; 0 is none."""
        return int(self._stat(TERMINAL_FIELD))

    def is_running(self) -> bool:
        """Neither gone nor stopped."""
        try:
            return self._stat(0) not in ("T", "t", "Z", "X")
        except OSError:
            return False

    def files(self) -> list[OpenFile]:
        """What it holds open."""
        try:
            return files_of(self.pid)
        except PermissionError:
            found = looked_up("files", self.pid)
            return [OpenFile(**{**one, "identity": tuple(one["identity"])}) for one in found]

    def environment(self) -> str:
        """What it was started with."""
        try:
            return (self.folder / "environ").read_text()
        except PermissionError:
            return str(looked_up("environment", self.pid))

    def files_beyond(self) -> list[OpenFile]:
        """What it holds open beside standard input, output and error."""
        return [file for file in self.files() if file.number > 2]

    def namespaces(self) -> dict[str, str]:
        """The kernel's names of those it is in, and of those its children will be in."""
        found = dict.fromkeys(ALL_NAMESPACES, "one that has no process yet")
        for name in found:
            with suppress(FileNotFoundError):
                found[name] = os.readlink(self.folder / "ns" / name)
        return found

    def mounts(self) -> list[str]:
        """Its mounts, without the numbers that a copy of a namespace has of its own."""
        lines = (self.folder / "mountinfo").read_text().splitlines()
        return sorted(" ".join(line.split()[3:]) for line in lines)

    def root(self) -> tuple[int, int]:
        """Which folder is its root."""
        found = os.stat(self.folder / "root")
        return found.st_dev, found.st_ino

    def limits(self) -> dict[str, float]:
        """The hard limits."""
        found = {}
        for line in (self.folder / "limits").read_text().splitlines()[1:]:
            name, rest = line[:26].strip(), line[26:].split()
            found[name] = float("inf") if rest[1] == "unlimited" else float(rest[1])
        return found

    def groups(self) -> list[str]:
        """The control groups it is in."""
        return sorted((self.folder / "cgroup").read_text().splitlines())

    def badness(self) -> int:
        """How willingly the kernel ends it when memory is short."""
        return int((self.folder / "oom_score_adj").read_text())


def files_of(pid: int) -> list[OpenFile]:
    """What a process holds open, for whoever may look."""
    found = []
    for name in os.listdir(f"/proc/{pid}/fd"):
        path = f"/proc/{pid}/fd/{name}"
        with suppress(FileNotFoundError):
            info = Path(f"/proc/{pid}/fdinfo/{name}").read_text()
            flags = next(line for line in info.splitlines() if line.startswith("flags:"))
            what = os.stat(path)
            found.append(
                OpenFile(
                    number=int(name),
                    link=os.readlink(path),
                    mode=what.st_mode,
                    device=what.st_rdev,
                    identity=(what.st_dev, what.st_ino),
                    is_written=int(flags.split()[1], 8) & os.O_ACCMODE != os.O_RDONLY,
                )
            )
    return found


def looked_up(what: str, pid: int) -> Any:
    """Look as the owner of the process's user namespace, which has every right in it.

    An ordinary user's machine has users of its own, and their processes are not simply the user's.
    """
    command = [sys.executable, "-m", "tests.sandboxes.looking", what, str(pid)]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)


def main() -> None:
    """Arguments: what to look at, and the process; of the host's namespaces only one is left."""
    what, pid = sys.argv[1], int(sys.argv[2])
    fd = os.open(f"/proc/{pid}/ns/user", os.O_RDONLY)
    if ctypes.CDLL(None, use_errno=True).setns(fd, CLONE_NEWUSER) < 0:
        raise OSError(ctypes.get_errno(), "setns")
    looks: dict[str, Callable[[], Any]] = {
        "files": lambda: [asdict(file) for file in files_of(pid)],
        "environment": lambda: Path(f"/proc/{pid}/environ").read_text(),
    }
    print(json.dumps(looks[what]()))


def pids() -> list[int]:
    """Every process."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def pids_with(wanted: bytes, file: str) -> list[int]:
    """Processes anywhere on the host of which a file in /proc holds the text."""
    found = []
    for pid in pids():
        with suppress(OSError):
            if wanted in Path(f"/proc/{pid}/{file}").read_bytes():
                found.append(pid)
    return found


def resident_mb(of: list[int]) -> float:
    """Memory that processes hold of their own."""
    total = 0
    for pid in of:
        with suppress(OSError, KeyError):
            total += int(Seen(pid).status("RssAnon").split()[0])
    return total / 1024


def is_harmless_device(device: int) -> bool:
    """Whether it reaches nothing: null, zero, full, random, urandom, terminals of one's own."""
    return device in HARMLESS or os.major(device) in PSEUDO_TERMINALS


def interfaces_of(process: Seen) -> set[str]:
    """Names of its network interfaces."""
    lines = (process.folder / "net" / "dev").read_text().splitlines()[2:]
    return {line.partition(":")[0].strip() for line in lines}


def set_apart(process: Seen) -> set[str]:
    """The namespaces in which a process is not with the host."""
    own, theirs = Seen(os.getpid()).namespaces(), process.namespaces()
    return {name for name in NAMESPACES if own[name] != theirs[name]}


def kernel_state() -> dict[str, str]:
    """What could be seen of the kernel's settings, swap and mounts if they were changed.

    Of the mounts only those that attacks are aimed at: others may come and go meanwhile.
    """
    found = {name: Path(f"/proc/sys/kernel/{name}").read_text() for name in _readable()}
    for path in ("/proc/swaps", "/sys/kernel/kexec_loaded"):
        with suppress(OSError):
            lines = Path(path).read_text().splitlines()
            found[path] = " ".join(line.split()[0] for line in lines)
    targets = ("/", "/proc", "/sys", "/tmp", "/mnt", "/dev", "/dev/shm")
    lines = [line.split() for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    found["mounts"] = "\n".join(" ".join(line[3:]) for line in lines if line[4] in targets)
    return found


def _readable() -> list[str]:
    """Names of settings that an ordinary user may see too."""
    return [name for name in KERNEL_FILES if os.access(f"/proc/sys/kernel/{name}", os.R_OK)]


if __name__ == "__main__":
    main()
