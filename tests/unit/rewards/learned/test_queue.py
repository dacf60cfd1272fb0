import pytest
from tests.unit.rewards.learned.talks import mixed_pool

from practicum.rewards.learned.review_queue import FIRST, Order, ReviewQueue


def asked_in_turn(queue: ReviewQueue, truth: dict[str, float], count: int) -> list[str]:
    names = []
    for _ in range(count):
        name = queue.next()
        if name is None:
            break
        names.append(name)
        queue.answer(name, truth[name])
    return names


@pytest.mark.parametrize("order", ["uncertain", "random", "oldest"])
def test_every_trace_comes_once_and_then_none(order: Order) -> None:
    pool, truth = mixed_pool(24, seed=0)
    queue = ReviewQueue(pool, {}, order, seed=0)
    assert sorted(asked_in_turn(queue, truth, 99)) == sorted(pool.ids)
    assert queue.next() is None
    assert queue.left() == 0


@pytest.mark.parametrize("order", ["uncertain", "random"])
def test_the_order_follows_from_the_seed(order: Order) -> None:
    pool, truth = mixed_pool(24, seed=0)
    orders = [asked_in_turn(ReviewQueue(pool, {}, order, seed), truth, 14) for seed in (1, 1, 2)]
    assert orders[0] == orders[1]
    if order == "random":
        assert orders[0] != orders[2]


def test_a_later_sitting_goes_on_where_the_first_one_ended() -> None:
    pool, truth = mixed_pool(24, seed=0)
    whole = asked_in_turn(ReviewQueue(pool, {}, "oldest", seed=0), truth, 24)
    first = ReviewQueue(pool, {}, "oldest", seed=0)
    begun = asked_in_turn(first, truth, 10)
    rest = asked_in_turn(ReviewQueue(pool, first.labels, "oldest", seed=0), truth, 24)
    assert begun + rest == whole


def test_the_same_trace_is_shown_until_it_is_answered() -> None:
    pool, _ = mixed_pool(10, seed=0)
    queue = ReviewQueue(pool, {}, "uncertain", seed=0)
    assert queue.next() == queue.next()


def test_one_that_is_passed_over_does_not_come_again_and_is_no_label() -> None:
    pool, truth = mixed_pool(10, seed=0)
    queue = ReviewQueue(pool, {}, "oldest", seed=0)
    queue.skip("t0")
    assert asked_in_turn(queue, truth, 99) == [f"t{index}" for index in range(1, 10)]
    assert "t0" not in queue.labels


def test_one_that_is_taken_back_comes_next() -> None:
    pool, truth = mixed_pool(30, seed=0)
    queue = ReviewQueue(pool, {}, "uncertain", seed=0)
    names = asked_in_turn(queue, truth, 12)
    queue.take_back(names[-1])
    assert queue.next() == names[-1]
    assert len(queue.labels) == 11


def test_there_is_a_suggestion_once_there_is_enough_to_learn_from() -> None:
    pool, truth = mixed_pool(40, seed=0)
    queue = ReviewQueue(pool, {}, "uncertain", seed=0)
    assert queue.suggestion("t7") is None
    asked_in_turn(queue, truth, FIRST + 4)
    unseen = [name for name in pool.ids if name not in queue.labels]
    said = {name: queue.suggestion(name) for name in unseen}
    assert all(one is not None and one.is_good == bool(truth[name]) for name, one in said.items())


def test_a_suggestion_follows_the_labels_as_they_change() -> None:
    pool, truth = mixed_pool(40, seed=0)
    queue = ReviewQueue(pool, {name: truth[name] for name in pool.ids[:12]}, "oldest", seed=0)
    before = queue.suggestion("t20")
    for name in pool.ids[:12]:
        queue.answer(name, 1 - truth[name])
    after = queue.suggestion("t20")
    assert before is not None
    assert after is not None
    assert before.is_good != after.is_good
