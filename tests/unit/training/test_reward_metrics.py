import pytest
from tests.unit.rewards.traces import make_group, make_trace

from practicum.core.score import Score
from practicum.training.rollout_steps import reward_metrics


def score(a: float, b: float) -> Score:
    return Score(components={"a": a, "b": b}, weights={"b": 0.5})


def test_components_are_averaged_before_their_weights() -> None:
    groups = [make_group([score(1, 4), score(0, 8)]), make_group([score(1, 0), score(0, 0)])]
    found = reward_metrics(groups)
    assert (found["reward_a"], found["reward_b"]) == (0.5, 3.0)


def test_who_decides_is_counted_within_groups() -> None:
    """a differs by 1/2 around the mean in both groups: 4 halves. b by 2 at weight 1/2 in one: 2."""
    groups = [make_group([score(1, 4), score(0, 8)]), make_group([score(1, 9), score(0, 9)])]
    found = reward_metrics(groups)
    assert found["decides_a"] == pytest.approx(2 / (2 + 2))
    assert found["decides_b"] == pytest.approx(2 / (2 + 2))


def test_one_component_has_nothing_to_share() -> None:
    found = reward_metrics([make_group([Score(components={"a": x}) for x in (0.0, 1.0)])])
    assert found["reward_a"] == 0.5
    assert not [key for key in found if key.startswith("decides_")]


def test_length_and_repetition_are_those_of_usable_episodes() -> None:
    """Nine words thrice the same three: of 7 sequences of three words, 3 are different."""
    traces = [
        make_trace("go on now", "go on now", "go on now", name="a"),
        make_trace("all words here differ", name="b"),
        make_trace("not " * 50, name="c"),
    ]
    group = make_group([Score(components={"a": 1.0})] * 3, traces, masked=[2])
    found = reward_metrics([group])
    assert found["response_tokens"] == (9 + 4) / 2
    assert found["repetition"] == pytest.approx((4 / 7) / 2)


def test_a_step_in_which_nothing_is_usable_says_nothing() -> None:
    assert reward_metrics([make_group([Score.unscored("x")])]) == {}
