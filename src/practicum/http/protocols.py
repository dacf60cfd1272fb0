"""One connection of a server: what may take how long and be how large before any route sees it."""

import asyncio
import os
import socket
import struct
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

__all__ = ["JoinedHead", "OwnUserProtocol", "TimedProtocol"]

HEADERS_S = 20.0
"""What the head of a connection's first request may take to arrive."""

MOST_HEAD_BYTES = 32 * 1024


HEAD = b"HTTP/1.1 "


class JoinedHead:
    """A transport that sends an answer's head together with what follows it at once.

    Servers write the two one after the other, and each write is a system call here and something
    to wake up for at the client. A head that nothing follows in the same turn of the event loop is
    sent alone in the next.
    """

    def __init__(self, transport: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._head = b""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Send it, or keep it for the next one if it is a head."""
        if data.startswith(HEAD) and not self._head:
            self._head = data
            self._loop.call_soon(self._send_head)
        else:
            head, self._head = self._head, b""
            self._transport.write(head + data)

    def close(self) -> None:
        """Once all is sent."""
        self._send_head()
        self._transport.close()

    def _send_head(self) -> None:
        if self._head:
            self.write(b"")


class TimedProtocol(HttpToolsProtocol):
    """Closes a connection that does not bring a request in time, or whose head does not end."""

    _closing: asyncio.TimerHandle | None = None
    _is_in_head = True
    _head_bytes = 0

    def connection_made(self, transport: Any) -> None:
        """Start counting."""
        super().connection_made(cast(asyncio.Transport, JoinedHead(transport, self.loop)))
        self._closing = self.loop.call_later(HEADERS_S, transport.close)

    def data_received(self, data: bytes) -> None:
        """Stop counting once a request has begun."""
        if self._is_in_head:
            self._head_bytes += len(data)
        super().data_received(data)
        is_long = self._is_in_head and self._head_bytes > MOST_HEAD_BYTES
        if is_long and not self.transport.is_closing():
            self.send_400_response(f"The request's head is longer than {MOST_HEAD_BYTES} bytes.")
        if self._closing is not None and self.cycle is not None:
            self._closing.cancel()
            self._closing = None

    def on_headers_complete(self) -> None:
        """What follows is a body."""
        self._is_in_head = False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """What follows is the head of the next request."""
        self._is_in_head, self._head_bytes = True, 0
        super().on_message_complete()

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
