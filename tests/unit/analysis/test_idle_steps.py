"""Steps from which nothing can be learned say why at once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from practicum.analysis.alarms import AlarmWatch, find_alarms
from practicum.analysis.idle_steps import why_all_alike, why_idle
from practicum.core.task import JSON

STEP: dict[str, JSON] = {
    "stage": "grpo",
    "reward": 0.0,
    "success": None,
    "episodes": 32,
    "groups": 4,
    "flat_share": 1.0,
    "score_spread": 0.0,
    "sampled_tokens": 900,
    "timed_out_episodes": 0,
}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"sampled_tokens": 0}, "the model was not called in any of the 32 episodes"),
        ({"timed_out_episodes": 32}, "all 32 episodes were cut off at agent.deadline_s"),
    ],
)
def test_a_step_that_can_teach_nothing_is_told_once_at_the_first_step_and_nothing_else_is(
    changed: dict[str, JSON], said: str
) -> None:
    row = {**STEP, "success": 0.0, **changed}
    told = find_alarms([(step, row) for step in range(1, 30)], {})
    [alarm] = told.alarms
    assert (alarm.kind, alarm.step, alarm.since) == ("idle", 1, 1)
    assert alarm.text.startswith(said)
    assert told.active == {"idle"}, "no advice about easier tasks"


def test_what_was_idle_and_comes_to_life_is_watched_as_ever() -> None:
    watch = AlarmWatch()
    assert watch.observe(1, {**STEP, "sampled_tokens": 0})
    for step in range(2, 20):
        watch.observe(step, {**STEP, "success": 0.0, "groups": 8})
    assert "flat" in watch.active
    assert "idle" not in watch.active


@pytest.mark.parametrize(
    ("changed", "is_told"),
    [
        ({}, True),
        ({"success": 0.4}, True),
        ({"success": 0.0}, False),  # nothing is solved yet, and paid so
        ({"success": 0.0, "reward": -0.5}, False),
        ({"success": 0.0, "reward": 0.5}, True),
        ({"success": 1.0}, False),
        ({"score_spread": 0.5}, False),
        ({"groups": 1}, False),  # one task says nothing of the others
    ],
)
def test_a_reward_that_pays_everything_the_same_is_told_where_it_cannot_be_the_policy(
    changed: dict[str, JSON], is_told: bool
) -> None:
    said = why_all_alike({**STEP, **changed})
    assert bool(said) is is_told
    assert not is_told or "for each of the 32 episodes" in said
    assert not is_told or "reward=FILE.py:FUNCTION" in said


@given(st.dictionaries(st.sampled_from(sorted(STEP)), st.none() | st.floats() | st.integers(0, 9)))
def test_any_row_can_be_looked_at(row: dict[str, JSON]) -> None:
    assert isinstance(why_idle(row), str)
    assert isinstance(why_all_alike(row), str)
