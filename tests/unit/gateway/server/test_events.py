import asyncio
from typing import Any

import pytest

from practicum.core.conversing import TurnDelta
from practicum.gateway.requests import Happening
from practicum.gateway.server.events import (
    ClientGone,
    EventStream,
    HappeningBuffer,
    unless_gone,
)


def words(text: str, choice: int = 0, kind: Any = "content") -> Happening:
    return Happening(choice=choice, delta=TurnDelta(kind=kind, text=text))


async def test_a_reader_that_keeps_up_gets_every_piece_at_once() -> None:
    buffer = HappeningBuffer()
    heard = []

    async def read() -> None:
        async for happening in buffer:
            assert happening.delta is not None
            heard.append(happening.delta.text)

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
    buffer = HappeningBuffer()
    for number in range(10_000):
        buffer.add(words(str(number % 10)))
    assert len(buffer) == 1
    buffer.add(words("r", kind="reasoning"))
    buffer.add(words("other", choice=1))
    buffer.add(Happening(choice=0))
    buffer.end()
    found = [happening async for happening in buffer]
    text = "".join(h.delta.text for h in found[:-3] if h.delta)
    assert text == "0123456789" * 1000
    assert [h.choice for h in found[-3:]] == [0, 1, 0]


async def test_a_reader_waits_for_what_comes_later() -> None:
    buffer = HappeningBuffer()

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


async def test_work_is_cancelled_when_its_client_goes() -> None:
    work = asyncio.create_task(asyncio.sleep(60))
    with pytest.raises(ClientGone):
        await unless_gone(disconnect, work)
    assert work.cancelled()
    done = asyncio.create_task(asyncio.sleep(0))
    await unless_gone(never, done)
    assert done.done()


async def stream_until(events: Any, receive: Any, send: Any, limit_s: float = 30) -> list[str]:
    over: list[str] = []

    async def note() -> None:
        over.append("over")

    stream = EventStream(events, note, limit_s)
    await asyncio.wait_for(stream({"type": "http"}, receive, send), 5)
    return over


async def test_a_stream_ends_when_its_client_goes_or_reads_nothing() -> None:
    async def endless() -> Any:
        while True:
            await asyncio.sleep(0.001)
            yield "data: x\n\n"

    async def take(message: Any) -> None:
        """Reads at once."""

    async def stuck(message: Any) -> None:
        await asyncio.sleep(60)

    async def leave_later() -> Any:
        await asyncio.sleep(0.02)
        return {"type": "http.disconnect"}

    assert await stream_until(endless(), leave_later, take) == ["over"]
    assert await stream_until(endless(), never, stuck, 0.02) == ["over"]


async def test_a_whole_stream_is_sent_and_closed() -> None:
    sent: list[Any] = []

    async def two() -> Any:
        yield "data: 1\n\n"
        yield "data: 2\n\n"

    async def take(message: Any) -> None:
        sent.append(message)

    assert await stream_until(two(), never, take) == ["over"]
    assert sent[0]["status"] == 200
    assert (b"content-type", b"text/event-stream; charset=utf-8") in sent[0]["headers"]
    assert b"".join(m.get("body", b"") for m in sent) == b"data: 1\n\ndata: 2\n\n"
    assert sent[-1]["more_body"] is False
