"""What attacks are aimed at: harmless things of the host's, and the host's own view of them."""

import asyncio
import ctypes
import os
import secrets
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from tests.sandboxes.looking import Seen, pids_with

from practicum.core.command import CommandResult, CommandStatus, SandboxProfile, SandboxSpec
from practicum.core.interfaces import Sandbox, Sandboxes

__all__ = [
    "ATTACKS",
    "BEGIN",
    "CALL",
    "END",
    "PATIENCE_S",
    "Attack",
    "Attacker",
    "Confined",
    "Host",
    "NothingToTry",
    "Unconfined",
    "attack",
    "confined",
    "held",
    "innocent",
]

libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = ctypes.c_void_p
USER_KEYRING = -4
ADD_KEY = {"x86_64": 248, "aarch64": 217}
KEYCTL = {"x86_64": 250, "aarch64": 219}
KEYCTL_UNLINK, KEYCTL_READ = 9, 11
UNTOUCHED = b"untouched"
"""What is in the memory and the key that attacks try to change."""
PATIENCE_S = 240.0
"""Bounds a hang: a busy machine may take long for what is done in a moment on a free one."""
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
            ["cat"],
            env={"SECRET": self.secret},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
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
        self.victim.communicate()

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
        """A key in the keyring of this user."""
        machine = os.uname().machine
        number = libc.syscall(
            ADD_KEY[machine],
            b"user",
            self.secret.encode(),
            UNTOUCHED,
            len(UNTOUCHED),
            USER_KEYRING,
        )
        if number <= 0:
            raise NothingToTry(f"this kernel keeps no keys: {os.strerror(ctypes.get_errno())}")
        self._closes.append(
            lambda: libc.syscall(KEYCTL[machine], KEYCTL_UNLINK, number, USER_KEYRING)
        )
        return int(number)

    def content_of_key(self, number: int) -> bytes:
        """What the key holds now."""
        content = ctypes.create_string_buffer(100)
        size = libc.syscall(KEYCTL[os.uname().machine], KEYCTL_READ, number, content, 100, 0)
        return content.raw[: max(0, size)]

    def put_terminal(self) -> tuple[int, str]:
        """A terminal: where the host reads what is typed into it or written to it, and its name."""
        ours, theirs = os.openpty()
        self._closes += [lambda: os.close(ours), lambda: os.close(theirs)]
        os.set_blocking(ours, False)
        return ours, os.ttyname(theirs)

    def put_shared_memory(self) -> "tuple[int, ctypes.Array[ctypes.c_char]]":
        """The key of a segment of System V shared memory, and what is in it."""
        key = 1 + secrets.randbelow(2**31 - 1)
        number = libc.shmget(key, 4096, 0o1666)
        assert number >= 0
        self._closes.append(lambda: libc.shmctl(number, 0, None))
        address = libc.shmat(number, None, 0)
        self._closes.append(lambda: libc.shmdt(ctypes.c_void_p(address)))
        held = (ctypes.c_char * len(UNTOUCHED)).from_address(address)
        held[:] = UNTOUCHED
        return key, held

    def marked(self, mark: str | None = None) -> list[int]:
        """Processes anywhere on the host whose arguments hold the mark."""
        own = (os.getpid(), self.victim.pid)
        found = pids_with((mark or self.secret).encode(), "cmdline")
        return [pid for pid in found if pid not in own]

    def count_marked(self, mark: str | None = None) -> int:
        """How many there are."""
        return len(self.marked(mark))

    def end_marked(self) -> None:
        """Kill them: whoever started a sandbox may."""
        for pid in self.marked():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    async def end(self, running: "asyncio.Task[CommandResult]") -> CommandResult:
        """Kill a command and what it started, until none of them holds its output.

        Again and again: who is just becoming another program has no arguments to be found by.
        """
        while not running.done():
            self.end_marked()
            await asyncio.sleep(0.02)
        return await running

    async def has_none_marked(self, mark: str | None = None, within_s: float = PATIENCE_S) -> bool:
        """Whether no such process is left, or none stays; those of the attacks would for long."""
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

    async def bash(self, script: str, timeout_s: float = PATIENCE_S) -> CommandResult:
        """Run a shell script."""
        ...

    async def python(self, script: str, timeout_s: float = PATIENCE_S) -> CommandResult:
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

    async def bash(self, script: str, timeout_s: float = PATIENCE_S) -> CommandResult:
        """Run a shell script."""
        return await self._run(["bash", "-c", script], timeout_s)

    async def python(self, script: str, timeout_s: float = PATIENCE_S) -> CommandResult:
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

    async def bash(self, script: str, timeout_s: float = PATIENCE_S) -> CommandResult:
        """Run a shell script."""
        return await asyncio.to_thread(self._run, ["bash", "-c", script], timeout_s)

    async def python(self, script: str, timeout_s: float = PATIENCE_S) -> CommandResult:
        """Run a Python program."""
        command = [sys.executable, "-I", "-S", "-u", "-c", script]
        return await asyncio.to_thread(self._run, command, timeout_s)

    def _run(self, command: list[str], timeout_s: float) -> CommandResult:
        done = subprocess.run(
            command, timeout=timeout_s, capture_output=True, env=self._environment, check=False
        )
        out, err = (text.decode(errors="replace") for text in (done.stdout, done.stderr))
        return CommandResult(
            status=CommandStatus.OK, exit_code=done.returncode, stdout=out, stderr=err
        )


