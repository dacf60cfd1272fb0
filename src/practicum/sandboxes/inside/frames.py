"""Messages between host and sandbox: a list of byte strings, each preceded by its length.

Both sides use it and trust nothing: a length that is too large ends the connection.
"""

import struct

FRAME_LIMIT = 16 << 20
"""Most bytes of a message; a peer that announces more is disconnected."""
LENGTH = struct.Struct("!I")


class FrameError(Exception):
    """Malformed message."""


def pack(parts: list[bytes]) -> bytes:
    """One message as bytes.

    >>> unpack(pack([b"run", b""])[4:])
    [b'run', b'']
    """
    body = b"".join(LENGTH.pack(len(part)) + part for part in parts)
    return LENGTH.pack(len(body)) + body


def unpack(body: bytes) -> list[bytes]:
    """The parts of a message without its leading length."""
    parts: list[bytes] = []
    at = 0
    while at < len(body):
        if at + 4 > len(body):
            raise FrameError("a part without its length")
        (size,) = LENGTH.unpack_from(body, at)
        at += 4
        if at + size > len(body):
            raise FrameError("a part that is longer than its message")
        parts.append(body[at : at + size])
        at += size
    return parts
