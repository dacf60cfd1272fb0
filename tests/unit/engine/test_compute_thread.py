"""The loop says when it has something to do, and whoever computes beside it gives way."""

import asyncio
import socket
import threading

import pytest

from practicum.engine import compute_thread
from practicum.engine.compute_thread import give_way, run_attended

LONG_S = 60.0


class CountedEvent(threading.Event):
    def __init__(self) -> None:
        super().__init__()
        self.waits = 0
        self.set()

    def wait(self, timeout: float | None = None) -> bool:
        self.waits += 1
        return super().wait(timeout)


@pytest.fixture
def is_done(monkeypatch: pytest.MonkeyPatch) -> CountedEvent:
    """Nobody has given way yet, and waits are counted."""
    counted = CountedEvent()
    monkeypatch.setattr(compute_thread._work, "is_done", counted)
    monkeypatch.setattr(compute_thread._work, "_gave_way_to", -1)
    return counted


def test_it_runs_as_asyncio_does() -> None:
    async def main() -> int:
        await asyncio.sleep(0)
        return 3

    async def fails() -> None:
        raise ValueError("so")

    assert run_attended(main()) == 3
    with pytest.raises(ValueError, match="so"):
        run_attended(fails())


def test_who_computes_waits_until_the_loop_has_nothing_to_do(
    is_done: CountedEvent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compute_thread, "MOST_S", LONG_S)
    order: list[str] = []

    def compute() -> None:
        give_way()
        order.append("computed")

    async def main() -> None:
        thread = threading.Thread(target=compute)
        thread.start()
        async with asyncio.timeout(LONG_S):
            while not is_done.waits:  # it gives way from now on
                await asyncio.sleep(0)
        for _ in range(20):
            await asyncio.sleep(0)
        order.append("done")
        while thread.is_alive():
            await asyncio.sleep(0.001)

    run_attended(main())
    assert order == ["done", "computed"]


@pytest.mark.usefixtures("is_done")
def test_a_loop_that_is_never_done_is_not_waited_for_forever() -> None:
    async def main() -> bool:
        thread = threading.Thread(target=give_way)
        thread.start()
        thread.join(LONG_S)  # the loop is busy all the while
        return thread.is_alive()

    assert not run_attended(main())


def test_it_gives_way_once_to_a_stretch_of_work(
    is_done: CountedEvent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A loop that is held for long, by a program that is waited for, holds nobody up as long."""
    monkeypatch.setattr(compute_thread, "MOST_S", 0.0)

    async def main() -> list[int]:
        waits = []
        for _ in range(3):
            for _ in range(5):
                give_way()
                await asyncio.sleep(0)
            waits.append(is_done.waits)
            await asyncio.sleep(0.001)  # nothing to do, for once
        return waits

    assert run_attended(main()) == [1, 2, 3]


def test_nobody_waits_without_such_a_loop(is_done: CountedEvent) -> None:
    async def main() -> None:
        give_way()

    asyncio.run(main())
    run_attended(asyncio.sleep(0))
    give_way()
    assert is_done.waits == 0


def test_sockets_are_looked_at_while_the_loop_has_other_work() -> None:
    ours, theirs = socket.socketpair()

    async def main() -> bytes:
        reader, writer = await asyncio.open_connection(sock=ours)
        reading = asyncio.create_task(reader.readexactly(2))
        theirs.send(b"hi")
        async with asyncio.timeout(LONG_S):
            while not reading.done():
                await asyncio.sleep(0)
        writer.close()
        return reading.result()

    with theirs:
        assert run_attended(main()) == b"hi"
