import numpy as np
import pytest

from practicum.core.sample import Batch, Episode, Group
from practicum.core.score import Score
from practicum.core.task import Task
from practicum.core.trace import StopReason, Trace


def make_episode(value: float | None, stop: StopReason = StopReason.FINISHED) -> Episode:
    return Episode(
        trace=Trace(id="e", task_id="t", env="math", stop=stop),
        outcome=None,
        score=Score(components={"turns": value}),
    )


def test_an_unscored_episode_is_not_trained_on() -> None:
    assert not make_episode(None).is_usable


@pytest.mark.parametrize("stop", [StopReason.ENVIRONMENT_FAILED, StopReason.CANCELLED])
def test_a_masked_episode_is_not_trained_on_even_if_it_has_a_score(stop: StopReason) -> None:
    assert not make_episode(1.0, stop).is_usable


def test_an_episode_worth_nothing_is_trained_on() -> None:
    assert make_episode(0.0).is_usable


def test_a_group_compares_only_its_usable_episodes() -> None:
    episodes = (
        make_episode(2.0),
        make_episode(None),
        make_episode(9.0, StopReason.AGENT_FAILED),
        make_episode(0.0, StopReason.MAX_TURNS),
    )
    group = Group(task=Task(id="t", env="math", split="train"), episodes=episodes)
    assert group.usable == (episodes[0], episodes[3])
    assert group.values == (2.0, 0.0)


def test_a_batch_reports_what_sharing_saved() -> None:
    ints, floats = np.zeros(3, np.int64), np.zeros(3, np.float32)
    batch = Batch(
        token_ids=np.zeros(5, np.int64),
        position=np.zeros(5, np.int64),
        end=np.zeros(5, np.int64),
        predictor=np.zeros(2, np.int64),
        target=np.zeros(2, np.int64),
        temperature=np.ones(2, np.float32),
        choice_ids=np.full((2, 1), -1),
        term_decision=ints,
        term_old_logprob=floats,
        term_advantage=floats,
        term_return=floats,
        term_old_value=floats,
        term_weight=floats,
        term_sample=ints,
        row_tokens=8,
    )
    assert batch.stats() == {"tokens": 5, "row_tokens": 8, "decisions": 2, "terms": 3}
