"""HTTP servers on uvicorn: sockets, header limits and timeouts, and starting and stopping them.

Sockets are bound before the servers start, so that a port in use is a `UserError`.
"""

import asyncio
import os
import socket
import struct
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any, cast

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from practicum.core.errors import UserError

HEADERS_S = 20.0
"""Seconds for the headers of a request to arrive (against slow clients that hold connections
open)."""

MOST_OPEN = 1024
"""Connections beyond which a new one takes the place of the one that is idle for longest."""

MOST_HEAD_BYTES = 32 * 1024
"""Most bytes of a request line and its headers."""

HEAD = b"HTTP/1.1 "


class HeadMerger:
    """A transport that sends a response's headers and the start of its body in one write.

    uvicorn writes them one after the other, and each write is a system call and a packet. Headers
    that no body follows in the same iteration of the event loop are sent alone in the next.
    """

    def __init__(self, transport: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._head = b""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Sends data, or keeps it for the next write if it is headers."""
        if data.startswith(HEAD) and not self._head:
            self._head = data
            self._loop.call_soon(self._send_head)
        else:
            head, self._head = self._head, b""
            self._transport.write(head + data)

    def close(self) -> None:
        """Sends what is kept, and closes."""
        self._send_head()
        self._transport.close()

    def _send_head(self) -> None:
        if self._head:
            self.write(b"")


def most_open() -> int:
    """Connections that may be open: half of the files that the process may have, or fewer."""
    try:
        import resource
    except ImportError:  # Windows, which has no such limit
        return MOST_OPEN
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST_OPEN if files == resource.RLIM_INFINITY else min(MOST_OPEN, files // 2)


class TimedProtocol(HttpToolsProtocol):
    """Closes a connection whose request comes too late, or whose headers are too long.

    A key in the trailer of a chunked body is no header. Idle connections make way for new ones.
    """

    _closing: asyncio.TimerHandle | None = None
    _is_in_head = True
    _head_bytes = 0
    _idle_since = 0.0

    def connection_made(self, transport: Any) -> None:
        """Starts the timer for the first request."""
        super().connection_made(cast(asyncio.Transport, HeadMerger(transport, self.loop)))
        self._idle_since = self.loop.time()
        self._closing = self.loop.call_later(HEADERS_S, self.transport.close)
        if len(self.connections) > most_open():
            self._close_longest_idle()

    def data_received(self, data: bytes) -> None:
        """Counts bytes of headers, and gives each request's so long to arrive."""
        if self._is_in_head:
            self._head_bytes += len(data)
            if self._closing is None:
                self._closing = self.loop.call_later(HEADERS_S, self.transport.close)
        super().data_received(data)
        is_long = self._is_in_head and self._head_bytes > MOST_HEAD_BYTES
        if is_long and not self.transport.is_closing():
            self.send_400_response(f"The request's head is longer than {MOST_HEAD_BYTES} bytes.")

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header; what comes after the body is a trailer, which nothing here reads."""
        if self._is_in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """From here on a body follows, which the `Guard` limits."""
        self._is_in_head = False
        self._stop_timer()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """From here on the headers of the next request follow."""
        self._is_in_head, self._head_bytes = True, 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """From here on the connection is idle, unless a request waits already."""
        self._idle_since = self.loop.time()
        super().on_response_complete()

    @property
    def _is_idle(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _close_longest_idle(self) -> None:
        others = (one for one in self.connections if isinstance(one, TimedProtocol))
        idle = [one for one in others if one is not self and one._is_idle]
        if idle:
            min(idle, key=lambda one: one._idle_since).transport.close()

    def _stop_timer(self) -> None:
        if self._closing is not None:
            self._closing.cancel()
            self._closing = None

    def connection_lost(self, exc: Exception | None) -> None:
        """Stops all timers."""
        self._stop_timer()
        super().connection_lost(exc)
        # uvicorn's keep-alive timer would keep the connection and its last request in memory.
        self._unset_keepalive_if_required()


class OwnUserProtocol(TimedProtocol):
    """For a unix socket: refuses processes of other users, whatever the file's mode is."""

    def connection_made(self, transport: Any) -> None:
        """Checks the peer's user id before anything is read."""
        super().connection_made(transport)
        if _peer_user(transport.get_extra_info("socket")) != os.getuid():
            transport.abort()


def _peer_user(connection: Any) -> int | None:
    """The user id of the other end of a unix socket; None if the system does not tell."""
    if hasattr(socket, "SO_PEERCRED"):
        size = struct.calcsize("3i")
        _, user, _ = struct.unpack(
            "3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
        )
        return int(user)
    try:  # macOS and the BSDs: LOCAL_PEERCRED gives a struct xucred, whose second field is the uid
        raw = connection.getsockopt(0, 1, 76)
        return int(struct.unpack("=Ii", raw[:8])[1])
    except OSError:
        return None


class QuietServer(uvicorn.Server):
    """A uvicorn server without signal handlers, since several of them share a process."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Installs no handlers."""
        yield


def listen(host: str, port: int, option: str) -> socket.socket:
    """A bound socket; `option` is what the user types to choose another port."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sets TCP_NODELAY only if the protocol is given as TCP. Without it, Nagle's algorithm
    # and delayed acknowledgements hold small writes back for 40 ms.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except (OSError, OverflowError) as error:
        listening.close()
        raise UserError(
            f"{host} port {port} cannot be listened on ({error}); choose another with {option}, "
            "or 0 for any free one"
        ) from None
    return listening


def listen_unix(path: Path) -> socket.socket:
    """A bound unix socket with mode 600, in a folder that only its owner can enter."""
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if path.parent.stat().st_mode & 0o077:
            raise PermissionError(f"other users can enter {path.parent}; chmod 700 it")
        with suppress(FileNotFoundError):
            path.unlink()
        before = os.umask(0o177)  # else the socket is open to others between bind and chmod
        try:
            listening.bind(str(path))
        finally:
            os.umask(before)
        path.chmod(0o600)
    except OSError as error:
        listening.close()
        raise UserError(
            f"the control socket {path} cannot be made ({error}); choose a shorter or another path"
        ) from None
    return listening


def address_of(host: str, listening: socket.socket) -> str:
    """The URL of a bound socket."""
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{listening.getsockname()[1]}"


@asynccontextmanager
async def running_servers(
    pairs: Sequence[tuple[QuietServer, socket.socket]],
) -> AsyncIterator[list["asyncio.Task[None]"]]:
    """Runs servers in this event loop, each on its socket, until the block ends."""
    running = [asyncio.create_task(server.serve(sockets=[where])) for server, where in pairs]
    servers = [server for server, _ in pairs]
    try:
        while not all(server.started for server in servers) and not any(r.done() for r in running):
            await asyncio.sleep(0.01)
        yield running
    finally:
        for server in servers:
            server.should_exit = True
        await asyncio.gather(*running, return_exceptions=True)
