import math

import pytest
import torch
from pydantic import ValidationError
from tests.unit.rewards.traces import make_group

from practicum.core.config.reward_config import JudgeComponent
from practicum.core.score import JudgeUnavailable, Score
from practicum.core.trace import Message
from practicum.engine.chat.template_codec import TemplateCodec
from practicum.engine.models.tiny import build_tiny
from practicum.engine.sampling.local_judge import LocalJudge, LocalScales, local_judge
from practicum.rewards.judge.judge_reward import JudgeReward

TINY = JudgeComponent(model="tiny", max_tokens=16, way="compared")
SCALES = JudgeComponent(model="tiny")


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


@pytest.mark.parametrize("answers", [("Yes", "No"), ("No", "Yes"), ("1", "2", "3")])
async def test_probabilities_of_answers_are_those_of_the_model(answers: tuple[str, ...]) -> None:
    """Against the model's own logits, computed without our engine."""
    asked = [Message(role="user", content="Is it good?")]
    weighed = await LocalScales(SCALES).weigh(asked, answers)
    module, tokenizer = build_tiny()
    codec = TemplateCodec(tokenizer)
    prompt = codec.open(asked)
    with torch.no_grad():
        logits = module(input_ids=torch.tensor([prompt])).logits[0, -1]
    firsts = [ord(answer[0]) for answer in answers]  # its tokens are bytes
    expected = torch.softmax(logits[firsts].double(), 0).tolist()
    assert weighed.probabilities == pytest.approx(expected, abs=1e-5)
    assert weighed.prompt_tokens == len(prompt)
    assert math.isclose(sum(weighed.probabilities), 1.0, abs_tol=1e-6)


async def test_what_cannot_be_weighed_is_told_as_not_judged() -> None:
    waiting = Score(components={"judge": None})
    judge = JudgeReward(model=LocalScales(SCALES), rubric="word " * 40_000)
    found = await judge.rescore(make_group([waiting, waiting]))
    assert found.usable == ()
    assert "too long for tiny" in found.episodes[0].score.reason


def test_a_local_judge_weighs_unless_told_to_compare() -> None:
    assert isinstance(local_judge(SCALES), LocalScales)
    assert isinstance(local_judge(TINY), LocalJudge)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"repeats": 3}, "repeats is for a judge that writes"),
        ({"way": "weighed", "max_tokens": 100}, "max_tokens is for a judge that writes"),
        ({"way": "weighed", "endpoint": "http://localhost:1/v1"}, "does not tell its probabil"),
    ],
)
def test_options_that_would_do_nothing_are_refused(options: dict[str, object], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        JudgeComponent(model="tiny", **options)  # type: ignore[arg-type]
