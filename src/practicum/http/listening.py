"""Listening: sockets first, so that a port in use is one sentence, then the servers."""

import asyncio
import os
import socket
import struct
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from practicum.core.errors import UserError

__all__ = [
    "OwnUserProtocol",
    "QuietServer",
    "TimedProtocol",
    "address_of",
    "listen",
    "listen_unix",
    "running_servers",
]

HEADERS_S = 20.0
"""What the head of a connection's first request may take to arrive."""


class QuietServer(uvicorn.Server):
    """A server whose stopping is decided outside, since several of them share a process."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to whoever runs it."""
        yield


class TimedProtocol(H11Protocol):
    """Closes a connection that does not bring a request in time."""

    _closing: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Start counting."""
        super().connection_made(transport)
        self._closing = self.loop.call_later(HEADERS_S, transport.close)

    def data_received(self, data: bytes) -> None:
        """Stop counting once a request has begun."""
        super().data_received(data)
        if self._closing is not None and self.cycle is not None:
            self._closing.cancel()
            self._closing = None

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is left to close."""
        if self._closing is not None:
            self._closing.cancel()
        super().connection_lost(exc)
        # Its timer would hold the connection, and all that its last request was about, until then.
        self._unset_keepalive_if_required()


class OwnUserProtocol(TimedProtocol):
    """Talks only to programs of the user who runs the server."""

    def connection_made(self, transport: Any) -> None:
        """Look at who is there before anything is read."""
        super().connection_made(transport)
        if _peer_user(transport.get_extra_info("socket")) != os.getuid():
            transport.abort()


def _peer_user(connection: Any) -> int | None:
    """The user id of the other end of a unix socket; None where the system does not say."""
    if hasattr(socket, "SO_PEERCRED"):
        size = struct.calcsize("3i")
        _, user, _ = struct.unpack(
            "3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
        )
        return int(user)
    try:  # macOS and the BSDs: struct xucred, whose second number is the user
        raw = connection.getsockopt(0, 1, 76)
        return int(struct.unpack("=Ii", raw[:8])[1])
    except OSError:
        return None


def listen(host: str, port: int, option: str) -> socket.socket:
    """A bound socket; `option` is what the user types to choose another port."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sends at once only on sockets that say they are TCP; others wait 40 ms for company.
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
    """A bound unix socket that only its owner can open, in a folder only its owner can enter."""
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if path.parent.stat().st_mode & 0o077:
            raise PermissionError(f"other users can enter {path.parent}; chmod 700 it")
        with suppress(FileNotFoundError):
            path.unlink()
        before = os.umask(0o177)
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
    """The address a client types."""
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{listening.getsockname()[1]}"


@asynccontextmanager
async def running_servers(
    pairs: Sequence[tuple[QuietServer, socket.socket]],
) -> AsyncIterator[list["asyncio.Task[None]"]]:
    """Servers under way in this event loop, each on its socket; stopped when the block ends."""
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
