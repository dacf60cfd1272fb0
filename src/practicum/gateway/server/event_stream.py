"""`EventStream`: server-sent events, sampled on one side and read by a client at its own pace."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from practicum.gateway.requests import Refused, StreamEvent

MOST_BATCHED = 64 * 1024
"""Most characters of waiting events that are sent in one write."""


class ClientGone(Exception):
    """The client disconnected before it was answered."""


class StreamEventBuffer:
    """Events that the client has not read yet.

    Adding never waits, so a slow client cannot hold up the sampler. Waiting deltas of the same kind
    are merged, so the buffer stays as small as the answer itself.
    """

    def __init__(self) -> None:
        self._pending: deque[StreamEvent] = deque()
        self._changed = asyncio.Event()
        self._is_over = False
        self._error: Exception | None = None
        self.has_begun = False
        """Whether anything was ever added."""

    def __len__(self) -> int:
        return len(self._pending)

    @property
    def has_more(self) -> bool:
        """Whether the next event, or the end, is there without waiting."""
        return bool(self._pending) or self._is_over

    def add(self, update: StreamEvent) -> None:
        """Appends an event, or merges it into the last one."""
        merged = _merged(self._pending[-1], update) if self._pending else None
        if merged is not None:
            self._pending[-1] = merged
        else:
            self._pending.append(update)
        self.has_begun = True
        self._changed.set()

    def end(self, error: Exception | None = None) -> None:
        """Ends the stream; the reader gets the error after all events."""
        self._is_over, self._error = True, error
        self._changed.set()

    async def first(self) -> None:
        """Waits for the first event or the end."""
        await self._changed.wait()

    async def __aiter__(self) -> AsyncIterator[StreamEvent]:
        while True:
            while self._pending:
                yield self._pending.popleft()
            if self._is_over:
                if self._error is not None:
                    raise self._error
                return
            self._changed.clear()
            await self._changed.wait()


def _merged(last: StreamEvent, new: StreamEvent) -> StreamEvent | None:
    """Two events as one, if they are text of the same kind, choice and call; else None."""
    if last.delta is None or new.delta is None or last.choice != new.choice:
        return None
    same = (last.delta.kind, last.delta.index) == (new.delta.kind, new.delta.index)
    if not same or new.delta.kind == "call":
        return None
    return replace(last, delta=replace(last.delta, text=last.delta.text + new.delta.text))


class StepTimeout:
    """Cancels a task when one of its steps takes too long.

    It has one timer for all steps, where `asyncio.timeout` would make one for each.
    """

    def __init__(self, task: "asyncio.Task[None]", seconds: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._task = task
        self._seconds = seconds
        self._started: float | None = None
        self._timer = self._loop.call_later(seconds, self._check)

    def begin(self) -> None:
        """A step begins."""
        self._started = self._loop.time()

    def pause(self) -> None:
        """The step is done; until the next one begins, any time may pass."""
        self._started = None

    def end(self) -> None:
        """Stops the timer."""
        self._timer.cancel()

    def _check(self) -> None:
        now = self._loop.time()
        since = now if self._started is None else self._started
        if now >= since + self._seconds:
            self._task.cancel()
        else:
            self._timer = self._loop.call_at(since + self._seconds, self._check)


class EventStream(Response):
    """A response of server-sent events that are sampled while they are sent.

    The request's own task samples, so that it starts without a pass through the event loop; another
    task writes. When the client disconnects, or reads nothing for too long, both are cancelled.

    Args:
        sample: Fills the buffer. An error before the first event becomes an HTTP error status.
        buffer: What is sampled.
        events: The buffer's content in the dialect's format.
        refusal: Makes the response to a refused request.
        write_timeout_s: How long the client may leave a write unread.
    """

    media_type = "text/event-stream"

    def __init__(
        self,
        sample: Callable[[], Awaitable[None]],
        buffer: StreamEventBuffer,
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
        """Samples and sends until the end, or until the client disconnects."""
        writing = asyncio.create_task(self._write(send))
        self._write_timer = StepTimeout(writing, self._write_timeout_s)
        try:
            async with while_connected(receive, writing):
                await self._fill()
                await writing
        except Refused as refused:
            await self._refusal(refused)(scope, receive, send)
        except ClientGone:
            return
        finally:
            self._write_timer.end()
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
        batch = ""
        async for event in self._events:
            batch += event
            if len(batch) < MOST_BATCHED and self._buffer.has_more:
                continue
            part = {"type": "http.response.body", "body": batch.encode(), "more_body": True}
            await self._send(send, part)
            batch = ""
        end = {"type": "http.response.body", "body": batch.encode(), "more_body": False}
        await self._send(send, end)

    async def _send(self, send: Send, message: Any) -> None:
        self._write_timer.begin()
        await send(message)
        self._write_timer.pause()


@asynccontextmanager
async def while_connected(
    receive: Receive, writing: "asyncio.Task[None] | None" = None
) -> AsyncIterator[None]:
    """Cancels the block and raises `ClientGone` when the client disconnects or writing fails."""
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

    leaving = asyncio.create_task(_disconnected(receive))
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


async def _disconnected(receive: Receive) -> None:
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
