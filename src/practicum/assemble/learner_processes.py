"""The processes of a run that learns in several: started here or by a launcher, met, and ended.

`--processes N` starts N - 1 more of this program. Under torchrun or accelerate's launcher they are
there already, by the same command line. Either way rank 0 is the run, and the others are replicas
of its policy that know nothing but what rank 0 sends them.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from practicum.core.errors import MissingExtra, PracticumError, UserError

if TYPE_CHECKING:
    from practicum.engine.learning.process_group import ProcessGroup

MEETING = "PRACTICUM_MEETING"
"""Environment variable with the folder in which processes that we have started meet."""

LAST_WORDS_S = 10.0
"""How long after a process was lost we wait to see it end, and for the others to end by
themselves."""

LOOPBACK = {"linux": "lo", "darwin": "lo0"}


@dataclass(frozen=True, slots=True)
class Launch:
    """This process among those that a launcher has started."""

    rank: int
    size: int
    meeting: str
    """Where they meet, as `torch.distributed` takes it."""


def launched() -> Launch | None:
    """What a launcher says of this process; None where it is alone.

    Raises:
        UserError: it says something that cannot be.
    """
    told = {name: os.environ.get(name, "") for name in ("WORLD_SIZE", "RANK", "LOCAL_WORLD_SIZE")}
    size = int(told["WORLD_SIZE"]) if told["WORLD_SIZE"].isdecimal() else 1
    if size == 1:
        return None
    folder = os.environ.get(MEETING, "")
    if not told["RANK"].isdecimal() or not (folder or os.environ.get("MASTER_ADDR")):
        raise UserError(
            f"a launcher has started this process as one of {size} (WORLD_SIZE), and has not said "
            f"which (RANK) or where they meet (MASTER_ADDR); type practicum train --processes "
            f"{size}, or take torchrun or accelerate launch"
        )
    if told["LOCAL_WORLD_SIZE"] not in ("", str(size)):
        raise UserError(
            f"a launcher has started {size} processes (WORLD_SIZE) on several machines, "
            f"{told['LOCAL_WORLD_SIZE']} on each (LOCAL_WORLD_SIZE), and those of a run are on one "
            "machine; take one, as with --nnodes 1"
        )
    return Launch(int(told["RANK"]), size, f"file://{folder}/meeting" if folder else "env://")


@contextmanager
def learner_processes(count: int) -> "Iterator[ProcessGroup | None]":
    """The others that learn with this process, for as long as the block lasts.

    Args:
        count: How many processes there are to be with this one; where a launcher has started them,
            as many as it has.
    """
    launch = launched()
    if launch is None and count == 1:
        yield None
        return
    MissingExtra.unless("torch", "train", "training in several processes")
    if launch is not None:
        _check_agreed(count, launch)
        with _led(launch) as group:
            yield group
        return
    started = StartedProcesses(count)
    try:
        started.wait_until_ready()
        with _led(started.lead, started) as group:
            yield group
        started.join()
    finally:
        started.end()


def _check_agreed(count: int, launch: Launch) -> None:
    if launch.rank or count == 1:
        raise UserError(
            f"a launcher has started this program as one of {launch.size} (WORLD_SIZE), and each "
            "would train a run of its own; leave out torchrun or accelerate launch, and give "
            f"hardware.processes={launch.size}"
        )
    if count != launch.size:
        raise UserError(
            f"hardware.processes = {count}, and a launcher has started {launch.size} (WORLD_SIZE); "
            f"leave out the launcher, or give hardware.processes={launch.size}"
        )


@contextmanager
def _led(launch: Launch, started: "StartedProcesses | None" = None) -> "Iterator[ProcessGroup]":
    """The group as rank 0 has it; at the end the others are told that it is over."""
    from practicum.engine.compute_thread import computed
    from practicum.engine.learning.process_group import ProcessGroup, ProcessLost

    _stay_on_this_machine()
    why_lost = started.why_lost if started else str
    group = computed(ProcessGroup)(launch.rank, launch.size, launch.meeting, why_lost)
    try:
        yield group
    finally:
        with suppress(ProcessLost):
            if not group.is_broken:
                computed(group.send)([None] * launch.size)
        computed(group.leave)()


def follow_leader(launch: Launch) -> None:
    """What a process of any other rank does: learn what rank 0 orders, until the run ends."""
    from practicum.assemble.build_policy import ReplicaOrder, build_replica
    from practicum.engine.compute_thread import computed
    from practicum.engine.learning.data_parallel import follow
    from practicum.engine.learning.process_group import ProcessGroup, ProcessLost

    # Ctrl-C reaches every process of a terminal; what becomes of the run is for rank 0 to say.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _stay_on_this_machine()
    folder = os.environ.get(MEETING, "")
    if folder:
        (Path(folder) / f"ready-{launch.rank}").touch()
    try:
        group = computed(ProcessGroup)(launch.rank, launch.size, launch.meeting)
        order = computed(group.receive)()
        if isinstance(order, ReplicaOrder):
            follow(build_replica(order, group), group)
        computed(group.leave)()
    except ProcessLost:
        if folder:
            shutil.rmtree(folder, ignore_errors=True)  # rank 0 may be the one that is lost
        sys.exit(1)  # it says why, once for all of them


def _stay_on_this_machine() -> None:
    """Let processes listen to no one outside; by default gloo takes the machine's own address."""
    if sys.platform in LOOPBACK:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", LOOPBACK[sys.platform])


