import asyncio
import threading
import time

import pytest

from practicum.core.network_thread import NetworkThread


async def short_wait() -> str:
    async with asyncio.timeout(1.0):
        await asyncio.sleep(0.05)
    return threading.current_thread().name


async def test_a_time_limit_does_not_count_what_the_waiting_loop_is_busy_with() -> None:
    network = NetworkThread()
    waiting = asyncio.create_task(network.run_async(short_wait()))
    await asyncio.sleep(0)
    time.sleep(1.2)  # as sampling and learning do
    assert await waiting == "network"
    network.stop()


async def test_work_ends_with_who_waits_for_it() -> None:
    network, ended = NetworkThread(), threading.Event()

    async def endless() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            ended.set()

    with pytest.raises(TimeoutError):
        await asyncio.wait_for(network.run_async(endless()), 0.05)
    assert await asyncio.to_thread(ended.wait, 120)
    network.stop()


async def test_stopping_ends_what_is_under_way_and_it_can_be_used_again() -> None:
    network = NetworkThread()
    waiting = asyncio.create_task(network.run_async(asyncio.sleep(3600)))
    await asyncio.sleep(0.05)
    await asyncio.to_thread(network.stop)
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert network.run(short_wait()) == "network"
    network.stop()
    network.stop()


def test_nothing_runs_before_it_is_used() -> None:
    before = threading.active_count()
    NetworkThread().stop()
    assert threading.active_count() == before
