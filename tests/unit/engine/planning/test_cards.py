"""Times on a card, beside what was measured on one (docs/performance.md)."""

import pytest

from practicum.engine.planning.cards import CARDS, CardRates, format_hours
from practicum.engine.planning.model_shapes import KNOWN_SHAPES

ROWS, COMPLETION, UNIQUE = 64, 128, 8 * 512 + 64 * 128
"""The benchmark's case: 8 prompts of 512 tokens, 8 completions of 128 each."""


def rates(model: str) -> CardRates:
    parameters = KNOWN_SHAPES[f"Qwen/Qwen2.5-{model}-Instruct"].parameters
    return CardRates(weight_bytes=2 * parameters, parameters=parameters, card=CARDS["h200"])


@pytest.mark.parametrize(
    ("model", "sampling_s", "learning_s"), [("0.5B", 0.271, 0.139), ("7B", 0.821, 0.664)]
)
def test_estimates_are_above_what_was_measured_and_not_far(
    model: str, sampling_s: float, learning_s: float
) -> None:
    found = rates(model)
    assert sampling_s < found.sampling(ROWS, COMPLETION, UNIQUE) < 2 * sampling_s
    assert learning_s < found.learning(UNIQUE) < 2 * learning_s


def test_hours_are_said_in_the_unit_that_suits() -> None:
    assert format_hours(20) == "1 minute"
    assert format_hours(3 * 86_400) == "3.0 days"