@dataclass(slots=True)
class StartedProcesses:
    """The other ranks of a run, started by this process."""

    count: int
    """How many there are with this one."""
    folder: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="practicum-learn-")))
    _running: dict[int, "subprocess.Popen[bytes]"] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for rank in range(1, self.count):
            told = {"RANK": rank, "LOCAL_RANK": rank}
            told |= {"WORLD_SIZE": self.count, "LOCAL_WORLD_SIZE": self.count}
            environment = {**os.environ, MEETING: str(self.folder)}
            environment |= {name: str(value) for name, value in told.items()}
            command = [sys.executable, "-m", "practicum", "train"]
            self._running[rank] = subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
            )

    @property
    def lead(self) -> Launch:
        """This process among them."""
        return Launch(0, self.count, f"file://{self.folder}/meeting")

    def wait_until_ready(self) -> None:
        """Wait until all are there; raises `PracticumError` where one has ended before."""
        waiting = set(self._running)
        while waiting:
            waiting = {rank for rank in waiting if not (self.folder / f"ready-{rank}").exists()}
            if waiting and (ended := self._ended()):
                raise PracticumError(f"learner {ended} before the run began; start it again")
            time.sleep(0.05)

    def why_lost(self) -> str:
        """Which processes have ended and how, once that is seen; empty where none has."""
        until = time.monotonic() + LAST_WORDS_S
        while time.monotonic() < until and not self._ended():
            time.sleep(0.05)
        return self._ended()

    def _ended(self) -> str:
        codes = {rank: process.poll() for rank, process in self._running.items()}
        ended = {rank: code for rank, code in codes.items() if code is not None}
        if not ended:
            return ""
        # The first to go takes the others with it, which exit with 1.
        rank = min(ended, key=lambda rank: (ended[rank] == 1, rank))
        return f"process {rank} (pid {self._running[rank].pid}) {_how_ended(ended[rank])}"

    def join(self) -> None:
        """Wait until all have ended, now that they were told to."""
        until = time.monotonic() + LAST_WORDS_S
        for process in self._running.values():
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(0.1, until - time.monotonic()))

    def end(self) -> None:
        """End whatever still runs, and remove the folder."""
        for process in self._running.values():
            if process.poll() is None:
                process.kill()
            process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def _how_ended(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    with suppress(ValueError):
        return f"was killed by {signal.Signals(-code).name}"
    return f"was killed by signal {-code}"
