"""What a sandbox costs: to start and remove, for one command, for whole episodes in parallel.

Sandboxes of both profiles stand beside plain `subprocess`, which isolates nothing, and beside
podman where it is installed. An episode opens a sandbox, runs five shell commands and closes it.
The first sandbox of each side, for which a launcher starts and caches fill, is not counted.

    python benchmarks/sandbox.py
    python benchmarks/sandbox.py --rounds 20 --no-podman --json
"""

import argparse
import asyncio
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import time
import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Protocol

from rich.console import Console
from rich.table import Table

from practicum.core.command import SandboxProfile, SandboxSpec
from practicum.core.interfaces import Sandbox, Sandboxes
from practicum.sandboxes.bubblewrap.rootfs import cached_root
from practicum.sandboxes.opening import unchecked_sandboxes

COMMAND = ("bash", "-c", "echo hi")
COMMANDS = 5
PODMAN_PLAIN = ("podman",)
PODMAN_HYBRID = ("podman", "--runtime=runc", "--cgroup-manager=cgroupfs")
"""What podman needs where the kernel mounts both versions of control groups."""
PODMAN_RUN = ("--network", "none", "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024")


class Place(Protocol):
    """Where commands run."""

    async def command(self) -> None:
        """One command, to its end."""
        ...

    async def close(self) -> None:
        """Remove it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One way to run commands, and how many episodes of it go at once."""

    name: str
    open: Callable[[], Awaitable[Place]]
    parallel: int
    rounds: int
    episodes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What one side takes."""

    side: str
    rounds: int
    start_ms: float
    """Median of opening and closing together."""
    start_p95_ms: float
    command_ms: float
    command_p95_ms: float
    parallel: int
    episodes_per_s: float


class InSubprocess:
    """Commands as plain processes; there is nothing to open or close."""

    async def command(self) -> None:
        """See `Place`."""
        await _called(COMMAND)

    async def close(self) -> None:
        """See `Place`."""
        await _called(("true",))


class InSandbox:
    """Commands in a sandbox of ours."""

    def __init__(self, box: Sandbox) -> None:
        self._box = box

    async def command(self) -> None:
        """See `Place`."""
        done = await self._box.run(COMMAND, timeout_s=20)
        assert done.stdout == "hi\n", done

    async def close(self) -> None:
        """See `Place`."""
        await self._box.close()


class InPodman:
    """Commands in a container over the root file system that machines have."""

    def __init__(self, podman: Sequence[str], name: str) -> None:
        self._podman = podman
        self._name = name

    async def command(self) -> None:
        """See `Place`."""
        await _called((*self._podman, "exec", self._name, *COMMAND))

    async def close(self) -> None:
        """See `Place`."""
        await _called((*self._podman, "rm", "--force", "--time", "0", self._name))


async def _called(command: Sequence[str]) -> None:
    process = await asyncio.create_subprocess_exec(
        *command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    _, said = await process.communicate()
    if process.returncode != 0:
        raise OSError(f"{command[0]}: {said.decode(errors='replace').strip()[-200:]}")


async def open_subprocess() -> Place:
    return InSubprocess()


def opens_sandboxes(
    sandboxes: Sandboxes, profile: SandboxProfile
) -> Callable[[], Awaitable[Place]]:
    async def opened() -> Place:
        return InSandbox(await sandboxes.open(SandboxSpec(profile=profile)))

    return opened


def opens_containers(podman: Sequence[str], root: str) -> Callable[[], Awaitable[Place]]:
    async def opened() -> Place:
        name = f"practicum-benchmark-{uuid.uuid4().hex[:12]}"
        start = ("run", "--detach", "--name", name, *PODMAN_RUN, "--rootfs", f"{root}:O")
        await _called((*podman, *start, "sleep", "600"))
        return InPodman(podman, name)

    return opened


async def podman_side(arguments: argparse.Namespace) -> Side | str:
    """Podman, or why it is left out."""
    root = cached_root()
    if not arguments.podman or shutil.which("podman") is None:
        return "not asked for" if not arguments.podman else "podman is not installed"
    if root is None:
        return "there is no root file system; type: practicum sandbox build"
    reason = ""
    for podman in (PODMAN_PLAIN, PODMAN_HYBRID):
        opened = opens_containers(podman, str(root))
        try:
            place = await opened()
            await place.close()
        except OSError as error:
            reason = str(error)
            continue
        few = max(1, arguments.rounds // 5)
        return Side(name="podman", open=opened, parallel=2, rounds=few, episodes=few)
    return reason


async def measured(side: Side) -> Row:
    """Start-up, commands and episodes of one side."""
    starts, commands = [], []
    await _episode(side)
    for _ in range(side.rounds):
        began = time.perf_counter()
        place = await side.open()
        await place.close()
        starts.append(time.perf_counter() - began)
    place = await side.open()
    for _ in range(side.rounds):
        began = time.perf_counter()
        await place.command()
        commands.append(time.perf_counter() - began)
    await place.close()
    return Row(
        side=side.name,
        rounds=side.rounds,
        start_ms=1e3 * statistics.median(starts),
        start_p95_ms=1e3 * percentile(starts, 0.95),
        command_ms=1e3 * statistics.median(commands),
        command_p95_ms=1e3 * percentile(commands, 0.95),
        parallel=side.parallel,
        episodes_per_s=await _episodes_per_s(side),
    )


async def _episode(side: Side) -> None:
    place = await side.open()
    try:
        for _ in range(COMMANDS):
            await place.command()
    finally:
        await place.close()


async def _episodes_per_s(side: Side) -> float:
    turn = asyncio.Semaphore(side.parallel)

    async def one() -> None:
        async with turn:
            await _episode(side)

    began = time.perf_counter()
    await asyncio.gather(*(one() for _ in range(side.episodes)))
    return side.episodes / (time.perf_counter() - began)


def percentile(values: Sequence[float], part: float) -> float:
    """The smallest value that so large a part of them does not exceed.

    >>> percentile([3.0, 1.0, 2.0, 4.0], 0.5)
    2.0
    """
    ordered = sorted(values)
    return ordered[max(0, -int(-part * len(ordered) // 1) - 1)]


async def measure(arguments: argparse.Namespace) -> tuple[list[Row], dict[str, str]]:
    """All sides one after the other, and why any is missing."""
    many = {"rounds": arguments.rounds, "episodes": arguments.episodes}
    sandboxes = unchecked_sandboxes("bubblewrap", lambda line: print(line, file=sys.stderr))
    code, machine = (opens_sandboxes(sandboxes, profile) for profile in ("code", "machine"))
    sides = [
        Side(name="subprocess", open=open_subprocess, parallel=2, **many),
        Side(name="bubblewrap code", open=code, parallel=2, **many),
    ]
    left_out = {}
    if arguments.machine:
        sides.append(Side(name="bubblewrap machine", open=machine, parallel=16, **many))
    podman = await podman_side(arguments)
    if isinstance(podman, str):
        left_out["podman"] = podman
    else:
        sides.append(podman)
    try:
        return [await measured(side) for side in sides], left_out
    finally:
        await sandboxes.close()


def print_table(rows: list[Row], left_out: dict[str, str], hardware: str) -> None:
    table = Table(title=f"Sandboxes, medians of {rows[0].rounds} rounds; {hardware}")
    table.add_column("side")
    headings = ("start + teardown ms", "p95", "bash command ms", "p95", "parallel", "episodes/s")
    for heading in headings:
        table.add_column(heading, justify="right")
    for row in rows:
        numbers = (row.start_ms, row.start_p95_ms, row.command_ms, row.command_p95_ms)
        cells = [f"{number:.1f}" for number in numbers]
        table.add_row(row.side, *cells, str(row.parallel), f"{row.episodes_per_s:.1f}")
    Console().print(table)
    for name, reason in left_out.items():
        print(f"{name} is left out: {reason}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Times sandboxes.")
    parser.add_argument("--rounds", type=int, default=50, help="rounds to count")
    parser.add_argument("--episodes", type=int, default=60, help="episodes of five commands")
    parser.add_argument("--machine", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--podman", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args()
    rows, left_out = asyncio.run(measure(arguments))
    hardware = f"{os.cpu_count()} processors, {platform.system()} {platform.release()}"
    if arguments.json:
        found = {"hardware": hardware, "left_out": left_out, "rows": [asdict(r) for r in rows]}
        print(json.dumps({"command": " ".join(["python", *sys.argv]), **found}))
    else:
        print_table(rows, left_out, hardware)


if __name__ == "__main__":
    main()
