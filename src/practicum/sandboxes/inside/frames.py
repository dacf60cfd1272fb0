"""Messages on a socket: a list of byte strings, each with its length in front.

Used on both sides, so it trusts nothing: a length that is too large ends the connection.
"""

import struct

__all__ = ["FRAME_LIMIT", "LENGTH", "FrameError", "pack", "unpack"]

FRAME_LIMIT = 16 << 20
"""No message is longer; whoever announces a longer one is not to be listened to."""
LENGTH = struct.Struct("!I")


class FrameError(Exception):
    """What arrived is no message."""


def pack(parts: list[bytes]) -> bytes:
    """One message as bytes.

    >>> unpack(pack([b"run", b""])[4:])
    [b'run', b'']
    """
    body = b"".join(LENGTH.pack(len(part)) + part for part in parts)
    return LENGTH.pack(len(body)) + body


def unpack(body: bytes) -> list[bytes]:
    """The parts of a message, its own length already taken off."""
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
