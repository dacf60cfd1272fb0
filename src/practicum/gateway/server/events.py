"""Streams: what is sampled on one side, a client that reads at its own pace on the other."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from practicum.gateway.requests import Happening

__all__ = ["ClientGone", "EventStream", "HappeningBuffer", "unless_gone"]

MOST_HELD = 64 * 1024
"""Characters of events that are sent together."""


class ClientGone(Exception):
    """The client closed its connection before it was answered."""


class HappeningBuffer:
    """Holds what a client has not read yet.

    Whoever fills it never waits. Texts of the same kind that wait are joined, so that what waits
    stays as small as the answer itself when the client falls behind.
    """

    def __init__(self) -> None:
        self._waiting: deque[Happening] = deque()
        self._has_news = asyncio.Event()
        self._is_over = False

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def has_more(self) -> bool:
        """Whether what comes next, if anything, comes at once."""
        return bool(self._waiting) or self._is_over

    def add(self, happening: Happening) -> None:
        """Put something at the end."""
        joined = _joined(self._waiting[-1], happening) if self._waiting else None
        if joined is not None:
            self._waiting[-1] = joined
        else:
            self._waiting.append(happening)
        self._has_news.set()

    def end(self) -> None:
        """Nothing more comes."""
        self._is_over = True
        self._has_news.set()

    async def first(self) -> None:
        """Wait until something is there, or nothing will be."""
        await self._has_news.wait()

    async def __aiter__(self) -> AsyncIterator[Happening]:
        while True:
            while self._waiting:
                yield self._waiting.popleft()
            if self._is_over:
                return
            self._has_news.clear()
            await self._has_news.wait()


def _joined(last: Happening, new: Happening) -> Happening | None:
    """Two happenings as one, where they are texts of the same kind."""
    if last.delta is None or new.delta is None or last.choice != new.choice:
        return None
    same = (last.delta.kind, last.delta.index) == (new.delta.kind, new.delta.index)
    if not same or new.delta.kind == "call":
        return None
    return replace(last, delta=replace(last.delta, text=last.delta.text + new.delta.text))


class EventStream(Response):
    """Server-sent events. When the client goes away, or reads nothing for long, it ends at once.

    Args:
        events: What is sent.
        over: Called at the end, however it comes.
        write_timeout_s: How long the client may leave an event unread.
        has_more: Whether the next event, or the end, comes at once; then they are sent together.
    """

    media_type = "text/event-stream"

    def __init__(
        self,
        events: AsyncIterator[str],
        over: Callable[[], Awaitable[None]],
        write_timeout_s: float,
        has_more: Callable[[], bool] = lambda: False,
    ) -> None:
        self._events = events
        self._has_more = has_more
        self._over = over
        self._write_timeout_s = write_timeout_s
        self.status_code = 200
        self.background = None
        self.body = b""
        self.init_headers({"cache-control": "no-store", "x-accel-buffering": "no"})
        del self.headers["content-length"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until all is sent or nobody is there."""
        writing = asyncio.create_task(self._write(send))
        leaving = asyncio.create_task(_gone(receive))
        try:
            await asyncio.wait((writing, leaving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (writing, leaving):
                task.cancel()
                with suppress(asyncio.CancelledError, OSError, TimeoutError):
                    await task
            await self._over()

    async def _write(self, send: Send) -> None:
        await self._send(
            send,
            {"type": "http.response.start", "status": 200, "headers": self.raw_headers},
        )
        held = ""
        async for event in self._events:
            held += event
            if len(held) < MOST_HELD and self._has_more():
                continue
            part = {"type": "http.response.body", "body": held.encode(), "more_body": True}
            await self._send(send, part)
            held = ""
        rest = {"type": "http.response.body", "body": held.encode(), "more_body": False}
        await self._send(send, rest)

    async def _send(self, send: Send, message: Any) -> None:
        async with asyncio.timeout(self._write_timeout_s):
            await send(message)


async def unless_gone(receive: Receive, work: "asyncio.Task[Any]") -> None:
    """Wait for some work; when the client goes away first, cancel it and raise `ClientGone`."""
    leaving = asyncio.create_task(_gone(receive))
    try:
        await asyncio.wait((work, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            work.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await work
            raise ClientGone
    except asyncio.CancelledError:
        work.cancel()
        raise
    finally:
        leaving.cancel()
        with suppress(asyncio.CancelledError):
            await leaving


async def _gone(receive: Receive) -> None:
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
