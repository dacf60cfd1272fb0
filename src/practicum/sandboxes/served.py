"""A sandbox that is served by its first process, seen from the host.

Everything that comes from inside is untrusted: a message of another form, one that is too long or
too late ends the sandbox, and what it said is not used.
"""

import asyncio
import errno
import os
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from practicum.core.command import CommandResult, CommandStatus
from practicum.core.errors import EnvironmentFailure
from practicum.sandboxes.inside.frames import FRAME_LIMIT, LENGTH, FrameError, pack, unpack
from practicum.sandboxes.patience import within

__all__ = ["ServedSandbox"]

GRACE_S = 5.0
"""How long after its limit a command's result may take to arrive."""
READY_S = 20.0
FILE_S = 20.0
ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LANG": "C.UTF-8",
}
JUDGE_ENVIRONMENT = {
    "PATH": "/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/sbin:/usr/local/bin",
    "LANG": "C.UTF-8",
    "HOME": "/root",
    "PYTHONNOUSERSITE": "1",
    "PYTHONSAFEPATH": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
}
"""Programs of the system before any that were put beside them."""
STATUSES = frozenset({"ok", "timeout", "oom", "killed", "truncated", "denied"})


class ServedSandbox:
    """One sandbox; commands in it run one at a time."""

    def __init__(
        self,
        connection: socket.socket,
        *,
        kind: str,
        home: str,
        output_bytes: int,
        oom_file: str,
        on_close: Callable[[], Awaitable[None]],
    ) -> None:
        self._kind = kind
        self._socket = connection
        self._home = home
        self._output_bytes = output_bytes
        self._oom_file = Path(oom_file) if oom_file else None
        self._on_close = on_close
        self._turn = asyncio.Lock()
        self._is_dead = False
        self._is_closed = False

    @property
    def kind(self) -> str:
        """See `core.interfaces.Sandbox`."""
        return self._kind

    async def wait_until_ready(self) -> None:
        """Until the first process answers; `EnvironmentFailure` if it does not."""
        if await self._received(READY_S) != [b"ready"]:
            raise EnvironmentFailure(f"the {self._kind} sandbox did not become ready")

    async def run(
        self,
        command: Sequence[str],
        *,
        timeout_s: float,
        stdin: bytes = b"",
        environment: Mapping[str, str] | None = None,
        cwd: str | None = None,
    ) -> CommandResult:
        """See `core.interfaces.Sandbox`."""
        settings = {**ENVIRONMENT, "HOME": self._home, **(environment or {})}
        where = cwd or ("/" if self._home == "/root" else self._home)
        return await self._command("run", command, timeout_s, stdin, settings, where)

    async def judge(
        self, command: Sequence[str], *, timeout_s: float, stdin: bytes = b""
    ) -> CommandResult:
        """See `core.interfaces.Sandbox`."""
        where = "/" if self._home == "/root" else self._home
        return await self._command("judge", command, timeout_s, stdin, JUDGE_ENVIRONMENT, where)

    async def _command(
        self,
        what: str,
        command: Sequence[str],
        timeout_s: float,
        stdin: bytes,
        environment: Mapping[str, str],
        cwd: str,
    ) -> CommandResult:
        head = [what, str(round(timeout_s * 1000)), str(self._output_bytes), cwd]
        words = [str(len(command)), *command, *(w for pair in environment.items() for w in pair)]
        parts = [*map(os.fsencode, head), stdin, *map(os.fsencode, words)]
        async with self._turn:
            killed = self._oom_kills()
            answer = await self._asked(parts, timeout_s + GRACE_S)
            ended_for_memory = self._oom_kills() > killed
        result = _result(answer)
        if result is None:
            self._is_dead = True
            status = CommandStatus.OOM if ended_for_memory else CommandStatus.DIED
            return CommandResult(status=status, exit_code=None)
        if ended_for_memory:
            return CommandResult(
                status=CommandStatus.OOM,
                exit_code=None,
                stdout=result.stdout,
                stderr=result.stderr,
                output_bytes=result.output_bytes,
                duration_s=result.duration_s,
            )
        return result

    def _oom_kills(self) -> int:
        """How many processes the kernel has ended for memory; 0 where nobody counts."""
        if self._oom_file is None:
            return 0
        try:
            lines = self._oom_file.read_text().splitlines()
        except OSError:
            return 0
        return sum(int(line.split()[1]) for line in lines if line.startswith("oom_kill "))

    async def read(self, path: str, limit: int = 1_048_576) -> bytes:
        """See `core.interfaces.Sandbox`."""
        async with self._turn:
            answer = await self._asked([b"read", os.fsencode(path), str(limit).encode()], FILE_S)
        return _content(answer, path)

    async def write(self, path: str, content: bytes) -> None:
        """See `core.interfaces.Sandbox`."""
        if len(content) > FRAME_LIMIT // 2:
            raise ValueError(f"{path} is longer than {FRAME_LIMIT // 2} bytes")
        async with self._turn:
            answer = await self._asked([b"write", os.fsencode(path), content], FILE_S)
        _content(answer, path)

    async def close(self) -> None:
        """See `core.interfaces.Sandbox`."""
        if not self._is_closed:
            self._is_closed = self._is_dead = True
            # Hang up first: who waits for a result must see the end, and a closed file shows none.
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
            async with self._turn:
                self._socket.close()
            await self._on_close()

    async def _asked(self, parts: list[bytes], timeout_s: float) -> list[bytes] | None:
        """What it answers; None when it is gone, and from then on always."""
        if self._is_dead:
            return None
        loop = asyncio.get_running_loop()
        answer: list[bytes] | None = None
        try:
            await within(timeout_s, loop.sock_sendall(self._socket, pack(parts)))
            answer = await self._received(timeout_s)
        except (OSError, TimeoutError):
            return None
        finally:
            # An answer that comes too late, or after who asked has gone, must not be taken for the
            # next one's.
            self._is_dead = self._is_dead or answer is None
        return answer

    async def _received(self, timeout_s: float) -> list[bytes] | None:
        try:
            return await within(timeout_s, self._message())
        except (OSError, TimeoutError, FrameError):
            return None

    async def _message(self) -> list[bytes] | None:
        (size,) = LENGTH.unpack(await self._exactly(4))
        return unpack(await self._exactly(size)) if size <= FRAME_LIMIT else None

    async def _exactly(self, size: int) -> bytes:
        loop = asyncio.get_running_loop()
        taken = bytearray()
        while len(taken) < size:
            piece = await loop.sock_recv(self._socket, min(size - len(taken), 1 << 18))
            if not piece:
                raise FrameError("the sandbox is gone")
            taken += piece
        return bytes(taken)


