import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from starlette.responses import Response

from practicum.core.conversation import TurnDelta
from practicum.gateway.requests import Refused, StreamEvent
from practicum.gateway.server.event_stream import (
    ClientGone,
    EventStream,
    StreamEventBuffer,
    while_connected,
)


def words(text: str, choice: int = 0, kind: Any = "content") -> StreamEvent:
    return StreamEvent(choice=choice, delta=TurnDelta(kind=kind, text=text))


async def test_a_reader_that_keeps_up_gets_every_piece_at_once() -> None:
    buffer = StreamEventBuffer()
    heard = []

    async def read() -> None:
        async for update in buffer:
            assert update.delta is not None
            heard.append(update.delta.text)

    reading = asyncio.create_task(read())
    for number, text in enumerate("abcdef"):
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert heard == list("abcdef")[:number]
        buffer.add(words(text))
    buffer.end()
    await reading
    assert heard == list("abcdef")


async def test_a_reader_that_falls_behind_gets_the_same_text_in_fewer_pieces() -> None:
    buffer = StreamEventBuffer()
    for number in range(10_000):
        buffer.add(words(str(number % 10)))
    assert len(buffer) == 1
    buffer.add(words("r", kind="reasoning"))
    buffer.add(words("other", choice=1))
    buffer.add(StreamEvent(choice=0))
    buffer.end()
    found = [update async for update in buffer]
    text = "".join(h.delta.text for h in found[:-3] if h.delta)
    assert text == "0123456789" * 1000
    assert [h.choice for h in found[-3:]] == [0, 1, 0]


async def test_a_reader_waits_for_what_comes_later() -> None:
    buffer = StreamEventBuffer()

    async def fill() -> None:
        for text in "ab":
            await asyncio.sleep(0.01)
            buffer.add(words(text))
        buffer.end()

    filling = asyncio.create_task(fill())
    assert "".join([h.delta.text async for h in buffer if h.delta]) == "ab"
    await filling


async def never() -> Any:
    await asyncio.sleep(60)


async def disconnect() -> Any:
    return {"type": "http.disconnect"}


async def test_a_block_is_broken_off_when_its_client_goes() -> None:
    async with while_connected(never):
        await asyncio.sleep(0)
    with pytest.raises(ClientGone):
        async with while_connected(disconnect):
            await asyncio.sleep(60)
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0, "what comes next is not cancelled"


async def test_another_cancellation_of_a_block_stays_one() -> None:
    async def wait() -> None:
        async with while_connected(never):
            await asyncio.sleep(60)

    waiting = asyncio.create_task(wait())
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


class Answer:
    """A stream with a sampler of the test's, and all that was sent of it."""

    def __init__(self, sample: Callable[[StreamEventBuffer], Awaitable[None]]) -> None:
        self.sent: list[Any] = []
        self.ended: list[str] = []
        self._buffer = StreamEventBuffer()
        self._sample = sample

    async def take(self, message: Any) -> None:
        """Reads at once."""
        self.sent.append(message)

    async def stuck(self, message: Any) -> None:
        await asyncio.sleep(60)

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.sent)

    async def stream(self, receive: Any, send: Any, limit_s: float = 30) -> None:
        async def sample() -> None:
            try:
                await self._sample(self._buffer)
            except asyncio.CancelledError:
                self.ended.append("broken off")
                raise

        async def events() -> Any:
            try:
                async for update in self._buffer:
                    yield (f"data: {update.delta.text}\n\n" if update.delta else "data: end\n\n")
            except Refused as refused:
                yield f"data: {refused.sentence}\n\n"

        def refusal(refused: Refused) -> Response:
            return Response(refused.sentence, refused.status)

        stream = EventStream(sample, self._buffer, events(), refusal, limit_s)
        await asyncio.wait_for(stream({"type": "http"}, receive, send), 60)


async def endless(buffer: StreamEventBuffer) -> None:
    while True:
        await asyncio.sleep(0.001)
        buffer.add(words("x"))


async def test_a_stream_ends_when_its_client_goes_or_reads_nothing() -> None:
    async def leave_later() -> Any:
        while not gone.body:
            await asyncio.sleep(0.001)
        return {"type": "http.disconnect"}

    gone, unread = Answer(endless), Answer(endless)
    await gone.stream(leave_later, gone.take)
    assert gone.ended == ["broken off"]
    assert gone.body.startswith(b"data: x")
    await unread.stream(never, unread.stuck, 0.02)
    assert unread.ended == ["broken off"]


async def test_a_client_may_be_slow_again_and_again_if_it_reads_each_time() -> None:
    async def four(buffer: StreamEventBuffer) -> None:
        for text in "1234":
            buffer.add(words(text))
            await asyncio.sleep(0.01)
        await asyncio.sleep(1.5)  # and nothing may be sampled for longer than a client may wait

    async def slowly(message: Any) -> None:
        await asyncio.sleep(0.3)  # some of these together are longer than one may take
        await answer.take(message)

    answer = Answer(four)
    await answer.stream(never, slowly, 1.2)
    assert answer.ended == []
    assert answer.body.endswith(b"4\n\n")
    assert answer.sent[-1]["more_body"] is False


async def test_a_whole_stream_is_sent_and_closed() -> None:
    async def two(buffer: StreamEventBuffer) -> None:
        for text in "12":
            buffer.add(words(text))
            await asyncio.sleep(0.01)

    answer = Answer(two)
    await answer.stream(never, answer.take)
    assert answer.sent[0]["status"] == 200
    assert (b"content-type", b"text/event-stream; charset=utf-8") in answer.sent[0]["headers"]
    assert answer.body == b"data: 1\n\ndata: 2\n\n"
    assert answer.sent[-1]["more_body"] is False


@pytest.mark.parametrize("has_begun", [False, True])
async def test_what_is_refused_has_a_status_unless_the_stream_has_begun(has_begun: bool) -> None:
    async def refuse(buffer: StreamEventBuffer) -> None:
        if has_begun:
            buffer.add(words("1"))
            await asyncio.sleep(0.01)
        raise Refused(429, "too much")

    answer = Answer(refuse)
    await answer.stream(never, answer.take)
    assert answer.sent[0]["status"] == (200 if has_begun else 429)
    assert answer.body == (b"data: 1\n\ndata: too much\n\n" if has_begun else b"too much")
    assert not answer.sent[-1].get("more_body", False)


async def test_a_fault_before_the_stream_has_begun_is_left_to_the_server() -> None:
    async def fail(buffer: StreamEventBuffer) -> None:
        raise ZeroDivisionError

    answer = Answer(fail)
    with pytest.raises(ZeroDivisionError):
        await answer.stream(never, answer.take)
    assert answer.sent == []
