"""Runs every attack in sandboxes of one profile and prints what came of each as JSON.

A program of its own, so that an ordinary user can run the same attacks as root:
`python -m tests.sandboxes.run_attacks machine`.
"""

import asyncio
import json
import os
import secrets
import sys
import time
from pathlib import Path
from typing import Any

from tests.sandboxes import attacks_kernel, attacks_limits, attacks_reach, attacks_rights
from tests.sandboxes.host import ATTACKS, Attack, Confined, Host, NothingToTry, spec_for

from practicum.core.command import SandboxProfile
from practicum.core.interfaces import Sandboxes
from practicum.sandboxes.opening import unchecked_sandboxes

__all__ = ["ATTACKS", "main"]

LISTS = (attacks_reach, attacks_kernel, attacks_rights, attacks_limits)
AT_ONCE = 4
LATE_S = 30.0
"""How long after its limit a command may be answered: the host's own grace, and a busy machine."""


async def tried(attack: Attack, sandboxes: Sandboxes, profile: SandboxProfile) -> dict[str, Any]:
    """What came of one attack, in a fresh sandbox against a fresh host."""
    began = time.monotonic()
    box = await sandboxes.open(spec_for(profile))
    attacker = Confined(box, profile)
    seen, skip = "", None
    try:
        with Host(profile=profile, sandboxes=sandboxes) as host:
            seen = await attack.tried(attacker, host)
    except NothingToTry as error:
        skip = str(error)
    except Exception as error:  # noqa: BLE001 - told to the test, which fails on it
        seen = f"{type(error).__name__}: {error}"
    finally:
        await box.close()
    if attacker.late_s > LATE_S:
        seen += f" (a command was answered {attacker.late_s:.1f} s late)"
    return {
        "seen": seen,
        "skip": skip,
        "statuses": attacker.statuses,
        "seconds": time.monotonic() - began,
    }


async def all_tried(profile: SandboxProfile, names: list[str]) -> dict[str, Any]:
    """Every attack's outcome, and the processes that started the sandboxes."""
    os.environ["ATTACKED_SECRET"] = secrets.token_hex(16)
    sandboxes = unchecked_sandboxes("bubblewrap", lambda line: print(line, file=sys.stderr))
    turn = asyncio.Semaphore(AT_ONCE)

    async def one(name: str) -> tuple[str, dict[str, Any]]:
        async with turn:
            return name, await tried(ATTACKS[name], sandboxes, profile)

    try:
        first = names[:1]
        found = [await one(name) for name in first]
        launchers = launchers_of(os.getpid())
        found += await asyncio.gather(*(one(name) for name in names[1:]))
    finally:
        await sandboxes.close()
    return {"uid": os.geteuid(), "launchers": launchers, "attacks": dict(found)}


def launchers_of(owner: int) -> list[int]:
    """The launchers that a process started."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            if (
                parent == owner
                and b"practicum.sandboxes.bubblewrap.launcher" in (path / "cmdline").read_bytes()
            ):
                found.append(int(path.name))
        except OSError:
            continue
    return found


def main() -> None:
    """Arguments: the profile, and attacks, all of them where none is named."""
    profile, *names = sys.argv[1:]
    assert profile in ("code", "machine")
    print(json.dumps(asyncio.run(all_tried(profile, names or list(ATTACKS)))))


if __name__ == "__main__":
    main()
