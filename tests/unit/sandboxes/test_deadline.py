import asyncio
import socket
import time

import pytest

from practicum.sandboxes.commands import within


async def test_what_came_while_the_loop_was_busy_is_in_time() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        reading = asyncio.ensure_future(within(0.05, asyncio.get_running_loop().sock_recv(ours, 9)))
        await asyncio.sleep(0)
        theirs.send(b"answer")
        time.sleep(0.2)  # as an update of the weights does
        assert await reading == b"answer"


async def test_what_does_not_come_is_given_up() -> None:
    forever = asyncio.Event()
    with pytest.raises(TimeoutError):
        await within(0.01, forever.wait())


async def test_an_error_of_the_work_is_its_own() -> None:
    async def fails() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await within(1.0, fails())


async def test_who_is_cancelled_takes_the_work_along() -> None:
    ended = asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    waiting = asyncio.ensure_future(within(60, work()))
    await asyncio.sleep(0.01)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert ended.is_set()
