"""The kinds `landlock` and `process`: sandboxes under a guardian process, without namespaces.

`landlock` is for machines where namespaces are forbidden and nothing can be installed. Each command
confines itself before its exec: it may read and execute the system's programs, write files in one
folder, and open no socket. What is weaker than with namespaces:

* Disk space is not limited by the kernel but polled ten times a second, and deleted files that are
  still open are not counted.
* Existence, size and times of host files can be seen, but not their content. The times of a
  world-writable file can be set to now.
* Without root the sandbox has our user id: it cannot change modes, owners and times by path, not
  even in its own folder.
* Without cgroups, memory is polled ten times a second too.

`process` isolates nothing and only limits time, output and, with cgroups, memory, processes and CPU
time: a command can read, change and kill whatever its user can, checkers included.
"""

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
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from practicum.core.command import SandboxSpec
from practicum.core.errors import EnvironmentFailure, UserError
from practicum.sandboxes.cgroups import find_cgroups
from practicum.sandboxes.guarded.confinement import why_no_landlock
from practicum.sandboxes.guarded.guardian import FOLDER_PREFIX
from practicum.sandboxes.seccomp import native_architecture
from practicum.sandboxes.served_sandbox import ServedSandbox, ServedSandboxes

GUARDIAN = "practicum.sandboxes.guarded.guardian"
HELLO_LIMIT = 65_536
LEAVE_S = 60.0
OWNED = re.compile(re.escape(FOLDER_PREFIX) + r"(\d+)-.+")


class GuardedSandboxes(ServedSandboxes):
    """One guardian per sandbox. Only the profile `code`: there is no root file system of its own.

    Commands run in a folder of the host, so their files must be named by relative paths.
    """

    def __init__(self, kind: str, *, confines: bool) -> None:
        super().__init__(kind)
        self._confines = confines
        self._guardians = Guardians()
        self._has_swept = False

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
            facts = await asyncio.to_thread(_read_hello, hello)
        except BaseException:
            connection.close()
            os.close(hello)
            raise

        async def leave() -> None:
            await asyncio.to_thread(_wait_for_end, hello, int(facts["pid"]))

        return await self._serve(
            connection,
            home=facts["folder"],
            output_bytes=spec.output_bytes,
            oom_file=facts["oom_file"],
            leave=leave,
        )

    async def close(self) -> None:
        """See `core.interfaces.Sandboxes`."""
        await asyncio.gather(*(box.close() for box in tuple(self._open)))
        self._guardians.close()


class Guardians:
    """The process that forks guardians, started with the first of them."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: socket.socket | None = None

    def new(self, spec: SandboxSpec, *, confines: bool) -> tuple[socket.socket, int]:
        """The connection to a new guardian, and the pipe of its hello line."""
        ours, theirs = socket.socketpair()
        hello_r, hello_w = os.pipe()
        try:
            asked = {"spec": asdict(spec), "confines": confines, "place": tempfile.gettempdir()}
            with theirs:
                self._ask(json.dumps(asked).encode(), [theirs.fileno(), hello_w])
        except BaseException:
            ours.close()
            os.close(hello_r)
            raise
        finally:
            os.close(hello_w)
        return ours, hello_r

    def _ask(self, request: bytes, fds: list[int]) -> None:
        """Send a request; a process that was killed is replaced, and its guardians live on."""
        for is_last in (False, True):
            if self._channel is None:
                self._start()
            assert self._channel is not None
            try:
                socket.send_fds(self._channel, [request], fds)
                return
            except (BrokenPipeError, ConnectionResetError) as error:
                self.close()
                if is_last:
                    raise EnvironmentFailure(f"no guardian can be started: {error}") from error

    def _start(self) -> None:
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", GUARDIAN, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                # No variable of ours: commands can read the guardian's environment in /proc.
                env={
                    "PATH": "/usr/local/bin:/usr/bin:/bin",
                    "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
                    # It forks, so it must be single-threaded; OpenBLAS would start threads.
                    "OPENBLAS_NUM_THREADS": "1",
                },
                start_new_session=True,
            )

    def close(self) -> None:
        """Stop the process; guardians stay until their sandboxes are closed."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        if self._process is not None:
            try:
                self._process.wait(LEAVE_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None


def _read_hello(hello: int) -> dict[str, str]:
    """The guardian's hello line; `EnvironmentFailure` if it could not make a sandbox."""
    line = b""
    while not line.endswith(b"\n"):
        piece = os.read(hello, HELLO_LIMIT)
        if not piece:
            raise EnvironmentFailure("the process that looks after a sandbox ended at once")
        line += piece
    facts: dict[str, str] = json.loads(line)
    if "failed" in facts:
        raise EnvironmentFailure(f"no sandbox: {facts['failed']}")
    return facts


def _wait_for_end(hello: int, pid: int) -> None:
    """Wait until the guardian has cleaned up, which closes `hello`; kill it after too long."""
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
    """Remove the folders of guardians that were killed; their names.

    Only real folders that we own: in /tmp another user may put a symlink of such a name.
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


class LandlockSandboxes(GuardedSandboxes):
    """The kind `landlock`; `UserError` where this machine cannot hold one."""

    def __init__(self) -> None:
        native_architecture()
        reason = why_no_landlock()
        if reason is not None:
            raise UserError(
                f"sandboxes of kind 'landlock' cannot be had: {reason}; other kinds are "
                "'bubblewrap', 'docker' and 'podman'; type `practicum doctor --sandbox` to see "
                "which work here"
            )
        super().__init__("landlock", confines=True)


ALLOW_VARIABLE = "PRACTICUM_ALLOW_UNSAFE_SANDBOX"


class ProcessSandboxes(GuardedSandboxes):
    """The kind `process`; `UserError` unless the environment allows it as well."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        environment = os.environ if environment is None else environment
        if environment.get(ALLOW_VARIABLE) != "1":
            raise UserError(
                "sandboxes of kind 'process' isolate nothing: commands of the model would run as "
                "you; allowed without further word are 'auto', 'bubblewrap', 'landlock', 'docker' "
                f"and 'podman'; if this machine may be lost, type: export {ALLOW_VARIABLE}=1"
            )
        if sys.platform != "linux":
            raise UserError(
                f"sandboxes of kind 'process' do not run on {sys.platform}; they need Linux; "
                "set the kind to docker or podman"
            )
        super().__init__("process", confines=False)
