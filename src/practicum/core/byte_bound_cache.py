"""`ByteBoundCache`: values that are kept for later, as many as fit into so many bytes."""

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class ByteBoundCache(Generic[K, V]):
    """A function whose values are kept; those not used for longest go first.

    What is too large to leave room for others is not kept, and neither is an error. It may be
    called from any thread.

    Args:
        make: The function.
        size: Bytes that a key and its value take, roughly.
        most_bytes: Bytes of all that is kept.

    >>> squares = ByteBoundCache(lambda n: n * n, lambda n, square: 8, most_bytes=64)
    >>> squares(3), squares(3), squares.bytes
    (9, 9, 8)
    """

    def __init__(
        self, make: Callable[[K], V], size: Callable[[K, V], int], *, most_bytes: int
    ) -> None:
        self._make, self._size, self._most_bytes = make, size, most_bytes
        self._kept: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._lock = threading.Lock()
        self.bytes = 0

    def __call__(self, key: K) -> V:
        """The function's value."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key][0]
        value = self._make(key)
        self.keep(key, value)
        return value

    def keep(self, key: K, value: V) -> None:
        """Keeps a value, and drops others until all fit."""
        size = self._size(key, value)
        with self._lock:
            if 4 * size > self._most_bytes or key in self._kept:
                return
            self._kept[key] = (value, size)
            self.bytes += size
            while self.bytes > self._most_bytes:
                _, (_, dropped) = self._kept.popitem(last=False)
                self.bytes -= dropped

    def get(self, key: K) -> V | None:
        """A value that is kept; None if it is not."""
        with self._lock:
            if key not in self._kept:
                return None
            self._kept.move_to_end(key)
            return self._kept[key][0]

    def drop(self, key: K) -> None:
        """Keeps a value no longer."""
        with self._lock:
            _, size = self._kept.pop(key, (None, 0))
            self.bytes -= size
