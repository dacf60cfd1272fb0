import math
from pathlib import Path

import numpy as np
import pytest
from tests.unit.rewards.learned.talks import bad_talk, good_talk, mixed_pool, said, talk, user

from practicum.core.errors import ConfigError, UserError
from practicum.core.interfaces import Reward
from practicum.core.task import Outcome, Task
from practicum.core.trace import Trace
from practicum.rewards.learned.labeler import Labeler, LearnedReward, TracePool, save_labeler

TASK = Task(id="t", env="test", split="train")


@pytest.fixture(scope="module")
def labeler() -> Labeler:
    pool, truth = mixed_pool(60, seed=0)
    return Labeler.fit(pool, truth)[0]


async def value_of(reward: Reward, trace: Trace) -> float | None:
    score = await reward.score(TASK, trace, Outcome(success=None))
    assert list(score.components) == ["learned"]
    return score.value


async def test_a_good_trace_is_worth_more_than_a_bad_one(labeler: Labeler) -> None:
    draw = np.random.default_rng(9)
    good, bad = good_talk("good", draw), bad_talk("bad", draw)
    reward = LearnedReward(labeler=labeler)
    high, low = await value_of(reward, good), await value_of(reward, bad)
    assert high is not None
    assert low is not None
    assert 1 >= high > 0.8
    assert 0 <= low < 0.2


async def test_the_logit_is_the_log_odds_of_the_probability(labeler: Labeler) -> None:
    trace = good_talk("good", np.random.default_rng(9))
    share = await value_of(LearnedReward(labeler=labeler), trace)
    logit = await value_of(LearnedReward(labeler=labeler, form="logit"), trace)
    assert share is not None
    assert logit == pytest.approx(math.log(share / (1 - share)))


async def test_what_it_is_not_sure_of_is_unscored_and_never_nothing(labeler: Labeler) -> None:
    strange = talk("strange", user("sing"), said("La la la."))
    [prediction] = labeler.predict_traces([strange])
    reward = LearnedReward(labeler=labeler, minimum_confidence=0.98)
    assert prediction.confidence < 0.98
    score = await reward.score(TASK, strange, Outcome(success=True))
    assert score.components == {"learned": None}
    assert score.value is None
    assert "less sure than 0.98" in score.reason
    assert await value_of(LearnedReward(labeler=labeler), strange) is not None


async def test_a_saved_labeler_rewards_the_same(labeler: Labeler, tmp_path: Path) -> None:
    save_labeler(labeler, tmp_path)
    trace = good_talk("good", np.random.default_rng(9))
    opened = LearnedReward.open(tmp_path, minimum_confidence=0.6)
    assert await value_of(opened, trace) == await value_of(LearnedReward(labeler=labeler), trace)


async def test_an_embedder_is_asked_with_the_trace() -> None:
    class Counting:
        name = "counting"
        asked = 0

        def embed(self, texts: object) -> np.ndarray:
            assert isinstance(texts, list)
            Counting.asked += len(texts)
            return np.array([[float(len(text))] for text in texts])

    embedder = Counting()
    draw = np.random.default_rng(0)
    traces = [(good_talk, bad_talk)[i % 2](f"t{i}", draw) for i in range(20)]
    pool = TracePool.read(traces, embedder)
    labeler, _ = Labeler.fit(pool, {trace.id: float(i % 2 == 0) for i, trace in enumerate(traces)})
    reward = LearnedReward(labeler=labeler, embedder=embedder)
    before = Counting.asked
    assert await value_of(reward, traces[0]) is not None
    assert Counting.asked == before + 1
    with pytest.raises(UserError, match="taught with counting"):
        LearnedReward(labeler=labeler)


@pytest.mark.parametrize("least", [0.0, 0.49, 1.0, 2.0])
def test_a_confidence_that_cannot_be_is_refused(labeler: Labeler, least: float) -> None:
    with pytest.raises(ConfigError, match=r"from 0\.5"):
        LearnedReward(labeler=labeler, minimum_confidence=least)


def test_a_form_that_does_not_exist_is_refused(labeler: Labeler) -> None:
    with pytest.raises(ConfigError, match="write probability or logit"):
        LearnedReward(labeler=labeler, form="odds")  # type: ignore[arg-type]
