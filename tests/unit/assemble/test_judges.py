import pytest
from tests.unit.rewards.traces import make_group

from practicum.assemble.judges import LocalJudge
from practicum.core.config.reward_components import JudgeComponent
from practicum.core.judging import JudgeUnavailable
from practicum.core.score import Score
from practicum.core.trace import Message
from practicum.rewards import JudgeReward

TINY = JudgeComponent(model="tiny", max_tokens=16)


async def test_a_model_in_this_process_answers_and_its_tokens_are_counted() -> None:
    asked = [Message(role="user", content="Which is better?")]
    replies = [await LocalJudge(TINY).complete(asked) for _ in range(2)]
    assert replies[0] == replies[1]  # at temperature 0
    assert replies[0].prompt_tokens > 0
    assert 0 < replies[0].completion_tokens <= 16


async def test_nonsense_from_it_is_no_score() -> None:
    waiting = Score(components={"judge": None})
    judge = JudgeReward(model=LocalJudge(TINY), retries=0)
    found = await judge.rescore(make_group([waiting, waiting]))
    assert found.usable == ()
    assert "not judged" in found.episodes[0].score.reason


async def test_what_does_not_fit_it_is_told() -> None:
    asked = [Message(role="user", content="word " * 40_000)]
    with pytest.raises(JudgeUnavailable, match="too long for tiny"):
        await LocalJudge(TINY).complete(asked)
