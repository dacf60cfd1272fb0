import dataclasses

import pytest

from practicum.core.score import Score


def test_the_value_is_the_weighted_sum_and_a_missing_weight_is_one() -> None:
    score = Score(components={"solved": 1.0, "brevity": 0.5}, weights={"brevity": 0.2})
    assert score.value == pytest.approx(1.1)


def test_one_missing_component_leaves_the_whole_score_missing() -> None:
    assert Score(components={"solved": 1.0, "judge": None}).value is None


def test_a_missing_component_counts_even_with_weight_zero() -> None:
    assert Score(components={"judge": None}, weights={"judge": 0.0}).value is None


def test_unscored_is_not_worth_nothing() -> None:
    unscored = Score.unscored("the judge did not answer")
    assert unscored.value is None
    assert unscored.reason == "the judge did not answer"
    assert Score(components={"solved": 0.0}).value == 0.0


def test_a_weight_without_its_component_changes_nothing() -> None:
    assert Score(components={"solved": 1.0}, weights={"style": 9.0}).value == 1.0


def test_a_score_cannot_be_edited() -> None:
    score = Score(components={"solved": 1.0})
    with pytest.raises(dataclasses.FrozenInstanceError):
        score.reason = "better"  # type: ignore[misc]
