"""Programs of the user's: started with a bare environment, and gone with all they started."""

import asyncio
import os
import secrets
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from practicum.core.errors import AgentFailure

__all__ = ["Ended", "KeptText", "bare_environment", "run_program"]

BASICS = ("HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TMPDIR", "TZ", "USER")
"""What a program needs to start at all; keys and tokens are not among it."""

MARK = "PRACTICUM_EPISODE"
"""Is in the environment of a program and of all it starts, so that those can be found again."""

LOOK_S = 0.02
"""How often it is looked whether a program has ended."""

KEPT_CHARS = 4000
"""Characters kept of the beginning of what a program prints, and as many of its end."""


def bare_environment(inherit: Sequence[str]) -> dict[str, str]:
    """The basics of this process's environment, and what is named besides."""
    return {name: os.environ[name] for name in (*BASICS, *inherit) if name in os.environ}


class KeptText:
    r"""The beginning and the end of a long text.

    >>> kept = KeptText(limit=3)
    >>> kept.add(b"abc..."), kept.add(b"...xyz"), kept.text()
    (None, None, 'abc\n[6 bytes left out]\nxyz')
    """

    def __init__(self, limit: int = KEPT_CHARS) -> None:
        self._limit = limit
        self._head = b""
        self._tail = b""
        self._total = 0

    def add(self, more: bytes) -> None:
        """The next piece."""
        self._total += len(more)
        room = self._limit - len(self._head)
        self._head += more[:room]
        self._tail = (self._tail + more[room:])[-self._limit :]

    def text(self) -> str:
        """What is kept, bytes that are no UTF-8 replaced."""
        left_out = self._total - len(self._head) - len(self._tail)
        gap = f"\n[{left_out} bytes left out]\n".encode() if left_out else b""
        return (self._head + gap + self._tail).decode("utf-8", "replace")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """What a program came to."""

    exit_code: int
    """Negative: the signal that ended it."""
    stdout: str
    stderr: str


async def run_program(
    command: Sequence[str],
    *,
    environment: Mapping[str, str],
    folder: Path,
    stdin: bytes = b"",
) -> Ended:
    """Run a program to its end; however this call ends, the program and its children are gone."""
    mark = secrets.token_hex(16)
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=folder,
            env={**environment, MARK: mark},
            start_new_session=True,
        )
    except OSError as error:
        raise AgentFailure(f"the command {command[0]!r} cannot be started: {error}") from None
    kept = (KeptText(), KeptText())
    reading = asyncio.gather(
        _feed(process.stdin, stdin), *map(_drain, (process.stdout, process.stderr), kept)
    )
    try:
        # Not `wait`, which waits for the pipes too: a child that lives on may hold them open.
        while process.returncode is None:
            await asyncio.sleep(LOOK_S)
        exit_code = process.returncode
        end_all(process.pid, mark)
        await reading
    finally:
        end_all(process.pid, mark)
        reading.cancel()
        await asyncio.shield(process.wait())
    return Ended(exit_code=exit_code, stdout=kept[0].text(), stderr=kept[1].text())


def end_all(group: int, mark: str) -> None:
    """Kill a process group, and whatever else carries the mark: a child may leave the group."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)
    wanted = f"{MARK}={mark}".encode()
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if wanted in (entry / "environ").read_bytes().split(b"\0"):
                os.kill(int(entry.name), signal.SIGKILL)


async def _feed(pipe: asyncio.StreamWriter | None, given: bytes) -> None:
    if pipe is None:
        return
    with suppress(ConnectionError):  # a program need not read what it is given
        pipe.write(given)
        await pipe.drain()
    pipe.close()


async def _drain(pipe: asyncio.StreamReader | None, kept: KeptText) -> None:
    while pipe is not None and (more := await pipe.read(65_536)):
        kept.add(more)
