from practicum.store.events import Stamp, current_rows


def current(rows: list[Stamp], starts: dict[int, int]) -> list[Stamp]:
    return current_rows(rows, stamp=lambda row: row, starts=starts)


def test_one_attempt_keeps_every_row() -> None:
    rows = [Stamp(1, 1, "step"), Stamp(1, 2, "step"), Stamp(1, 2, "eval")]
    assert current(rows, {1: 0}) == rows


def test_steps_after_the_one_resumed_at_no_longer_count() -> None:
    first = [Stamp(1, step, "step") for step in (1, 2, 3, 4)]
    assert current(first, {1: 0, 2: 2}) == first[:2]


def test_a_replayed_step_counts_once() -> None:
    first = [Stamp(1, step, "step") for step in (1, 2, 3, 4)]
    second = [Stamp(2, step, "step") for step in (3, 4, 5)]
    assert current(first + second, {1: 0, 2: 2}) == first[:2] + second


def test_the_same_thing_recorded_again_at_the_resumed_step_counts_once() -> None:
    rows = [Stamp(1, 2, "step"), Stamp(1, 2, "eval"), Stamp(2, 2, "eval")]
    assert current(rows, {1: 0, 2: 2}) == [rows[0], rows[2]]


def test_a_third_attempt_can_go_back_further_than_the_second() -> None:
    rows = [Stamp(1, 1, "step"), Stamp(1, 2, "step"), Stamp(2, 3, "step"), Stamp(3, 2, "step")]
    assert current(rows, {1: 0, 2: 2, 3: 1}) == [rows[0], rows[3]]


def test_several_rows_of_one_attempt_about_one_step_all_count() -> None:
    rows = [Stamp(1, 1, "train"), Stamp(1, 1, "train")]
    assert current(rows, {1: 0}) == rows
