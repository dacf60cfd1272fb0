import asyncio

import pytest

from practicum.environments.serving import lifelong_routes
from practicum.environments.serving.lifelong_routes import Replies


class Counter:
    """Work that says how often it was done."""

    def __init__(self, *, fails: bool = False) -> None:
        self.done = 0
        self.fails = fails

    async def work(self) -> int:
        await asyncio.sleep(0.01)
        self.done += 1
        if self.fails:
            raise ValueError("no luck")
        return self.done


async def test_the_same_question_is_worked_on_once_also_while_it_is_under_way() -> None:
    kept, counter = Replies[int](), Counter()
    asked = [kept.once("a", "turn", "x", counter.work) for _ in range(3)]
    assert await asyncio.gather(*asked) == [1, 1, 1]
    assert await kept.once("a", "turn", "x", counter.work) == 1
    assert await kept.once("a", "turn", "y", counter.work) == 2
    assert await kept.once("b", "turn", "y", counter.work) == 3
    assert await kept.once("a", "check", "y", counter.work) == 4


async def test_work_goes_on_when_who_asked_is_gone() -> None:
    kept, counter = Replies[int](), Counter()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(kept.once("a", "turn", "x", counter.work), 0.001)
    assert await kept.once("a", "turn", "x", counter.work) == 1


async def test_a_failure_is_not_kept() -> None:
    kept, counter = Replies[int](), Counter(fails=True)
    for _ in range(2):
        with pytest.raises(ValueError, match="no luck"):
            await kept.once("a", "turn", "x", counter.work)
    assert counter.done == 2


async def test_the_oldest_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifelong_routes, "MOST_EPISODES", 2)
    kept, counter = Replies[int](), Counter()
    for owner in "abc":
        await kept.once(owner, "turn", "x", counter.work)
    assert await kept.once("c", "turn", "x", counter.work) == 3
    assert await kept.once("a", "turn", "x", counter.work) == 4
    kept.forget("a")
    assert await kept.once("a", "turn", "x", counter.work) == 5
