"""Where tasks of a bucket come from, and that a resumed run finds them again."""

import json
import random
from collections import Counter
from collections.abc import Iterator
from functools import partial
from itertools import count, islice

import pytest
from tests.unit.training.curricula.simulated_groups import level_tasks, make_task

from practicum.core.errors import UserError
from practicum.core.task import Task
from practicum.training.curricula.task_sources import (
    LOOKAHEAD,
    LevelStreams,
    LookAhead,
    TaskCatalogue,
    TaskSource,
)


def of_level(task: Task) -> str:
    return f"level_{task.level}"


def rare_and_common(seed: int = 0) -> Iterator[Task]:
    """One task in a hundred is of level 2."""
    rng = random.Random(seed)
    return (make_task(f"t{n}", 2 if rng.random() < 0.01 else 1) for n in count())


def ended(number: int) -> Iterator[Task]:
    return (make_task(f"t{n}") for n in range(number))


SOURCES = {
    "levels": lambda: LevelStreams({n: partial(level_tasks, n) for n in (1, 2)}),
    "ahead": lambda: LookAhead(rare_and_common, of_level),
    "catalogue": lambda: TaskCatalogue(partial(ended, 7)),
}


@pytest.mark.parametrize("kind", SOURCES)
def test_a_restored_source_gives_what_the_first_would_have(kind: str) -> None:
    source: TaskSource = SOURCES[kind]()
    order = random.Random(5)
    drawn = [source.take(order.choice(source.buckets())) for _ in range(60)]
    saved, dice = json.dumps(source.state()), order.getstate()
    expected = [source.take(order.choice(source.buckets())) for _ in range(60)]
    again: TaskSource = SOURCES[kind]()
    again.restore(json.loads(saved))
    order.setstate(dice)
    assert json.dumps(again.state()) == saved
    assert [again.take(order.choice(again.buckets())) for _ in range(60)] == expected
    assert again.shares() == source.shares()
    assert [again.find(one.bucket, one.number) for one in drawn if one] == [o for o in drawn if o]


def test_levels_are_read_independently_and_no_task_is_skipped() -> None:
    source = SOURCES["levels"]()
    drawn = [source.take(bucket) for bucket in ("level_2", "level_1", "level_2")]
    assert [one.task.id for one in drawn if one] == ["L2-0", "L1-0", "L2-1"]


def test_a_level_that_ends_starts_again() -> None:
    source = LevelStreams({1: partial(ended, 2)})
    assert [one.task.id for _ in range(5) if (one := source.take("level_1"))] == [
        *("t0", "t1", "t0", "t1", "t0")
    ]


def test_a_level_without_tasks_is_an_error_in_words() -> None:
    with pytest.raises(UserError, match="no training tasks"):
        LevelStreams({1: partial(ended, 0)}).take("level_1")


def test_a_rare_bucket_is_searched_for_and_not_pushed_out() -> None:
    source = LookAhead(rare_and_common, of_level)
    drawn = [source.take("level_2") for _ in range(50)]
    levels = Counter(one.task.level for one in drawn if one is not None)
    assert levels[2] >= 45
    numbers = [one.number for one in drawn if one is not None]
    assert len(set(numbers)) == len(numbers)
    stream = [task.id for task in islice(rare_and_common(), max(numbers) + 1) if task.level == 2]
    assert [one.task.id for one in drawn if one is not None] == stream
    held = source.state()["held"]
    assert isinstance(held, list)
    assert len(held) <= LOOKAHEAD


def test_a_bucket_that_does_not_come_is_given_up_after_looking_ahead() -> None:
    source = LookAhead(rare_and_common, of_level)
    before = source.state()["read"]
    assert source.take("level_9") is None
    assert source.state()["read"] == before + LOOKAHEAD + 1


def test_a_catalogue_has_each_task_once_and_grows_as_it_is_drawn_from() -> None:
    few, many = (TaskCatalogue(partial(ended, number)) for number in (7, 1000))
    assert few.buckets() == [f"task_t{n}" for n in range(7)]
    assert len(many.buckets()) == LOOKAHEAD
    for _ in range(600):
        many.take("task_t0")
    assert len(many.buckets()) == 1000
