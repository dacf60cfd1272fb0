"""What attacks are aimed at: harmless things of the host's, and the host's own view of them."""

import asyncio
import ctypes
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from practicum.core.command import CommandResult, CommandStatus, SandboxProfile, SandboxSpec
from practicum.core.interfaces import Sandbox, Sandboxes

__all__ = ["ATTACKS", "Attack", "Attacker", "Confined", "Host", "Unconfined", "attack"]

libc = ctypes.CDLL(None, use_errno=True)
USER_KEYRING = -4
ADD_KEY = {"x86_64": 248, "aarch64": 217}
KEYCTL = {"x86_64": 250, "aarch64": 219}
KEYCTL_UNLINK = 9
LIMITS = {"memory_mb": 96, "disk_mb": 32, "processes": 48}


@dataclass(kw_only=True)
class Host:
    """Targets that would show it if something got out; each is made for one attack."""

    profile: SandboxProfile = "code"
    sandboxes: Sandboxes | None = None
    secret: str = field(default_factory=lambda: secrets.token_hex(16))
    _closes: list[Callable[[], object]] = field(default_factory=list)

    def __enter__(self) -> "Host":
        folder = tempfile.TemporaryDirectory(prefix="attacked-")
        self._closes.append(folder.cleanup)
        self.folder = Path(folder.name)
        self.folder.chmod(0o777)
        self.readable = self.folder / "readable"
        self.private = self.folder / "private"
        for path, mode in ((self.readable, 0o644), (self.private, 0o600)):
            path.write_text(self.secret)
            path.chmod(mode)
        self.tcp = self._listening(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0))
        self.udp = self._listening(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0))
        self.abstract = self._listening(socket.AF_UNIX, socket.SOCK_STREAM, f"\0{self.secret}")
        self.path_socket = self._listening(
            socket.AF_UNIX, socket.SOCK_STREAM, str(self.folder / "socket")
        )
        (self.folder / "socket").chmod(0o777)
        self.victim = subprocess.Popen(
            ["sleep", "300"], env={"SECRET": self.secret}, stdout=subprocess.DEVNULL
        )
        self._closes.append(self._end_victim)
        return self

    def __exit__(self, *_: object) -> None:
        for close in reversed(self._closes):
            close()

    def _listening(
        self, family: socket.AddressFamily, kind: socket.SocketKind, at: object
    ) -> socket.socket:
        made = socket.socket(family, kind)
        self._closes.append(made.close)
        made.bind(at)
        if kind == socket.SOCK_STREAM:
            made.listen()
        made.setblocking(False)
        return made

    def _end_victim(self) -> None:
        self.victim.kill()
        self.victim.wait()

    def was_reached(self, listener: socket.socket) -> bool:
        """Whether somebody connected, or sent a datagram."""
        try:
            if listener.type == socket.SOCK_DGRAM:
                listener.recv(100)
            else:
                listener.accept()[0].close()
        except BlockingIOError:
            return False
        return True

    def put_key(self) -> int:
        """A key in the keyring of this user, or 0 where the kernel keeps none."""
        machine = os.uname().machine
        number = libc.syscall(
            ADD_KEY[machine], b"user", self.secret.encode(), b"1", 1, USER_KEYRING
        )
        if number > 0:
            self._closes.append(
                lambda: libc.syscall(KEYCTL[machine], KEYCTL_UNLINK, number, USER_KEYRING)
            )
        return max(0, number)

    def put_shared_memory(self) -> int:
        """The key of a segment of System V shared memory."""
        key = 1 + secrets.randbelow(2**31 - 1)
        number = libc.shmget(key, 4096, 0o1666)
        assert number >= 0
        self._closes.append(lambda: libc.shmctl(number, 0, None))
        return key

    def count_marked(self, mark: str | None = None) -> int:
        """Processes anywhere on the host whose arguments hold the mark."""
        wanted, found = (mark or self.secret).encode(), 0
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            if int(path.parent.name) not in (os.getpid(), self.victim.pid):
                with suppress(OSError):
                    found += wanted in path.read_bytes()
        return found

    async def has_none_marked(self, mark: str | None = None, within_s: float = 2.0) -> bool:
        """Whether no such process is left, or is not within a moment."""
        until = time.monotonic() + within_s
        while self.count_marked(mark):
            if time.monotonic() > until:
                return False
            await asyncio.sleep(0.02)
        return True


