"""The host's side of a sandbox that is served by its first process over a socket.

Everything from inside is untrusted: a message that is malformed, too long or too late ends the
sandbox and is not used. The other side is `inside.serving`.
"""

import asyncio
import errno
import os
import socket
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path

from practicum.core.command import CommandResult, CommandStatus
from practicum.core.errors import EnvironmentFailure
from practicum.sandboxes.commands import CommandSandbox, RanCommand, within
from practicum.sandboxes.inside.first import CHECKER_BYTES
from practicum.sandboxes.inside.frames import FRAME_LIMIT, LENGTH, FrameError, pack, unpack

GRACE_S = 30.0
"""Seconds after a command's time limit within which its result must arrive: on a busy host, or in a
sandbox full of busy processes, the first process may be late."""
FLOOD = 24
"""Processes in a sandbox that does not answer: with so many it was the policy who kept it busy."""
READY_S = 120.0
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
"""For checkers: the system's folders come before /usr/local, where the policy may put programs.
`inside.system` sees to it that names of the system's programs mean those, in any order."""
MEMORY_LIMITS = ("memory.max", "memory.memsw.limit_in_bytes", "memory.limit_in_bytes")
"""Files of a cgroup with its limit, of version 2 and of version 1, in the order to raise them."""
PROCESSES = "cgroup.procs"
STATUSES = frozenset({"ok", "timeout", "oom", "killed", "truncated", "denied", "broken"})


class ServedSandbox(CommandSandbox):
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
        self._is_broken = False
        self._is_late = False
        self._is_closed = False

    async def wait_until_ready(self) -> None:
        """Wait for the first process; `EnvironmentFailure` if it does not answer."""
        if await self._received(READY_S) != [b"ready"]:
            raise EnvironmentFailure(f"the {self._kind} sandbox did not become ready")

    async def _carry_out(self, ran: RanCommand) -> CommandResult:
        own = {**ENVIRONMENT, "HOME": self._home, **ran.environment}
        environment = JUDGE_ENVIRONMENT if ran.is_judge else own
        cwd = ran.cwd or ("/" if self._home == "/root" else self._home)
        what = "inspect" if ran.is_inspection else "judge" if ran.is_judge else "run"
        head = [what, str(round(ran.timeout_s * 1000)), str(self._output_bytes), cwd]
        words = [str(len(ran.command)), *ran.command]
        words += [w for pair in environment.items() for w in pair]
        parts = [*map(os.fsencode, head), ran.stdin, *map(os.fsencode, words)]
        async with self._turn:
            killed = self._oom_kills()
            with self._more_memory() if ran.is_judge else nullcontext():
                answer = await self._request(parts, ran.timeout_s + GRACE_S)
            ended_for_memory = self._oom_kills() > killed
        result = _result(answer)
        if result is None:
            self._is_dead = True
            if ended_for_memory:
                self._is_broken, status = True, CommandStatus.OOM
            else:
                self._is_broken = self._is_broken or (self._is_late and self._is_flooded())
                status = CommandStatus.BROKEN if self._is_broken else CommandStatus.DIED
            return CommandResult(status=status, exit_code=None)
        self._is_broken = result.status is CommandStatus.BROKEN
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

    @contextmanager
    def _more_memory(self) -> Iterator[None]:
        """`CHECKER_BYTES` more than the sandbox has, for a checker; all else in it is held still.

        Without a cgroup the first process counts; where the kernel refuses, all share one limit.
        """
        folder = None if self._oom_file is None else self._oom_file.parent
        raised: list[tuple[Path, str]] = []
        for path in [folder / name for name in MEMORY_LIMITS] if folder else []:
            with suppress(OSError, ValueError):  # the other version's file, or no limit at all
                before = path.read_text().strip()
                path.write_text(str(int(before) + CHECKER_BYTES))
                raised.insert(0, (path, before))
        try:
            yield
        finally:
            for path, before in raised:
                with suppress(OSError):
                    path.write_text(before)

    def _is_flooded(self) -> bool:
        """Whether many processes run inside; not known, so False, without a cgroup."""
        try:
            folder = None if self._oom_file is None else self._oom_file.parent
            return folder is not None and len((folder / PROCESSES).read_text().split()) >= FLOOD
        except OSError:
            return False

    def _oom_kills(self) -> int:
        """The kernel's count of processes killed for memory; 0 without a cgroup."""
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
            answer = await self._request([b"read", os.fsencode(path), str(limit).encode()], FILE_S)
        return _content(answer, path)

    async def write(self, path: str, content: bytes) -> None:
        """See `core.interfaces.Sandbox`."""
        if len(content) > FRAME_LIMIT // 2:
            raise ValueError(f"{path} is longer than {FRAME_LIMIT // 2} bytes")
        async with self._turn:
            answer = await self._request([b"write", os.fsencode(path), content], FILE_S)
        _content(answer, path)

    async def hold(self) -> None:
        """See `core.capabilities.HoldsStill`."""
        async with self._turn:
            _content(await self._request([b"hold"], FILE_S), "its processes")

    async def listen(self, ports: Sequence[int]) -> list[socket.socket]:
        """See `core.capabilities.ServesPorts`."""
        async with self._turn:
            words = [b"listen", *(str(port).encode() for port in ports)]
            _content(await self._request(words, FILE_S), "its network")
            try:
                await within(FILE_S, _readable(self._socket))
                _, fds, _, _ = socket.recv_fds(self._socket, 1, len(ports))
            except (OSError, TimeoutError):
                fds = []
            listeners = [one for one in map(_socket_of, fds) if one is not None]
            if len(listeners) == len(ports) and await self._received(FILE_S) is not None:
                return listeners
            self._is_dead = True
            for listener in listeners:
                listener.close()
        raise EnvironmentFailure("the sandbox passed no listening sockets")

    async def close(self) -> None:
        """See `core.interfaces.Sandbox`."""
        if not self._is_closed:
            self._is_closed = self._is_dead = True
            # Shut down first: a pending read then ends, which closing alone would not cause.
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
            async with self._turn:
                self._socket.close()
            await self._on_close()

    async def _request(self, parts: list[bytes], timeout_s: float) -> list[bytes] | None:
        """Send a request and return the answer; None when the sandbox is gone, and ever after."""
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
            # After a timeout or a cancellation a late answer may still come, which must not be
            # taken for the answer to the next request.
            self._is_dead = self._is_dead or answer is None
        return answer

    async def _received(self, timeout_s: float) -> list[bytes] | None:
        try:
            return await within(timeout_s, self._message())
        except TimeoutError:
            self._is_late = True
        except (OSError, FrameError):
            pass
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


