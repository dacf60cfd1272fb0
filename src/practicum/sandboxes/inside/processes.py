"""The processes of a sandbox, seen by its first process: list, kill, stop."""

import _signal as signal  # type: ignore[import-not-found]  # without its enums: 6 ms a start
import os
import time

from practicum.sandboxes.inside.kernel import PTRACE_DETACH, PTRACE_INTERRUPT, PTRACE_SEIZE, trace

PAGE = os.sysconf("SC_PAGE_SIZE")
KILL_S, LOOK_S = 3.0, 0.001
HOLD_ROUNDS = 100
TICKS = os.sysconf("SC_CLK_TCK")
YOUNG_S, SETTLE_LIMIT_S = 0.25, 0.5
STOP_AGAIN_S = 0.5


def living() -> "dict[int, int]":
    """Every live process but pid 1, with its parent: `{pid: ppid}`."""
    found: dict[int, int] = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and name != "1":
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    fields = file.read().rpartition(b")")[2].split()
            except OSError:
                continue  # it ended meanwhile
            if fields[0] not in (b"Z", b"X"):
                found[int(name)] = int(fields[1])
    return found


def wait_for_young() -> None:
    """Wait until no process is younger than `YOUNG_S`: it may be between fork and exec.

    Until the exec it has its parent's command line, which would mislead a checker.
    """
    until = time.monotonic() + SETTLE_LIMIT_S
    while time.monotonic() < until and any(age < YOUNG_S for age in _ages()):
        time.sleep(0.02)


def _ages() -> "list[float]":
    """Age of each process but this one, in seconds."""
    with open("/proc/uptime", "rb") as file:
        now = float(file.read().split()[0])
    found = []
    for pid in living():
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                started = int(file.read().rpartition(b")")[2].split()[19]) / TICKS
        except OSError:
            continue  # it ended meanwhile
        found.append(now - started)
    return found


def with_descendants(roots: "set[int]", parents: "dict[int, int]") -> "set[int]":
    """The live roots and all their descendants.

    >>> sorted(with_descendants({5}, {5: 1, 6: 5, 7: 6, 8: 1}))
    [5, 6, 7]
    """
    found = roots & parents.keys()
    grown = True
    while grown:
        more = {pid for pid, parent in parents.items() if parent in found} - found
        found |= more
        grown = bool(more)
    return found


def kill_all() -> None:
    """SIGKILL every process but this one: the kernel protects pid 1."""
    _signal_all(signal.SIGKILL)


class Held:
    """Every process but this one, stopped until `release`.

    A stopped process can wake itself: a timer may send it SIGCONT. A traced one cannot. So all are
    stopped first by one `kill(-1)`, which no fork escapes, and then seized by ptrace.
    """

    def __init__(self) -> None:
        self._stopped_before = {pid for pid in living() if state_of(pid) == b"T"}
        self._threads: set[int] = set()
        _signal_all(signal.SIGSTOP)
        for _ in range(HOLD_ROUNDS):
            new = [thread for pid in living() for thread in threads_of(pid)]
            new = [thread for thread in new if thread not in self._threads]
            if not new:
                break
            for thread in new:
                self._threads.add(thread)
                if trace(PTRACE_SEIZE, thread):
                    trace(PTRACE_INTERRUPT, thread)

    def release(self) -> None:
        """Resume them, except those that were stopped before."""
        for thread in self._threads:
            trace(PTRACE_DETACH, thread)
        for pid in living().keys() - self._stopped_before:
            try:
                os.kill(pid, signal.SIGCONT)
            except ProcessLookupError:
                continue
        # Those stop again once they are no longer traced; wait, or a checker may see them run.
        until = time.monotonic() + STOP_AGAIN_S
        while time.monotonic() < until and any(
            state_of(pid) not in (b"T", b"") for pid in self._stopped_before
        ):
            time.sleep(LOOK_S)


def state_of(pid: int) -> bytes:
    """The state letter in /proc/PID/stat; empty when the process is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0]
    except OSError:
        return b""


def threads_of(pid: int) -> "list[int]":
    """Ids of its threads, the main thread included."""
    try:
        return [int(name) for name in os.listdir(f"/proc/{pid}/task")]
    except OSError:
        return []


def _signal_all(number: int) -> None:
    try:
        os.kill(-1, number)
    except ProcessLookupError:
        pass  # there is none


def kill_all_but(spared: "set[int]") -> bool:
    """Kill all but `spared` and their descendants; False if they fork faster than we kill.

    Sleeps between rounds, since dying processes need CPU time too.
    """
    until = time.monotonic() + KILL_S
    while time.monotonic() < until:
        parents = living()
        doomed = parents.keys() - with_descendants(spared, parents)
        if not doomed:
            return True
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in doomed:
                try:
                    os.kill(pid, number)
                except ProcessLookupError:
                    continue
        time.sleep(LOOK_S)
    return False


def resident_bytes() -> int:
    """Resident memory of all processes but this one; shared pages count for each."""
    total = 0
    for pid in living():
        try:
            with open(f"/proc/{pid}/statm", "rb") as file:
                total += int(file.read().split()[1])
        except (OSError, IndexError):
            continue
    return total * PAGE
