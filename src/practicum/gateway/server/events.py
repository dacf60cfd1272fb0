"""Streams: what is sampled on one side, a client that reads at its own pace on the other."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from practicum.gateway.requests import Happening, Refused

__all__ = ["ClientGone", "EventStream", "HappeningBuffer", "while_there"]

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
        self._error: Exception | None = None
        self.has_begun = False
        """Whether there ever was anything in it."""

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
        self.has_begun = True
        self._has_news.set()

    def end(self, error: Exception | None = None) -> None:
        """Nothing more comes; whoever reads gets the error after all else."""
        self._is_over, self._error = True, error
        self._has_news.set()

    async def first(self) -> None:
        """Wait until something is there, or nothing will be."""
        await self._has_news.wait()

    async def __aiter__(self) -> AsyncIterator[Happening]:
        while True:
            while self._waiting:
                yield self._waiting.popleft()
            if self._is_over:
                if self._error is not None:
                    raise self._error
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


class Patience:
    """Breaks a task off when one thing that it does takes too long.

    One timer for all that it does, where `asyncio.timeout` makes one for each.
    """

    def __init__(self, task: "asyncio.Task[None]", seconds: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._task = task
        self._seconds = seconds
        self._since: float | None = None
        self._timer = self._loop.call_later(seconds, self._look)

    def begin(self) -> None:
        """From now on it is waited for."""
        self._since = self._loop.time()

    def rest(self) -> None:
        """Until something is begun again it may take any time."""
        self._since = None

    def end(self) -> None:
        """Nothing is waited for any more."""
        self._timer.cancel()

    def _look(self) -> None:
        now = self._loop.time()
        since = now if self._since is None else self._since
        if now >= since + self._seconds:
            self._task.cancel()
        else:
            self._timer = self._loop.call_at(since + self._seconds, self._look)


class EventStream(Response):
    """Server-sent events of an answer that is sampled here and now.

    Sampling goes on in the request's own task, so that it begins without a turn of the event loop;
    what is sampled is written by a task beside it. When the client goes away, or reads nothing for
    long, both end at once.

    Args:
        sample: Fills the buffer. What it raises before anything is there has a status of its own.
        buffer: What the events are about.
        events: What is sent.
        refusal: The answer to a request that was refused.
        write_timeout_s: How long the client may leave an event unread.
    """

    media_type = "text/event-stream"

    def __init__(
        self,
        sample: Callable[[], Awaitable[None]],
        buffer: HappeningBuffer,
        events: AsyncIterator[str],
        refusal: Callable[[Refused], Response],
        write_timeout_s: float,
    ) -> None:
        self._sample = sample
        self._buffer = buffer
        self._events = events
        self._refusal = refusal
        self._write_timeout_s = write_timeout_s
        self.status_code = 200
        self.background = None
        self.body = b""
        self.init_headers({"cache-control": "no-store", "x-accel-buffering": "no"})
        del self.headers["content-length"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until all is sent or nobody is there."""
        writing = asyncio.create_task(self._write(send))
        self._patience = Patience(writing, self._write_timeout_s)
        try:
            async with while_there(receive, writing):
                await self._fill()
                await writing
        except Refused as refused:
            await self._refusal(refused)(scope, receive, send)
        except ClientGone:
            return
        finally:
            self._patience.end()
            writing.cancel()
            with suppress(asyncio.CancelledError, OSError):
                await writing

    async def _fill(self) -> None:
        try:
            await self._sample()
        except Exception as error:
            if not self._buffer.has_begun:
                raise
            self._buffer.end(error)
        else:
            self._buffer.end()

    async def _write(self, send: Send) -> None:
        await self._buffer.first()
        await self._send(
            send,
            {"type": "http.response.start", "status": 200, "headers": self.raw_headers},
        )
        held = ""
        async for event in self._events:
            held += event
            if len(held) < MOST_HELD and self._buffer.has_more:
                continue
            part = {"type": "http.response.body", "body": held.encode(), "more_body": True}
            await self._send(send, part)
            held = ""
        rest = {"type": "http.response.body", "body": held.encode(), "more_body": False}
        await self._send(send, rest)

    async def _send(self, send: Send, message: Any) -> None:
        self._patience.begin()
        await send(message)
        self._patience.rest()


@asynccontextmanager
async def while_there(
    receive: Receive, writing: "asyncio.Task[None] | None" = None
) -> AsyncIterator[None]:
    """Break the block off with `ClientGone` when the client goes away or cannot be written to."""
    task, is_gone = asyncio.current_task(), False
    assert task is not None

    def leave(done: "asyncio.Task[None]") -> None:
        nonlocal is_gone
        if done is leaving:
            has_left = not done.cancelled()
        else:
            has_left = done.cancelled() or done.exception() is not None
        if has_left:
            is_gone = True
            task.cancel()

    leaving = asyncio.create_task(_gone(receive))
    watched = [leaving] if writing is None else [leaving, writing]
    for one in watched:
        one.add_done_callback(leave)
    try:
        yield
    except asyncio.CancelledError:
        if not is_gone:
            raise
        task.uncancel()
        raise ClientGone from None
    finally:
        for one in watched:
            one.remove_done_callback(leave)
        leaving.cancel()


async def _gone(receive: Receive) -> None:
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
