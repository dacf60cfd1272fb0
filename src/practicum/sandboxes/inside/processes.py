"""The processes of a sandbox, as its first process sees them."""

import _signal as signal  # type: ignore[import-not-found]  # without its enums: 6 ms a start
import os

__all__ = [
    "family_of",
    "kill_all",
    "kill_all_but",
    "let_all_go_on",
    "living",
    "resident_bytes",
    "stop_all",
]

PAGE = os.sysconf("SC_PAGE_SIZE")
KILL_ROUNDS = 1000


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


def stop_all() -> None:
    """Hold every process but this one still."""
    _signal_all(signal.SIGSTOP)


def let_all_go_on() -> None:
    """The end of `stop_all`."""
    _signal_all(signal.SIGCONT)


def _signal_all(number: int) -> None:
    try:
        os.kill(-1, number)
    except ProcessLookupError:
        pass  # there is none


def kill_all_but(spared: "set[int]") -> bool:
    """Kill what neither is in `spared` nor descends from it; False when they outran us."""
    for _ in range(KILL_ROUNDS):
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
