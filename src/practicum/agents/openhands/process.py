"""The process that conversations of OpenHands run in, and the line to each."""

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

__all__ = ["RUNNER", "Line", "Workshop"]

RUNNER = Path(__file__).with_name("runner.py")

MAX_MESSAGE_BYTES = 16 * 2**20
"""A command longer than this ends the episode."""
PATIENCE_S = 5.0
"""How long the end of a conversation is waited for; a parent that is still loading the SDK begins
and ends it later."""
LOG = "log.txt"
ORDER_BYTES = 8
"""As the runner has it."""


@dataclass(frozen=True, slots=True)
class Line:
    """A JSON object a line, each way."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def receive(self) -> dict[str, Any] | None:
        """The next message; None when the other side is gone."""
        try:
            line = await self.reader.readline()
        except ConnectionError:
            return None
        return dict(json.loads(line)) if line.endswith(b"\n") else None

    async def send(self, message: Mapping[str, Any]) -> None:
        """Answer; the other side may be gone, which the next `receive` says."""
        with suppress(ConnectionError):
            self.writer.write(json.dumps(message).encode() + b"\n")
            await self.writer.drain()


@dataclass(slots=True)
class _Parent:
    """The process that has loaded the SDK; conversations are its children."""

    process: subprocess.Popen[bytes]
    orders: socket.socket
    folder: Path
    users: int = 0
    numbers: "count[int]" = field(default_factory=count)

    @classmethod
    def start(cls, python: Path) -> "_Parent":
        folder = Path(tempfile.mkdtemp(prefix="practicum-openhands-"))
        ours, theirs = socket.socketpair()
        with theirs, (folder / LOG).open("wb") as log:
            process = subprocess.Popen(
                [str(python), "-I", str(RUNNER), str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=folder,
                env=_environment(python, folder),
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        return cls(process, ours, folder)

    def order(self, number: int, descriptors: tuple[int, ...] = ()) -> None:
        """Begin a conversation, or end it."""
        with suppress(ConnectionError):  # it died: the lines of its children say so
            socket.send_fds(self.orders, [number.to_bytes(ORDER_BYTES, "big")], descriptors)

    def close(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.orders.close()
        shutil.rmtree(self.folder, ignore_errors=True)


@dataclass(slots=True)
class Workshop:
    """Where conversations are held: one process has the SDK loaded while there are any.

    It gets nothing of this process's environment: no keys, no proxies, no home.
    """

    python: Path
    _parent: _Parent | None = None

    @asynccontextmanager
    async def conversation(self, job: Mapping[str, Any], folder: Path) -> AsyncIterator[Line]:
        """Begin a conversation; afterwards its process and its children are gone.

        What it prints is in `folder`. Its key is neither in the list of processes nor in an
        environment.
        """
        parent = self._entered()
        number = next(parent.numbers)
        ours, theirs = socket.socketpair()
        try:
            with theirs, (folder / LOG).open("wb") as log:
                parent.order(number, (theirs.fileno(), log.fileno()))
            reader, writer = await asyncio.open_connection(sock=ours, limit=MAX_MESSAGE_BYTES)
            try:
                line = Line(reader, writer)
                await line.send({**job, "folder": str(folder)})
                yield line
            finally:
                parent.order(number)
                # Its parent closes the line when it is gone.
                with suppress(TimeoutError):
                    await asyncio.wait_for(_drained(reader), PATIENCE_S)
                writer.close()
        finally:
            ours.close()
            self._leave(parent)

    @contextmanager
    def kept_open(self) -> Iterator[None]:
        """Keep the SDK loaded for the block, between conversations too."""
        parent = self._entered()
        try:
            yield
        finally:
            self._leave(parent)

    def last_words(self, folder: Path) -> str:
        """What a conversation that died printed, or else what its parent did."""
        for place in (folder, *([self._parent.folder] if self._parent else [])):
            with suppress(OSError):
                if said := (place / LOG).read_text(errors="replace").strip():
                    return said
        return "it printed nothing"

    def _entered(self) -> _Parent:
        if self._parent is None or self._parent.process.poll() is not None:
            self._parent = _Parent.start(self.python)
        self._parent.users += 1
        return self._parent

    def _leave(self, parent: _Parent) -> None:
        parent.users -= 1
        if parent.users == 0:
            parent.close()
            self._parent = None if self._parent is parent else self._parent


async def _drained(reader: asyncio.StreamReader) -> None:
    with suppress(ConnectionError):
        while await reader.read(65536):
            pass


def _environment(python: Path, folder: Path) -> dict[str, str]:
    return {
        "PATH": f"{python.parent}:/usr/local/bin:/usr/bin:/bin",
        "HOME": str(folder),
        "TMPDIR": str(folder),
        "LANG": "C.UTF-8",
        "OH_PERSISTENCE_DIR": str(folder / "settings"),
        "OPENHANDS_SUPPRESS_BANNER": "1",
        # A window below 16384 tokens is refused otherwise.
        "ALLOW_SHORT_CONTEXT_WINDOWS": "true",
        # Prices of models would be fetched from the internet.
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "NO_PROXY": "*",
    }
