"""The processes of a sandbox, as its first process sees them."""

import _signal as signal  # type: ignore[import-not-found]  # without its enums: 6 ms a start
import os
import time

from practicum.sandboxes.inside.kernel import (
    PTRACE_DETACH,
    PTRACE_INTERRUPT,
    PTRACE_SEIZE,
    trace,
)

__all__ = [
    "Held",
    "family_of",
    "kill_all",
    "kill_all_but",
    "let_settle",
    "living",
    "resident_bytes",
]

PAGE = os.sysconf("SC_PAGE_SIZE")
KILL_S, LOOK_S = 3.0, 0.001
HOLD_ROUNDS = 100
TICKS = os.sysconf("SC_CLK_TCK")
YOUNG_S, SETTLE_LIMIT_S = 0.25, 0.5
STOP_AGAIN_S = 0.5


def living() -> "dict[int, int]":
    """The parent of every process but this one."""
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


def let_settle() -> None:
    """Wait until no process is so young that it may not yet be what it is about to become.

    Between the two halves of starting a program, a process still bears its parent's name.
    """
    until = time.monotonic() + SETTLE_LIMIT_S
    while time.monotonic() < until and any(age < YOUNG_S for age in _ages()):
        time.sleep(0.02)


def _ages() -> "list[float]":
    """How long each process but this one has been there, in seconds."""
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


def family_of(roots: "set[int]", parents: "dict[int, int]") -> "set[int]":
    """The roots that live, and everything that descends from them.

    >>> sorted(family_of({5}, {5: 1, 6: 5, 7: 6, 8: 1}))
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
    """Kill every process but this one; pid 1 is spared by the kernel."""
    _signal_all(signal.SIGKILL)


class Held:
    """Every process but this one, held still until `let_go`.

    A stopped process can have itself woken: a timer may send it the signal to go on. One that is
    traced cannot, so each is stopped first, which no fork escapes, and then traced.
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

    def let_go(self) -> None:
        """Let them go on, but for those that somebody else had stopped."""
        for thread in self._threads:
            trace(PTRACE_DETACH, thread)
        for pid in living().keys() - self._stopped_before:
            try:
                os.kill(pid, signal.SIGCONT)
            except ProcessLookupError:
                continue
        # No longer traced, they stop again by themselves; who looks sooner would see them run.
        until = time.monotonic() + STOP_AGAIN_S
        while time.monotonic() < until and any(
            state_of(pid) not in (b"T", b"") for pid in self._stopped_before
        ):
            time.sleep(LOOK_S)


def state_of(pid: int) -> bytes:
    """The letter by which the kernel names it; nothing when the process is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0]
    except OSError:
        return b""


def threads_of(pid: int) -> "list[int]":
    """Its threads, the first of which is the process itself."""
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
    """Kill what neither is in `spared` nor descends from it; False when they outran us.

    The dying need processor time too, so it is not all used up on looking at them.
    """
    until = time.monotonic() + KILL_S
    while time.monotonic() < until:
        parents = living()
        doomed = parents.keys() - family_of(spared, parents)
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
    """Memory held by all processes but this one; what several share is counted for each."""
    total = 0
    for pid in living():
        try:
            with open(f"/proc/{pid}/statm", "rb") as file:
                total += int(file.read().split()[1])
        except (OSError, IndexError):
            continue
    return total * PAGE
