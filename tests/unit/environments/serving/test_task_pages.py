from collections.abc import Iterator
from itertools import count
from threading import Event

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.environments.serving.toy import ToyEnvironment, toy_task

from practicum.core.task import Split, Task
from practicum.environments.serving.env_records import Refusal, task_from
from practicum.environments.serving.openenv import (
    FURTHEST_SKIP,
    LONGEST_PAGE,
    OPEN_STREAMS,
    TaskPages,
)


class CountingEnvironment(ToyEnvironment):
    """Counts the streams that are begun."""

    begun = 0

    def tasks(self, split: Split, seed: int) -> Iterator[Task]:
        type(self).begun += 1
        yield from super().tasks(split, seed)


def test_pages_put_together_are_the_stream_and_it_is_begun_once() -> None:
    environment = CountingEnvironment()
    pages = TaskPages(environment)
    whole = list(environment.tasks("train", 3))
    CountingEnvironment.begun = 0
    found = [task for offset in range(0, 12, 4) for task in pages.page("train", 3, offset, 4)]
    assert found == whole
    assert CountingEnvironment.begun == 1


def test_a_page_can_be_asked_for_again_and_out_of_order() -> None:
    pages = TaskPages(ToyEnvironment())
    later = pages.page("heldout", 0, 3, 2)
    assert pages.page("heldout", 0, 3, 2) == later
    assert pages.page("heldout", 0, 0, 5)[3:] == later
    assert pages.page("heldout", 0, 5, 5) == []


def test_streams_that_nobody_reads_on_are_forgotten() -> None:
    pages = TaskPages(ToyEnvironment())
    for seed in range(3 * OPEN_STREAMS):
        pages.page("train", seed, 0, 1)
    assert len(pages._streams) == OPEN_STREAMS


@pytest.mark.parametrize(
    ("split", "offset", "count"), [("test", 0, 1), ("train", -1, 1), ("train", 0, 0)]
)
def test_a_page_that_cannot_be_is_refused(split: str, offset: int, count: int) -> None:
    with pytest.raises(Refusal):
        TaskPages(ToyEnvironment()).page(split, 0, offset, count)


def test_a_seed_gives_the_same_task_and_no_seed_the_next_one() -> None:
    pages = TaskPages(ToyEnvironment())
    assert pages.choose({"seed": 4}) == pages.choose({"seed": 4})
    round_trip = [pages.choose({}).id for _ in range(11)]
    assert len(set(round_trip[:10])) == 10
    assert round_trip[10] == round_trip[0]
    assert pages.choose({"split": "heldout"}).split == "heldout"


def test_a_task_is_chosen_by_id_or_sent_whole() -> None:
    pages = TaskPages(ToyEnvironment())
    assert pages.choose({"task_id": "toy-7"}) == toy_task(7)
    assert pages.choose({"task": toy_task(7).to_json()}) == toy_task(7)
    with pytest.raises(Refusal, match="no task 'nothing'"):
        pages.choose({"task_id": "nothing"})
    for seed in ("1", 1.5, True):
        with pytest.raises(Refusal, match="whole number"):
            pages.choose({"seed": seed})


@pytest.mark.parametrize(
    "values",
    [
        None,
        [],
        {},
        {**toy_task(1).to_json(), "level": "1"},
        {**toy_task(1).to_json(), "split": "test"},
        {**toy_task(1).to_json(), "data": None},
    ],
)
def test_a_task_that_is_not_whole_is_refused(values: object) -> None:
    with pytest.raises(Refusal, match="GET /tasks"):
        task_from(values, "toy")


class EndlessEnvironment(ToyEnvironment):
    """As most are: tasks without end from a seed. Counts those it makes."""

    made = 0

    def tasks(self, split: Split, seed: int) -> Iterator[Task]:
        task = toy_task(1)
        for _ in count():
            self.made += 1
            yield task


def test_an_offset_far_ahead_is_refused_before_a_task_is_made() -> None:
    environment = EndlessEnvironment()
    with pytest.raises(Refusal, match="more than 100000 tasks ahead"):
        TaskPages(environment).page("train", 0, 1_000_000_000, 50)
    assert environment.made == 0


@given(
    reads=st.lists(
        st.tuples(
            st.one_of(st.sampled_from(["train", "heldout"]), st.text(max_size=5)),
            st.integers(0, 2),
            st.one_of(st.integers(-5, 2000), st.integers(2 * FURTHEST_SKIP)),
            st.integers(-1, LONGEST_PAGE + 2),
        ),
        max_size=4,
    )
)
def test_whatever_pages_are_read_no_more_than_the_bound_is_made(
    reads: list[tuple[str, int, int, int]],
) -> None:
    environment = EndlessEnvironment()
    pages = TaskPages(environment)
    for split, seed, offset, size in reads:
        before = environment.made
        try:
            assert len(pages.page(split, seed, offset, size)) == size
        except Refusal:
            assert environment.made == before
        assert environment.made - before <= FURTHEST_SKIP + LONGEST_PAGE


def test_the_next_task_is_given_whatever_pages_others_read() -> None:
    pages = TaskPages(ToyEnvironment())
    first = [pages.choose({}).id for _ in range(3)]
    for seed in range(2 * OPEN_STREAMS):
        pages.page("train", seed, 0, 1)
    rest = [pages.choose({}).id for _ in range(7)]
    assert len({*first, *rest}) == 10


class StuckEnvironment(ToyEnvironment):
    """Searches for its first task until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.let_go = Event()

    def tasks(self, split: Split, seed: int) -> Iterator[Task]:
        self.let_go.wait()
        yield from super().tasks(split, seed)


async def test_tasks_that_take_for_ever_hold_up_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("practicum.environments.serving.openenv.PAGE_S", 0.05)
    environment = StuckEnvironment()
    pages = TaskPages(environment)
    try:
        for _ in range(2):  # the second waits for the first, which still runs
            with pytest.raises(Refusal, match="not found within") as refused:
                await pages.find_off_loop(lambda: pages.page("train", 0, 0, 1))
            assert refused.value.status == 502
    finally:
        environment.let_go.set()
