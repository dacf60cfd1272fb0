"""`WebSocket`: the server's end of a web socket (RFC 6455) over a connection that asked for one.

Written here, in the standard library: what a company needs of it is little, and the library for it
would add two thirds to the memory of a company's process.
"""

import base64
import hashlib
import select
import socket
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress

MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
MESSAGE_LIMIT = 1 << 20
"""Bytes of a message from a client; a longer one ends the conversation."""
WAITING_BYTES = 1 << 20
"""What may wait for a client to read it; one that reads no more is let go."""
TEXT, BINARY, CLOSE, PING, PONG, MORE = 1, 2, 8, 9, 10, 0
NORMAL, BROKEN, TOO_BIG = 1000, 1002, 1009
"""Why a conversation ends."""


class SocketEnds(Exception):
    """The conversation is over; the code says why."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


def acceptance(key: str) -> str:
    """The answer to a client's key.

    >>> acceptance("dGhlIHNhbXBsZSBub25jZQ==")
    's3pPLMBiTxaQ9kYGzzhZRbK+xOo='
    """
    digest = hashlib.sha1(key.encode() + MAGIC, usedforsecurity=False).digest()
    return base64.b64encode(digest).decode()


def frame(opcode: int, content: bytes) -> bytes:
    """A frame from a server: never masked, never in parts."""
    size = len(content)
    if size < 126:
        head = bytes([0x80 | opcode, size])
    elif size < 1 << 16:
        head = bytes([0x80 | opcode, 126]) + size.to_bytes(2, "big")
    else:
        head = bytes([0x80 | opcode, 127]) + size.to_bytes(8, "big")
    return head + content


def unmasked(content: bytes, mask: bytes) -> bytes:
    """A client's content; masking twice gives what was there before."""
    size = len(content)
    key = (mask * (size // 4 + 1))[:size]
    return (int.from_bytes(content, "big") ^ int.from_bytes(key, "big")).to_bytes(size, "big")


class FrameReader:
    """Takes bytes as they come, and gives whole messages: their kind and their content."""

    def __init__(self) -> None:
        self._held = bytearray()
        self._kind = MORE
        self._parts = bytearray()

    def feed(self, data: bytes) -> list[tuple[int, bytes]]:
        """The messages that are whole now; raises `SocketEnds` for what is none."""
        self._held += data
        found = []
        while (one := self._frame()) is not None:
            opcode, is_last, content = one
            if opcode >= CLOSE:
                if not is_last or len(content) > 125:
                    raise SocketEnds(BROKEN)
                found.append((opcode, content))
                continue
            if (opcode == MORE) == (self._kind == MORE) or opcode > BINARY:
                raise SocketEnds(BROKEN)
            self._kind = opcode or self._kind
            self._parts += content
            if len(self._parts) > MESSAGE_LIMIT:
                raise SocketEnds(TOO_BIG)
            if is_last:
                found.append((self._kind, bytes(self._parts)))
                self._kind = MORE
                self._parts.clear()
        return found

    def _frame(self) -> tuple[int, bool, bytes] | None:
        """The next frame: what it is, whether it ends its message, its content."""
        held = self._held
        if len(held) < 2:
            return None
        first, second = held[0], held[1]
        if first & 0x70 or not second & 0x80:  # extensions nobody agreed on; no mask
            raise SocketEnds(BROKEN)
        size, at = second & 0x7F, 2
        if size >= 126:
            width = 2 if size == 126 else 8
            if len(held) < 2 + width:
                return None
            size, at = int.from_bytes(held[2 : 2 + width], "big"), 2 + width
        if size > MESSAGE_LIMIT:
            raise SocketEnds(TOO_BIG)
        if len(held) < at + 4 + size:
            return None
        content = unmasked(bytes(held[at + 4 : at + 4 + size]), bytes(held[at : at + 4]))
        del held[: at + 4 + size]
        return first & 0x0F, bool(first & 0x80), content


class WebSocket:
    """A conversation; one thread runs it, any may `put` a text."""

    def __init__(self, connection: socket.socket, idle_s: float) -> None:
        self._connection = connection
        self._idle_s = idle_s
        self._bell, self._ring = socket.socketpair()
        self._ring.setblocking(False)
        self._lock = threading.Lock()
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._is_lost = False

    def put(self, text: str) -> None:
        """Send a text soon; never waits for the client."""
        content = text.encode()
        with self._lock:
            self._is_lost = self._is_lost or self._waiting_bytes > WAITING_BYTES
            if not self._is_lost:
                self._waiting.append(content)
                self._waiting_bytes += len(content)
        with suppress(OSError):  # it rings already, or the conversation is over
            self._ring.send(b".")

    def run(self, hear: Callable[[str], None]) -> None:
        """Hear and say until either side has enough, or the client is silent too long."""
        try:
            self._run(hear)
        except SocketEnds as end:
            with suppress(OSError):
                self._connection.sendall(frame(CLOSE, end.code.to_bytes(2, "big")))
        except OSError:
            pass  # the client went away
        finally:
            self._bell.close()
            self._ring.close()

    def _run(self, hear: Callable[[str], None]) -> None:
        reader = FrameReader()
        events = select.poll()
        events.register(self._connection, select.POLLIN)
        events.register(self._bell, select.POLLIN)
        is_asked = False
        while True:
            self._send_waiting()
            ready = {one for one, _ in events.poll(self._idle_s * 1000)}
            if self._bell.fileno() in ready:
                self._bell.recv(1 << 16)
            if self._connection.fileno() in ready:
                is_asked = False
                data = self._connection.recv(1 << 16)
                if not data:
                    return
                for kind, content in reader.feed(data):
                    self._take(kind, content, hear)
            elif not ready:
                if is_asked:
                    return
                is_asked = True
                self._connection.sendall(frame(PING, b""))

    def _send_waiting(self) -> None:
        while True:
            with self._lock:
                if self._is_lost:
                    raise SocketEnds(TOO_BIG)
                if not self._waiting:
                    return
                content = self._waiting.popleft()
                self._waiting_bytes -= len(content)
            self._connection.sendall(frame(TEXT, content))

    def _take(self, kind: int, content: bytes, hear: Callable[[str], None]) -> None:
        if kind == CLOSE:
            raise SocketEnds(NORMAL)
        if kind == PING:
            self._connection.sendall(frame(PONG, content))
        elif kind in (TEXT, BINARY):
            hear(content.decode(errors="replace"))
