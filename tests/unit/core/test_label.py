import math

import pytest

from practicum.core.errors import UserError
from practicum.core.score import Label


def make_label(value: float, confidence: float | None = None) -> Label:
    return Label(episode_id="e", value=value, author="ann", created_at=1.0, confidence=confidence)


def test_a_label_is_a_persons_word_unless_it_says_otherwise() -> None:
    label = make_label(1.0)
    assert label.is_good
    assert not label.is_suggestion
    assert label.confidence is None


def test_the_middle_counts_as_good() -> None:
    assert [make_label(value).is_good for value in (0.0, 0.49, 0.5)] == [False, False, True]


@pytest.mark.parametrize("value", [-0.1, 1.1, math.nan, math.inf])
def test_a_value_beyond_good_and_bad_is_refused(value: float) -> None:
    with pytest.raises(UserError, match=r"from 0 \(bad\) to 1 \(good\)"):
        make_label(value)


@pytest.mark.parametrize("confidence", [-0.1, 1.1, math.nan])
def test_a_confidence_that_is_no_probability_is_refused(confidence: float) -> None:
    with pytest.raises(UserError, match="from 0 to 1"):
        make_label(1.0, confidence)
