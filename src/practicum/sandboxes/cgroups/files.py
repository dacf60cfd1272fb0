"""The files of control groups, read and written the same way in both of their versions."""

import os
import re
import signal
from contextlib import suppress
from pathlib import Path

from practicum.core.command import SandboxSpec

__all__ = [
    "KILL_TIMEOUT_S",
    "PERIOD_US",
    "POLL_S",
    "counted",
    "kill_all",
    "left_behind",
    "pids_in",
    "put",
    "quota_us",
    "taken_away",
]

PERIOD_US = 100_000
KILL_TIMEOUT_S = 5.0
POLL_S = 0.002


def put(path: Path, text: str) -> None:
    """Write to a file that the kernel made; never make one."""
    fd = os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


def counted(path: Path, key: str) -> int:
    """The number behind a key in a file of `key number` lines; 0 where either is missing."""
    try:
        lines = path.read_text().splitlines()
    except FileNotFoundError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.split()[:1] == [key]), 0)


def pids_in(path: Path) -> list[int]:
    """Processes in a `cgroup.procs` file; none where the group is gone."""
    try:
        return [int(line) for line in path.read_text().split()]
    except (FileNotFoundError, OSError):
        return []


def kill_all(pids: list[int]) -> None:
    """End each of them; the kernel calls one that is outside our process namespace 0."""
    for pid in pids:
        if pid > 0:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def taken_away(folder: Path) -> bool:
    """Remove an empty group; whether it is gone."""
    try:
        os.rmdir(folder)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def quota_us(spec: SandboxSpec) -> int:
    """Processor time in each period; the kernel takes no less than a millisecond."""
    return max(1_000, round(spec.cpus * PERIOD_US))


def left_behind(base: Path, prefix: str) -> set[str]:
    """Groups `<prefix>-<owner pid>-<number>` in a folder whose owner no longer lives."""
    pattern = re.compile(re.escape(prefix) + r"-(\d+)-\d+")
    names = {entry.name: pattern.fullmatch(entry.name) for entry in base.iterdir()}
    return {name for name, match in names.items() if match and not _is_alive(int(match[1]))}


def _is_alive(pid: int) -> bool:
    """A zombie waits to be buried and owns nothing any more."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in ("Z", "X")
