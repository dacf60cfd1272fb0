import numpy as np
import pytest
from tests.unit.training.algorithms.cases import make_episode, whole
from tests.unit.training.recorded_rows import make_row

from practicum.core.errors import UserError
from practicum.core.sample import Example, TokenisedExample
from practicum.training.example_steps import (
    OfflineExample,
    offline_example,
    offline_examples,
    units,
)


def row(*ids: int, given: int, choices: dict[int, tuple[int, ...]] | None = None) -> OfflineExample:
    """Tokens of which all after the first `given` are learned from."""
    mask = np.arange(len(ids)) >= given
    tokens = TokenisedExample(token_ids=np.asarray(ids), loss_mask=mask, given=given)
    made = offline_example(Example(id=str(ids), task_id="t", messages=()), tokens)
    if choices:
        object.__setattr__(made.sample, "choices", choices)
    return made


def test_a_beginning_takes_the_rest_of_another_row() -> None:
    one, other = row(1, 2, 3, 4, given=2), row(5, 6, 7, 8, 9, given=3, choices={4: (9, 10)})
    other.sample.temperatures[3:] = 0.5
    mixed = one.with_completion_of(other)
    assert mixed.token_ids.tolist() == [1, 2, 8, 9]
    assert mixed.loss_mask.tolist() == [False, False, True, True]
    assert mixed.temperatures.tolist() == [1, 1, 0.5, 0.5]
    assert mixed.choices == {3: (9, 10)}
    assert one.sample.token_ids.tolist() == [1, 2, 3, 4]


def test_an_example_keeps_what_its_training_set_says() -> None:
    example = Example(
        id="a", task_id="t", messages=(), label=False, pair="p", chosen=True, weight=2.5, reward=0.5
    )
    tokens = TokenisedExample(
        token_ids=np.arange(3), loss_mask=np.array([False, True, True]), given=1
    )
    made = offline_example(example, tokens)
    assert (made.id, made.task_id, made.label, made.pair) == ("a", "t", False, "p")
    assert (made.chosen, made.weight, made.reward) == (True, 2.5, 0.5)
    assert made.sample.old_logprobs.tolist() == [0, 0, 0]


def test_an_episode_is_learned_from_as_it_was_sampled() -> None:
    [made] = offline_examples(make_episode((3, 4), (5,), score=whole(0.5), name="e"), True)
    assert made.sample.token_ids.tolist() == [0, 3, 4, 0, 5]
    assert made.sample.loss_mask.tolist() == [False, True, True, False, True]
    assert (made.id, made.label, made.reward) == ("e", True, 0.5)


def test_rows_are_drawn_alone_and_pairs_with_the_chosen_side_first() -> None:
    rows = [
        make_row(0, pair="a", chosen=False),
        make_row(1, pair="b", chosen=True),
        make_row(2, pair="a", chosen=True),
        make_row(3, pair="b", chosen=False),
    ]
    assert units(rows, "kto") == [(r,) for r in rows]
    assert units(rows, "dpo") == [(rows[2], rows[0]), (rows[1], rows[3])]


@pytest.mark.parametrize("sides", [[True], [True, True], [True, False, False]])
def test_a_pair_without_its_two_sides_is_refused(sides: list[bool]) -> None:
    rows = [make_row(n, pair="a", chosen=side) for n, side in enumerate(sides)]
    with pytest.raises(UserError, match=f"'a' has {len(sides)} sides.*--kind dpo"):
        units(rows, "dpo")
