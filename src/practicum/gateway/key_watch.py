"""`KeyWatch`: keys are read again when their file has changed, or when a signal (SIGHUP) asks."""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from practicum.core.errors import UserError

T = TypeVar("T")

WATCH_S = 1.0
"""Seconds between two looks at the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeySource(Generic[T]):
    """A file of keys, and what reads and checks it."""

    path: Path
    read: Callable[[], T]
    """Raises `UserError` where the file cannot be used."""


class KeyWatch(Generic[T]):
    """Keeps a server's keys as their file has them. A file that cannot be used changes nothing.

    Args:
        file: The file; None where the keys came from elsewhere and stay as they are.
        take: Takes what was read, and returns what has changed in words, or nothing.
        say: Told what has changed, and why something has not.
    """

    def __init__(
        self, file: KeySource[T] | None, take: Callable[[T], str], say: Callable[[str], None]
    ) -> None:
        self._file, self._take, self._say = file, take, say
        self._seen: object = None
        """What the file was like when it was last read: the first look reads it once more, since it
        may have changed while the model was loaded."""

    def look(self) -> None:
        """Reads the file if it is another than at the last look."""
        if self._file is not None and self._stamp(self._file) != self._seen:
            self._read(self._file, is_asked=False)

    def read_again(self) -> None:
        """Reads the file whether or not it has changed, and says what came of it."""
        if self._file is None:
            self._say("there is no key file to read again; the keys stay as they are")
        else:
            self._read(self._file, is_asked=True)

    @asynccontextmanager
    async def under_way(self) -> AsyncIterator[None]:
        """Looks every second, and at SIGHUP, while the block runs."""
        loop, hang_up = asyncio.get_running_loop(), getattr(signal, "SIGHUP", None)
        if hang_up is not None:  # Windows has none
            with suppress(NotImplementedError, ValueError, RuntimeError):
                loop.add_signal_handler(hang_up, self.read_again)
        looking = asyncio.create_task(self._look_on())
        try:
            yield
        finally:
            looking.cancel()
            if hang_up is not None:
                with suppress(NotImplementedError, ValueError, RuntimeError):
                    loop.remove_signal_handler(hang_up)

    async def _look_on(self) -> None:
        while True:
            self.look()
            await asyncio.sleep(WATCH_S)

    def _read(self, file: KeySource[T], *, is_asked: bool) -> None:
        self._seen = self._stamp(file)  # before it is read: what changes meanwhile is seen later
        try:
            changed = self._take(file.read())
        except UserError as error:
            self._say(f"the keys stay as they were: {error}")
            return
        if changed or is_asked:
            self._say(f"{file.path} was read again; {changed or 'nothing has changed'}")

    def _stamp(self, file: KeySource[T]) -> tuple[int, ...]:
        """Another one whenever the file was written, replaced, or opened to others."""
        try:
            found = file.path.stat()
        except OSError:
            return ()
        return found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_size


@dataclass(slots=True)
class ControlKey:
    """The one key of a gateway's control socket, which may be replaced while it serves."""

    value: str = ""

    def take(self, fresh: str) -> str:
        """Asks for another key from now on."""
        changed = "" if fresh == self.value else "the control key is another one now"
        self.value = fresh
        return changed
