"""A bounded buffer for a command's output: keeps its beginning and its end."""


class Kept:
    r"""Keeps the first and the last `limit // 2` bytes, and counts all.

    >>> kept = Kept(4)
    >>> kept.add(b"abcdefgh")
    >>> kept.content(), kept.total
    (b'ab\n[4 bytes are left out here]\ngh', 8)
    """

    def __init__(self, limit: int) -> None:
        self._half = limit // 2
        self._head = bytearray()
        self._tail = bytearray()
        self.total = 0

    def add(self, piece: bytes) -> None:
        """Append output."""
        self.total += len(piece)
        room = self._half - len(self._head)
        if room > 0:
            self._head += piece[:room]
            piece = piece[room:]
        if piece:
            self._tail += piece[-self._half :] if self._half else b""
            del self._tail[: max(0, len(self._tail) - self._half)]

    @property
    def is_cut(self) -> bool:
        """Whether bytes were dropped."""
        return self.total > len(self._head) + len(self._tail)

    def content(self) -> bytes:
        """The kept bytes; a line in between says how many were dropped."""
        if not self.is_cut:
            return bytes(self._head + self._tail)
        left_out = self.total - len(self._head) - len(self._tail)
        return bytes(self._head + b"\n[%d bytes are left out here]\n" % left_out + self._tail)
