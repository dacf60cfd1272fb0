import threading

import pytest

from practicum.core.byte_bound_cache import ByteBoundCache


def test_values_are_made_once_and_the_longest_unused_go() -> None:
    made: list[str] = []

    def make(key: str) -> str:
        made.append(key)
        return key.upper()

    cache = ByteBoundCache(make, lambda key, _: 10, most_bytes=40)
    assert [cache(key) for key in "abcdab"] == list("ABCDAB")
    assert made == list("abcd")
    cache("e")
    assert cache.bytes == 40
    assert [cache.get(key) for key in "abcde"] == ["A", "B", None, "D", "E"]
    cache.drop("a")
    cache.drop("never there")
    assert (cache.bytes, cache.get("a")) == (30, None)


def test_what_leaves_no_room_for_others_and_what_fails_is_not_kept() -> None:
    cache = ByteBoundCache(lambda key: 1 // key, lambda key, _: key, most_bytes=100)
    assert (cache(26), cache.bytes) == (0, 0)
    with pytest.raises(ZeroDivisionError):
        cache(0)
    assert cache.bytes == 0
    assert cache(25) == 0
    assert cache.bytes == 25


def test_threads_that_ask_at_once_keep_one_value() -> None:
    together = threading.Barrier(4)

    def make(key: int) -> object:
        together.wait(120)
        return object()

    cache = ByteBoundCache(make, lambda key, _: 1, most_bytes=100)
    threads = [threading.Thread(target=cache, args=(1,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert cache.bytes == 1