def _result(answer: list[bytes] | None) -> CommandResult | None:
    """A command's result, or None when the answer is none."""
    if answer is None or len(answer) != 7 or answer[0] != b"done":
        return None
    status, code, total, seconds = (part.decode(errors="replace") for part in answer[1:5])
    try:
        result = CommandResult(
            status=CommandStatus(status),
            exit_code=int(code) if code else None,
            stdout=answer[5].decode(errors="replace"),
            stderr=answer[6].decode(errors="replace"),
            output_bytes=int(total),
            duration_s=float(seconds),
        )
    except ValueError:
        return None
    return result if status in STATUSES and _can_be(result) else None


def _can_be(result: CommandResult) -> bool:
    """Whether the numbers are such as a command has: a code when it ended by itself, and no NaN."""
    ended_itself = result.status in (CommandStatus.OK, CommandStatus.TRUNCATED)
    if (result.exit_code is not None) != ended_itself:
        return False
    if ended_itself and result.exit_code not in range(256):
        return False
    return result.output_bytes >= 0 and 0.0 <= result.duration_s < float("inf")


def _content(answer: list[bytes] | None, path: str) -> bytes:
    """A file's content, or the error that opening it here would have given."""
    if answer is None or len(answer) != 2 or answer[0] not in (b"done", b"failed"):
        raise EnvironmentFailure(f"the sandbox is gone; {path} cannot be reached")
    if answer[0] == b"done":
        return answer[1]
    number, _, reason = answer[1].decode(errors="replace").partition(" ")
    if number == str(errno.ENOENT):
        raise FileNotFoundError(path)
    raise ValueError(f"{path}: {reason[:200]}")
