"""Sandboxes that a guardian process looks after, seen from the host."""

import asyncio
import json
import os
import re
import select
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from practicum.core.command import SandboxSpec
from practicum.core.errors import EnvironmentFailure, UserError
from practicum.sandboxes.cgroups.finding import find_cgroups
from practicum.sandboxes.guarded.guardian import FOLDER_PREFIX
from practicum.sandboxes.served import ServedSandbox

__all__ = ["GuardedSandboxes", "sweep_folders"]

GUARDIAN = "practicum.sandboxes.guarded.guardian"
HELLO_LIMIT = 65_536
LEAVE_S = 15.0
OWNED = re.compile(re.escape(FOLDER_PREFIX) + r"(\d+)-.+")


class GuardedSandboxes:
    """Has a guardian for each sandbox; `code` only, since there is one root for all.

    Commands run in a folder of their own, whose path on the host is their home: name files in it
    by relative paths.
    """

    def __init__(self, kind: str, *, confines: bool) -> None:
        self._kind = kind
        self._confines = confines
        self._guardians = Guardians()
        self._open: set[ServedSandbox] = set()
        self._has_swept = False

    @property
    def kind(self) -> str:
        """See `core.interfaces.Sandboxes`."""
        return self._kind

    async def open(self, spec: SandboxSpec) -> ServedSandbox:
        """See `core.interfaces.Sandboxes`."""
        if spec.profile != "code":
            raise UserError(
                f"sandboxes of kind {self._kind!r} have no profile {spec.profile!r}; "
                "they have only 'code'; for machines set the kind to bubblewrap, docker or podman"
            )
        if not self._has_swept:
            self._has_swept = True
            await asyncio.to_thread(_sweep)
        connection, hello = self._guardians.new(spec, confines=self._confines)
        try:
            told = await asyncio.to_thread(_told, hello)
        except BaseException:
            connection.close()
            os.close(hello)
            raise
        connection.setblocking(False)

        async def leave() -> None:
            self._open.discard(box)
            await asyncio.to_thread(_wait_for_end, hello, int(told["pid"]))

        box = ServedSandbox(
            connection,
            kind=self._kind,
            home=told["folder"],
            output_bytes=spec.output_bytes,
            oom_file=told["oom_file"],
            on_close=leave,
        )
        self._open.add(box)
        try:
            await box.wait_until_ready()
        except BaseException:
            await box.close()
            raise
        return box

    async def close(self) -> None:
        """See `core.interfaces.Sandboxes`."""
        await asyncio.gather(*(box.close() for box in tuple(self._open)))
        self._guardians.close()


class Guardians:
    """The process that forks guardians, started when the first one is wanted."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._line: socket.socket | None = None

    def new(self, spec: SandboxSpec, *, confines: bool) -> tuple[socket.socket, int]:
        """The connection to a new guardian, and where its first line comes from."""
        ours, theirs = socket.socketpair()
        told, tell = os.pipe()
        try:
            asked = {"spec": asdict(spec), "confines": confines, "place": tempfile.gettempdir()}
            with theirs:
                self._ask(json.dumps(asked).encode(), [theirs.fileno(), tell])
        except BaseException:
            ours.close()
            os.close(told)
            raise
        finally:
            os.close(tell)
        return ours, told

    def _ask(self, request: bytes, fds: list[int]) -> None:
        """A process that was killed is replaced; its guardians live on."""
        for is_last in (False, True):
            if self._line is None:
                self._start()
            assert self._line is not None
            try:
                socket.send_fds(self._line, [request], fds)
                return
            except (BrokenPipeError, ConnectionResetError) as error:
                self.close()
                if is_last:
                    raise EnvironmentFailure(f"no guardian can be started: {error}") from error

    def _start(self) -> None:
        self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", GUARDIAN, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                # No variable of the host: commands of a guardian may see what it was given.
                env={
                    "PATH": "/usr/local/bin:/usr/bin:/bin",
                    "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
                    # It forks, so it must have one thread; this library would start more.
                    "OPENBLAS_NUM_THREADS": "1",
                },
                start_new_session=True,
            )

    def close(self) -> None:
        """Start no more; those that are there stay until their sandboxes are closed."""
        if self._line is not None:
            self._line.close()
            self._line = None
        if self._process is not None:
            try:
                self._process.wait(LEAVE_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None


def _told(hello: int) -> dict[str, str]:
    """The guardian's first line; `EnvironmentFailure` with its reason when there is no sandbox."""
    line = b""
    while not line.endswith(b"\n"):
        piece = os.read(hello, HELLO_LIMIT)
        if not piece:
            raise EnvironmentFailure("the process that looks after a sandbox ended at once")
        line += piece
    told: dict[str, str] = json.loads(line)
    if "failed" in told:
        raise EnvironmentFailure(f"no sandbox: {told['failed']}")
    return told


def _wait_for_end(hello: int, pid: int) -> None:
    """It leaves when its connection closes, takes everything with it, and is gone at the end."""
    if not select.select([hello], [], [], LEAVE_S)[0]:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    os.close(hello)


def _sweep() -> None:
    cgroups = find_cgroups()
    if cgroups is not None:
        cgroups.sweep()
    sweep_folders(Path(tempfile.gettempdir()))


def sweep_folders(place: Path) -> list[str]:
    """Remove the folders that guardians who were killed left behind; their names.

    Only real folders of our own: anyone may put a link of such a name where all may write.
    """
    swept: list[str] = []
    for entry in place.iterdir():
        match = OWNED.fullmatch(entry.name)
        if match is None or Path(f"/proc/{match[1]}").exists():
            continue
        with suppress(OSError):
            known = entry.lstat()
            if stat.S_ISDIR(known.st_mode) and known.st_uid == os.geteuid():
                shutil.rmtree(entry, ignore_errors=True)
                swept.append(entry.name)
    return sorted(swept)