BEGIN = """
import ctypes, os, time
mark = {mark!r}
libc = ctypes.CDLL(None, use_errno=True)
def kept(fd):
    held.append(fd)
    return fd
held = []
"""
CALL = """
import errno
machine = os.uname().machine
def call(x86, arm, *arguments):
    number = x86 if machine == "x86_64" else arm
    if number is None:
        return -1
    ctypes.set_errno(0)
    result = libc.syscall(ctypes.c_long(number), *arguments)
    if result >= 0 or ctypes.get_errno() not in (errno.EPERM, errno.ENOSYS, errno.EACCES):
        kept(os.dup(0))
    return result
"""
"""For programs that are held: a call of the kernel by its number. One that is not refused leaves a
file open, so that the host sees even of those that did nothing with what they were given."""
END = """
libc.prctl(15, {name!r}, 0, 0, 0)
time.sleep(600)
"""


@asynccontextmanager
async def held(
    attacker: Attacker, host: Host, script: str, within_s: float = PATIENCE_S
) -> AsyncIterator[Seen]:
    """Run a Python program to its end and hold it there, so that the host can look at it.

    It takes another name when it is through; a program that never gets there is an error, so that
    no attack passes because it was not tried.
    """
    name = "t" + secrets.token_hex(7)
    text = BEGIN.format(mark=host.secret) + script + END.format(name=name.encode())
    running = asyncio.create_task(attacker.python(text, timeout_s=PATIENCE_S))
    try:
        until = time.monotonic() + within_s
        while not (found := pids_with(f"{name}\n".encode(), "comm")):
            if running.done() or time.monotonic() > until:
                said = running.result() if running.done() else "it still runs"
                raise RuntimeError(f"the attack was not tried to its end: {said}")
            await asyncio.sleep(0.01)
        yield Seen(found[0])
    finally:
        await host.end(running)


@asynccontextmanager
async def innocent(attacker: Attacker, host: Host) -> AsyncIterator[Seen]:
    """A program that tries nothing: what every command of a sandbox looks like."""
    async with held(attacker, host, "") as process:
        yield process


def confined(attacker: Attacker) -> Confined:
    """For attacks on files that the host collects; they have no unconfined form."""
    assert isinstance(attacker, Confined)
    return attacker


Tried = Callable[..., Awaitable[str]]


class NothingToTry(Exception):
    """What an attack is aimed at is not there; the sentence says what."""


@dataclass(frozen=True, kw_only=True)
class Attack:
    """One way to try to get out."""

    tried: Tried
    """Called with an attacker and a host; what got through, or nothing."""
    control: "Control"
    """Whether it is shown to succeed where nothing stops it, and for whom."""

    @property
    def name(self) -> str:
        """As in a list of results."""
        return self.tried.__name__


Control = Literal["none", "anyone", "root"]
ATTACKS: dict[str, Attack] = {}


def attack(control: Control = "none") -> Callable[[Tried], Tried]:
    """Put a function on the list of attacks."""

    def listed(tried: Tried) -> Tried:
        found = Attack(tried=tried, control=control)
        assert found.name not in ATTACKS
        ATTACKS[found.name] = found
        return tried

    return listed


def spec_for(profile: SandboxProfile) -> SandboxSpec:
    """Limits small enough that bumping into them is quick."""
    return SandboxSpec(profile=profile, **LIMITS)


def is_alive(victim: "subprocess.Popen[bytes]") -> bool:
    """Whether it still says after us what we say, neither ended nor stopped.

    A process to which a signal was sent may look alive for a moment; but it says nothing more.
    """
    assert victim.stdin is not None
    assert victim.stdout is not None
    try:
        victim.stdin.write(b"?")
    except BrokenPipeError:
        return False
    while not select.select([victim.stdout], [], [], 0.05)[0]:
        if not Seen(victim.pid).is_running():
            return False
    return victim.stdout.read(1) == b"?"
