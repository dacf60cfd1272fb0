"""Sandboxes for the time that something is scored."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from practicum.core.command import SandboxSpec
from practicum.core.interfaces import Sandbox, Sandboxes

__all__ = ["BorrowedSandboxes"]


class BorrowedSandboxes:
    """Opens sandboxes, and closes what serves them as soon as none is in use.

    A reward has no end of its own at which it could close anything: nobody tells it that the
    episode it has just scored was the last.
    """

    def __init__(self, sandboxes: Sandboxes) -> None:
        self._sandboxes = sandboxes
        self._in_use = 0
        self._closed: asyncio.Event | None = None
        """While they are being closed: set when that is done."""

    @asynccontextmanager
    async def box(self, spec: SandboxSpec) -> AsyncIterator[Sandbox]:
        """A sandbox of one's own."""
        while self._closed is not None:
            await self._closed.wait()
        self._in_use += 1
        try:
            box = await self._sandboxes.open(spec)
            try:
                yield box
            finally:
                await box.close()
        finally:
            self._in_use -= 1
            if not self._in_use:
                await self._close()

    async def _close(self) -> None:
        self._closed = asyncio.Event()
        try:
            with suppress(OSError):
                await self._sandboxes.close()
        finally:
            self._closed.set()
            self._closed = None
