"""Keys find their clients, limits hold for a minute, and the queue waits its time."""

import asyncio

import pytest

from practicum.gateway.requests import Refused
from practicum.gateway.serving import key_limits
from practicum.gateway.serving.key_limits import ApiKey, Client, KeyRing, RequestQueue


def client(**limits: int) -> Client:
    return Client(ApiKey(name="a", key="k" * 16, **limits))  # type: ignore[arg-type]


def test_a_key_finds_its_client_and_no_other() -> None:
    ring = KeyRing([ApiKey(name=name, key=name * 16) for name in "ab"])
    found = ring.find("b" * 16)
    assert found is not None
    assert found.name == "b"
    assert ring.find("b" * 15) is None
    assert ring.find("") is None


def test_without_keys_everyone_is_one_client() -> None:
    ring = KeyRing()
    assert ring.find("") is ring.find("anything") is not None


def test_requests_beyond_the_limit_are_refused_with_the_time_to_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [1000.0]
    monkeypatch.setattr(key_limits.time, "monotonic", lambda: now[0])
    one = client(requests_per_minute=2)
    for _ in range(2):
        with one.admit(10):
            now[0] += 10
    with pytest.raises(Refused) as refused, one.admit(10):
        pass
    assert refused.value.status == 429
    assert refused.value.retry_after_s == 40
    now[0] += 40
    with one.admit(10):
        pass


def test_tokens_count_while_they_are_sampled_and_for_a_minute_after(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [1000.0]
    monkeypatch.setattr(key_limits.time, "monotonic", lambda: now[0])
    one = client(tokens_per_minute=100)
    with one.admit(100) as spent:
        with pytest.raises(Refused), one.admit(1):
            pass
        spent.tokens = 30
    with one.admit(1) as spent:  # 70 are left, whatever was reserved before
        spent.tokens = 80
    with pytest.raises(Refused, match="100 tokens") as refused, one.admit(1):
        pass
    assert refused.value.retry_after_s == 60
    now[0] += 61
    with one.admit(1):
        pass


async def test_requests_wait_in_the_order_they_came() -> None:
    queue, order = RequestQueue(1, 10), list[int]()

    async def work(number: int) -> None:
        async with queue.turn():
            order.append(number)
            await asyncio.sleep(0)

    await asyncio.gather(*map(work, range(5)))
    assert order == [0, 1, 2, 3, 4]
    assert (queue.waiting, queue.under_way) == (0, 0)


async def test_waiting_ends_with_a_refusal_that_can_be_retried() -> None:
    queue = RequestQueue(1, 0.05)
    async with queue.turn():
        with pytest.raises(Refused, match="try again") as refused:
            async with queue.turn():
                pass
    assert (refused.value.status, refused.value.kind) == (429, "rate_limit_error")
    async with queue.turn() as waited_s:
        assert waited_s < 10


async def test_a_long_queue_refuses_at_once() -> None:
    queue = RequestQueue(1, 60, most_waiting=1)
    async with queue.turn():
        second = asyncio.create_task(queue.turn().__aenter__())
        await asyncio.sleep(0)
        with pytest.raises(Refused):
            async with queue.turn():
                pass
        second.cancel()