class Attacker(Protocol):
    """Somewhere to run an attack's script: in a sandbox, or in none to show that it works."""

    profile: SandboxProfile
    statuses: list[CommandStatus]

    async def bash(self, script: str, timeout_s: float = 10.0) -> CommandResult:
        """Run a shell script."""
        ...

    async def python(self, script: str, timeout_s: float = 10.0) -> CommandResult:
        """Run a Python program."""
        ...


class Confined:
    """Runs scripts in a sandbox and remembers what each came to."""

    def __init__(self, box: Sandbox, profile: SandboxProfile) -> None:
        self.box = box
        self.profile = profile
        self.statuses: list[CommandStatus] = []
        self.late_s = 0.0
        """By how much the slowest command outlasted its limit."""

    async def bash(self, script: str, timeout_s: float = 10.0) -> CommandResult:
        """Run a shell script."""
        return await self._run(["bash", "-c", script], timeout_s)

    async def python(self, script: str, timeout_s: float = 10.0) -> CommandResult:
        """Run a Python program."""
        return await self._run(["python3", "-I", "-S", "-u", "-c", script], timeout_s)

    async def _run(self, command: list[str], timeout_s: float) -> CommandResult:
        began = time.monotonic()
        result = await self.box.run(command, timeout_s=timeout_s)
        self.statuses.append(result.status)
        self.late_s = max(self.late_s, time.monotonic() - began - timeout_s)
        return result


class Unconfined:
    """Runs scripts as ordinary processes: the control that shows what an attack does unhindered."""

    profile: SandboxProfile = "code"

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = dict(environment)
        self.statuses: list[CommandStatus] = []

    async def bash(self, script: str, timeout_s: float = 10.0) -> CommandResult:
        """Run a shell script."""
        return self._run(["bash", "-c", script], timeout_s)

    async def python(self, script: str, timeout_s: float = 10.0) -> CommandResult:
        """Run a Python program."""
        return self._run([sys.executable, "-I", "-S", "-u", "-c", script], timeout_s)

    def _run(self, command: list[str], timeout_s: float) -> CommandResult:
        done = subprocess.run(
            command, timeout=timeout_s, capture_output=True, env=self._environment, check=False
        )
        out, err = (text.decode(errors="replace") for text in (done.stdout, done.stderr))
        return CommandResult(
            status=CommandStatus.OK, exit_code=done.returncode, stdout=out, stderr=err
        )


Tried = Callable[..., Awaitable[str]]


@dataclass(frozen=True, kw_only=True)
class Attack:
    """One way to try to get out."""

    tried: Tried
    """Called with an attacker and a host; what got through, or nothing."""
    has_control: bool
    """Whether it is shown to succeed where nothing stops it."""

    @property
    def name(self) -> str:
        """As in a list of results."""
        return self.tried.__name__


ATTACKS: dict[str, Attack] = {}


def attack(*, control: bool = False) -> Callable[[Tried], Tried]:
    """Put a function on the list of attacks."""

    def listed(tried: Tried) -> Tried:
        found = Attack(tried=tried, has_control=control)
        assert found.name not in ATTACKS
        ATTACKS[found.name] = found
        return tried

    return listed


def spec_for(profile: SandboxProfile) -> SandboxSpec:
    """Limits small enough that bumping into them is quick."""
    return SandboxSpec(profile=profile, **LIMITS)


def is_alive(process: "subprocess.Popen[bytes]") -> bool:
    """Whether it runs, neither ended nor stopped."""
    if process.poll() is not None:
        return False
    state = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0]
    return state not in "TtZX" and signal.SIGKILL == 9