class ServedSandboxes:
    """Base class of kinds of served sandboxes: keeps track of the open ones."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._open: set[ServedSandbox] = set()

    @property
    def kind(self) -> str:
        """See `core.interfaces.Sandboxes`."""
        return self._kind

    async def _serve(
        self,
        connection: socket.socket,
        *,
        home: str,
        output_bytes: int,
        oom_file: str,
        leave: Callable[[], Awaitable[None]],
    ) -> ServedSandbox:
        """Wait for a new sandbox to be ready; `leave` is called once it is closed."""
        connection.setblocking(False)

        async def forget() -> None:
            self._open.discard(box)
            await leave()

        box = ServedSandbox(
            connection,
            kind=self._kind,
            home=home,
            output_bytes=output_bytes,
            oom_file=oom_file,
            on_close=forget,
        )
        self._open.add(box)
        try:
            await box.wait_until_ready()
        except BaseException:
            await box.close()
            raise
        return box


def _socket_of(fd: int) -> socket.socket | None:
    """The socket of a file descriptor from inside; None, and it is closed, where it is none."""
    try:
        return socket.socket(fileno=fd)
    except OSError:
        os.close(fd)
        return None


async def _readable(connection: socket.socket) -> None:
    """Wait until there is something to read."""
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    loop.add_reader(connection, readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(connection)


def _result(answer: list[bytes] | None) -> CommandResult | None:
    """A command's result, or None for a malformed answer."""
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
    return result if status in STATUSES and _is_plausible(result) else None


def _is_plausible(result: CommandResult) -> bool:
    """Whether the numbers are valid: an exit code exactly if it ended by itself, and no NaN."""
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
