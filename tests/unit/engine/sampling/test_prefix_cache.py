import random

import numpy as np
import pytest

from practicum.engine.sampling.completions import Match
from practicum.engine.sampling.scheduler import PrefixCache


def ints(*tokens: int) -> np.ndarray:
    return np.asarray(tokens, np.int64)


def insert(cache: PrefixCache, *tokens: int) -> Match:
    """Add a path and keep holding it."""
    match = cache.match(ints(*tokens))
    rest = ints(*tokens[match.slots.size :])
    slots = cache.take(rest.size)
    assert slots is not None
    return cache.extend(match, rest, slots)


def used_slots(cache: PrefixCache) -> list[int]:
    return sorted(slot for run in cache._runs() for slot in run.slots.tolist())


def assert_sound(cache: PrefixCache) -> None:
    assert sorted([*used_slots(cache), *cache._free]) == list(range(cache.capacity))
    for run in cache._runs():
        assert run.tokens.size == run.slots.size > 0
        assert all(child.parent is run for child in run.children.values())
        assert all(int(child.tokens[0]) == key for key, child in run.children.items())
        assert run.holders >= sum(child.holders for child in run.children.values())


def assert_sound_but(cache: PrefixCache, taken: int) -> None:
    """So many slots are with nobody who can be asked."""
    assert len(used_slots(cache)) + cache.free_slots == cache.capacity - taken


def test_paths_that_begin_alike_share_slots() -> None:
    cache = PrefixCache(20)
    first = insert(cache, 1, 2, 3, 4)
    second = insert(cache, 1, 2, 9)
    assert first.slots[:2].tolist() == second.slots[:2].tolist()
    assert cache.free_slots == 20 - 5
    assert cache.match(ints(1, 2, 3)).slots.tolist() == first.slots[:3].tolist()
    assert cache.match(ints(7)).slots.size == 0
    assert_sound(cache)


def test_a_held_path_is_never_dropped() -> None:
    cache = PrefixCache(6)
    held = insert(cache, 1, 2, 3)
    cache.release(insert(cache, 1, 2, 9, 9))
    assert cache.take(4) is None
    taken = cache.take(3)
    assert taken is not None
    assert not set(taken.tolist()) & set(held.slots.tolist())
    cache.give_back(taken)
    assert cache.match(ints(1, 2, 3)).slots.tolist() == held.slots.tolist()
    assert cache.match(ints(1, 2, 9)).slots.size == 2


def test_a_hold_outlives_a_split_of_its_path() -> None:
    cache = PrefixCache(8)
    held = insert(cache, 1, 2, 3, 4)
    cache.release(cache.match(ints(1, 2)))
    cache.release(insert(cache, 1, 2, 7))
    assert cache.take(5) is None  # four are held
    assert cache.take(4) is not None
    assert cache.match(ints(1, 2, 3, 4)).slots.tolist() == held.slots.tolist()


def test_the_least_recently_used_path_goes_first() -> None:
    cache = PrefixCache(6)
    for path in ((1, 1), (2, 2), (3, 3)):
        cache.release(insert(cache, *path))
    cache.release(cache.match(ints(1, 1)))
    assert cache.take(2) is not None
    assert cache.match(ints(2, 2)).slots.size == 0
    assert cache.match(ints(1, 1)).slots.size == 2


def test_a_large_cache_drops_some_more_at_once() -> None:
    cache = PrefixCache(64)
    for first in range(64):
        cache.release(insert(cache, first))
    assert cache.take(1) is not None
    assert cache.free_slots == 1  # two of 64 were dropped
    assert cache.match(ints(1)).slots.size == 0
    assert cache.match(ints(2)).slots.size == 1
    assert_sound_but(cache, taken=1)


def test_slots_that_another_path_has_doubled_come_back() -> None:
    cache = PrefixCache(10)
    first, second = cache.match(ints(1, 2)), cache.match(ints(1, 2))
    slots = [cache.take(2), cache.take(2)]
    assert slots[0] is not None
    assert slots[1] is not None
    one = cache.extend(first, ints(1, 2), slots[0])
    two = cache.extend(second, ints(1, 2), slots[1])
    assert one.slots.tolist() == two.slots.tolist()
    assert cache.free_slots == 8
    assert_sound(cache)


def test_it_grows_without_losing_anything() -> None:
    cache = PrefixCache(4)
    held = insert(cache, 1, 2, 3, 4)
    assert cache.take(1) is None
    cache.grow(6)
    longer = cache.extend(held, ints(5), cache.take(1))  # type: ignore[arg-type]
    assert longer.slots[:4].tolist() == held.slots.tolist()
    assert cache.free_slots == 1
    assert_sound(cache)


@pytest.mark.parametrize("seed", range(15))
def test_any_order_of_use_keeps_paths_right_and_slots_accounted_for(seed: int) -> None:
    chance = random.Random(seed)
    cache = PrefixCache(24)
    written: dict[int, tuple[int, ...]] = {}  # by slot: the path that ends in it
    held: list[tuple[tuple[int, ...], Match]] = []
    for _ in range(300):
        if held and chance.random() < 0.5:
            path, match = held.pop(chance.randrange(len(held)))
            assert [written[s] for s in match.slots.tolist()] == [
                path[: i + 1] for i in range(len(path))
            ]
            cache.release(match)
            continue
        path = tuple(chance.randrange(2) for _ in range(chance.randrange(1, 9)))
        match = cache.match(ints(*path))
        known = match.slots.size
        assert [written[s] for s in match.slots.tolist()] == [path[: i + 1] for i in range(known)]
        slots = cache.take(len(path) - known)
        if slots is None:
            cache.release(match)
            continue
        written.update((s, path[: known + i + 1]) for i, s in enumerate(slots.tolist()))
        held.append((path, cache.extend(match, ints(*path[known:]), slots)))
        assert_sound(cache)
    for _, match in held:
        cache.release(match)
    assert not any(run.holders for run in cache._runs())
    everything = cache.take(24)
    assert everything is not None
    assert used_slots(cache) == []
    cache.give_back(everything)
    assert_sound(cache)


def test_clearing_frees_every_slot() -> None:
    cache = PrefixCache(5)
    cache.release(insert(cache, 1, 2, 3))
    cache.clear()
    assert cache.free_slots == 5
    assert cache.match(ints(1, 2, 3)).slots.size == 0
