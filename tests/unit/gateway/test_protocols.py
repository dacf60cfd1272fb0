"""Writes of a server as they reach the socket."""

import asyncio
from typing import Any

import pytest

from practicum.gateway.http_listening import HeadMerger

ANSWER = b"HTTP/1.1 200 OK\r\n\r\n"


class Written:
    """A transport that keeps what is written, and notes its end."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.is_open = True

    def write(self, data: bytes) -> None:
        self.parts.append(data)

    def close(self) -> None:
        self.is_open = False


@pytest.fixture
async def pair() -> tuple[Any, Written]:
    below = Written()
    return HeadMerger(below, asyncio.get_running_loop()), below


async def test_a_head_goes_with_the_body_behind_it(pair: tuple[Any, Written]) -> None:
    transport, below = pair
    for body in (b"one", b"two"):  # and so does the next answer's
        transport.write(ANSWER)
        transport.write(body)
        transport.write(b"more")
    assert below.parts == [ANSWER + b"one", b"more", ANSWER + b"two", b"more"]
    await asyncio.sleep(0)
    assert len(below.parts) == 4


async def test_a_head_alone_is_sent_in_the_next_turn(pair: tuple[Any, Written]) -> None:
    transport, below = pair
    transport.write(ANSWER)
    assert below.parts == []
    await asyncio.sleep(0)
    assert below.parts == [ANSWER]
    transport.write(b"late")
    assert below.parts == [ANSWER, b"late"]


async def test_nothing_is_lost_at_the_end(pair: tuple[Any, Written]) -> None:
    transport, below = pair
    assert transport.is_open
    transport.write(ANSWER)
    transport.close()
    assert (below.parts, below.is_open) == ([ANSWER], False)


async def test_an_answer_in_an_answer_is_passed_on(pair: tuple[Any, Written]) -> None:
    """A body may begin like a head."""
    transport, below = pair
    transport.write(ANSWER)
    transport.write(ANSWER)
    transport.write(ANSWER)
    await asyncio.sleep(0)
    assert b"".join(below.parts) == 3 * ANSWER
