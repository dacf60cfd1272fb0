import random

import pytest
import torch

from practicum.engine.sampling.scheduler import FIRST_ROWS, EndStates


def test_a_slot_has_the_state_it_was_given_last() -> None:
    kept = EndStates()
    kept.keep([7, 3], torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    kept.keep([3], torch.tensor([[5.0, 6.0]]))
    assert kept.get(7).tolist() == [1.0, 2.0]  # type: ignore[union-attr]
    assert kept.get(3).tolist() == [5.0, 6.0]  # type: ignore[union-attr]
    assert kept.get(5) is None


def test_a_state_that_was_asked_for_stays_when_its_place_goes_to_another() -> None:
    kept = EndStates()
    kept.keep([1], torch.ones(1, 2))
    asked = kept.get(1)
    kept.drop([1])
    kept.keep([2], torch.zeros(1, 2))
    assert asked is not None
    assert asked.tolist() == [1.0, 1.0]
    assert kept.get(1) is None


def test_nothing_is_known_after_clearing() -> None:
    kept = EndStates()
    kept.keep([1], torch.ones(1, 2))
    kept.clear()
    assert kept.get(1) is None
    kept.keep([], torch.empty(0, 2))
    kept.keep([2], torch.ones(1, 3))  # of another model
    assert kept.get(2).tolist() == [1.0] * 3  # type: ignore[union-attr]


@pytest.mark.parametrize("seed", range(3))
def test_any_order_of_use_agrees_with_a_dictionary(seed: int) -> None:
    chance = random.Random(seed)
    kept, expected = EndStates(), {}
    for _ in range(200):
        slots = chance.sample(range(4 * FIRST_ROWS), chance.randrange(12))
        if chance.random() < 0.3:
            kept.drop(slots)
            for slot in slots:
                expected.pop(slot, None)
            continue
        states = torch.rand(len(slots), 2)
        kept.keep(slots, states)
        expected.update(zip(slots, states.tolist(), strict=True))
    assert len(kept) == len(expected) > FIRST_ROWS
    for slot in range(4 * FIRST_ROWS):
        found = kept.get(slot)
        assert (None if found is None else found.tolist()) == expected.get(slot)
