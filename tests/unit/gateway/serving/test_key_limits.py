"""Keys find their clients, limits hold for a minute, and the queue waits its time."""

import asyncio
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from practicum.gateway.requests import Refused
from practicum.gateway.serving import key_limits
from practicum.gateway.serving.key_limits import ApiKey, Client, KeyRing, RequestQueue, Spending


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
        spent.sampled(30)
    with one.admit(1) as spent:  # 70 are left, whatever was reserved before
        spent.read(60)
        spent.sampled(20)
    with pytest.raises(Refused, match="100 tokens") as refused, one.admit(1):
        pass
    assert refused.value.retry_after_s == 60
    now[0] += 61
    with one.admit(1):
        pass


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50), st.booleans()), max_size=30))
def test_nothing_that_is_taken_is_forgotten_however_requests_end(
    requests: list[tuple[int, int, bool]],
) -> None:
    one, taken, over = client(tokens_per_minute=100), 0, list[Spending]()
    for read, sampled, hangs_up in requests:
        if taken >= 100:
            with pytest.raises(Refused), one.admit(40):
                pass
            continue
        with suppress(asyncio.CancelledError), one.admit(40) as spending:
            spending.read(read)
            for _ in range(sampled):
                spending.sampled(1)
            if hangs_up:
                raise asyncio.CancelledError
        over.append(spending)
        taken += read + sampled
    for spending in over:
        spending.sampled(2)  # told late
    assert one._tokens.used() == taken + 2 * len(over)
    assert one._reserved == 0


def test_a_replaced_ring_forgets_keys_and_keeps_what_was_used() -> None:
    ring = KeyRing(
        [
            ApiKey(name="a", key="a" * 16, requests_per_minute=2),
            ApiKey(name="b", key="b" * 16),
        ]
    )
    before = ring.find("a" * 16)
    assert before is not None
    with before.admit(1):
        said = ring.replace(
            [
                ApiKey(name="a", key="A" * 16, requests_per_minute=1),
                ApiKey(name="c", key="c" * 16),
            ]
        )
        assert said == "new: c; gone: b; changed: a"
        assert ring.find("a" * 16) is ring.find("b" * 16) is None
    after = ring.find("A" * 16)
    assert after is not None
    assert after.name == "a"
    with pytest.raises(Refused, match="1 requests a minute"), after.admit(1):
        pass
    assert ring.replace([after.key, ApiKey(name="c", key="c" * 16)]) == ""


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
