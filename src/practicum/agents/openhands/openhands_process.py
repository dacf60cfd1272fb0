"""`ConversationHost`: the process that runs OpenHands conversations, and a JSON channel to each."""

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

RUNNER = Path(__file__).with_name("runner.py")

MAX_MESSAGE_BYTES = 16 * 2**20
"""A longer message ends the episode."""
END_TIMEOUT_S = 5.0
"""Seconds to wait for a conversation's processes to end; a parent that is still loading the SDK
starts and ends them later."""
LOG = "log.txt"
ORDER_BYTES = 8
"""The same as in `runner.py`."""


@dataclass(frozen=True, slots=True)
class JsonLines:
    """A channel of JSON objects, one per line, in both directions."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def receive(self) -> dict[str, Any] | None:
        """The next message; None if the other side has closed."""
        try:
            line = await self.reader.readline()
        except ConnectionError:
            return None
        return dict(json.loads(line)) if line.endswith(b"\n") else None

    async def send(self, message: Mapping[str, Any]) -> None:
        """Sends a message; if the other side has closed, the next `receive` gives None."""
        with suppress(ConnectionError):
            self.writer.write(json.dumps(message).encode() + b"\n")
            await self.writer.drain()


@dataclass(slots=True)
class _Parent:
    """The process that has loaded the SDK and forks a child for each conversation."""

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

    def send_order(self, number: int, descriptors: tuple[int, ...] = ()) -> None:
        """Tells it to start a conversation (with two file descriptors), or to end it."""
        with suppress(ConnectionError):  # it died: the lines of its children say so
            socket.send_fds(self.orders, [number.to_bytes(ORDER_BYTES, "big")], descriptors)

    def close(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.orders.close()
        shutil.rmtree(self.folder, ignore_errors=True)


@dataclass(slots=True)
class ConversationHost:
    """Runs conversations in one process with the SDK loaded, which lives while there are any.

    The process inherits nothing of this one's environment: no keys, no proxies, no home.
    """

    python: Path
    _parent: _Parent | None = None

    @asynccontextmanager
    async def conversation(self, job: Mapping[str, Any], folder: Path) -> AsyncIterator[JsonLines]:
        """Starts a conversation; after the block its process and all it started are dead.

        Its output is in `folder`. The model's key is sent over the channel, so that it is not in
        the process list or in an environment.
        """
        parent = self._acquire()
        number = next(parent.numbers)
        ours, theirs = socket.socketpair()
        try:
            with theirs, (folder / LOG).open("wb") as log:
                parent.send_order(number, (theirs.fileno(), log.fileno()))
            reader, writer = await asyncio.open_connection(sock=ours, limit=MAX_MESSAGE_BYTES)
            try:
                channel = JsonLines(reader, writer)
                await channel.send({**job, "folder": str(folder)})
                yield channel
            finally:
                parent.send_order(number)
                # The parent closes the channel once the conversation's processes are dead.
                with suppress(TimeoutError):
                    await asyncio.wait_for(_drained(reader), END_TIMEOUT_S)
                writer.close()
        finally:
            ours.close()
            self._release(parent)

    @contextmanager
    def keep_loaded(self) -> Iterator[None]:
        """Keeps the SDK loaded for the block, between conversations too."""
        parent = self._acquire()
        try:
            yield
        finally:
            self._release(parent)

    def last_words(self, folder: Path) -> str:
        """The output of a conversation that died, or else of its parent."""
        for source in (folder, *([self._parent.folder] if self._parent else [])):
            with suppress(OSError):
                if text := (source / LOG).read_text(errors="replace").strip():
                    return text
        return "it printed nothing"

    def _acquire(self) -> _Parent:
        if self._parent is None or self._parent.process.poll() is not None:
            self._parent = _Parent.start(self.python)
        self._parent.users += 1
        return self._parent

    def _release(self, parent: _Parent) -> None:
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
        # Otherwise contexts below 16,384 tokens are refused.
        "ALLOW_SHORT_CONTEXT_WINDOWS": "true",
        # Otherwise LiteLLM fetches model prices from the internet.
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "NO_PROXY": "*",
    }
