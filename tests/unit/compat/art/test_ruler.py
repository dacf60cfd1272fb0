"""RULER with a judge whose answers are planted."""

import json
import re
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, ClassVar

import pytest

from practicum.compat.art.gather import gather_trajectory_groups
from practicum.compat.art.rewards import find_judge, ruler, ruler_score_group
from practicum.compat.art.trajectories import History, Trajectory, TrajectoryGroup
from practicum.core.errors import UserError
from practicum.core.sampling import Completion, SamplingRequest
from practicum.core.score import JudgeReply, JudgeUnavailable, Weighed
from practicum.core.trace import Message

Shown = dict[str, str]
"""What each attempt ends with, by the id it has in the question."""


class PlantedJudge:
    """Reads the attempts out of the question and answers by a rule."""

    name = "planted"

    def __init__(self, *answers: Callable[[Shown], str]) -> None:
        self._answers = list(answers)
        self.shown: list[Shown] = []
        self.questions: list[str] = []

    async def complete(self, messages: Sequence[Message]) -> JudgeReply:
        question = next(m.content for m in messages if m.role == "user")
        self.questions.append(question)
        rows = [json.loads(line) for line in question.splitlines() if line.startswith('{"id"')]
        self.shown.append({row["id"]: row["messages"][-1]["content"] for row in rows})
        answer = self._answers[min(len(self.shown), len(self._answers)) - 1]
        return JudgeReply(text=answer(self.shown[-1]))


def scores(found: dict[str, float]) -> str:
    return json.dumps({"scores": [{"id": k, "why": "", "score": v} for k, v in found.items()]})


def by_goodness(shown: Shown) -> str:
    return scores({key: 0.9 if "good" in text else 0.1 for key, text in shown.items()})


def backwards(shown: Shown) -> str:
    return by_goodness(dict(reversed(shown.items())))


def leaves_one_out(shown: Shown) -> str:
    return by_goodness(dict(list(shown.items())[1:]))


def says_nothing(shown: Shown) -> str:
    return "They are all fine."


def trajectory(text: str, reward: float = 0.0) -> Trajectory:
    return Trajectory(
        messages_and_choices=[
            {"role": "user", "content": "do it"},
            {"index": 0, "message": {"role": "assistant", "content": text}},
        ],
        reward=reward,
    )


def group(*texts: str) -> TrajectoryGroup:
    return TrajectoryGroup([trajectory(text, 7.0) for text in texts], metadata={"scenario": 1})


@pytest.mark.parametrize("answer", [by_goodness, backwards])
async def test_good_and_bad_are_ranked_in_whichever_order_the_judge_answers(
    answer: Callable[[Shown], str],
) -> None:
    texts = ["bad 1", "good 1", "bad 2", "good 2", "bad 3"]
    judged = await ruler_score_group(group(*texts), PlantedJudge(answer))
    assert judged is not None
    assert [t.reward for t in judged] == [0.1, 0.9, 0.1, 0.9, 0.1]


async def test_the_group_that_was_given_is_left_as_it_is() -> None:
    before = group("bad", "good")
    judged = await ruler_score_group(before, PlantedJudge(by_goodness))
    assert judged is not None
    assert [t.reward for t in before] == [7.0, 7.0]
    assert before.trajectories[0].metrics == {}
    assert before.trajectories[0].logs == []
    assert judged.trajectories[1].metrics == {"independent_reward": 7.0, "ruler_score": 0.9}
    assert judged.metadata == {"scenario": 1}


async def test_a_judge_that_leaves_one_out_is_asked_again() -> None:
    judge = PlantedJudge(leaves_one_out, by_goodness)
    judged = await ruler_score_group(group("bad", "good", "good too"), judge)
    assert judged is not None
    assert [t.reward for t in judged] == [0.1, 0.9, 0.9]
    assert len(judge.shown) == 2


async def test_a_judge_that_keeps_leaving_one_out_is_given_up() -> None:
    judge = PlantedJudge(leaves_one_out)
    with pytest.raises(ValueError, match=r'attempt "\d" has no score'):
        await ruler_score_group(group("bad", "good"), judge)
    assert len(judge.shown) == 3


@pytest.mark.parametrize("answer", [leaves_one_out, says_nothing])
async def test_swallowed_the_group_is_dropped_and_that_is_said(
    answer: Callable[[Shown], str], capsys: pytest.CaptureFixture[str]
) -> None:
    judge = PlantedJudge(answer)
    assert await ruler_score_group(group("bad", "good"), judge, swallow_exceptions=True) is None
    assert "could not be judged" in capsys.readouterr().err


async def test_a_judge_that_cannot_be_reached_is_swallowed_too() -> None:
    class Absent:
        name = "absent"

        async def complete(self, messages: Sequence[Message]) -> JudgeReply:
            raise JudgeUnavailable("nobody answers")

    one = group("good", "bad")
    assert await ruler_score_group(one, Absent(), swallow_exceptions=True) is None
    with pytest.raises(ValueError, match="nobody answers"):
        await ruler_score_group(one, Absent())


async def test_identical_trajectories_are_shown_once_and_share_a_score() -> None:
    judge = PlantedJudge(by_goodness)
    judged = await ruler_score_group(group("good", "bad", "good", "good"), judge)
    assert judged is not None
    assert [t.reward for t in judged] == [0.9, 0.1, 0.9, 0.9]
    assert sorted(judge.shown[0].values()) == ["bad", "good"]
    alike = await ruler_score_group(group("good", "good"), judge)
    assert alike is not None
    assert [t.reward for t in alike] == [0.9, 0.9]
    assert list(judge.shown[-1].values()) == ["good"]


async def test_the_order_that_is_shown_is_not_the_order_given() -> None:
    judge = PlantedJudge(by_goodness)
    texts = [f"attempt {number}" for number in range(8)]
    await ruler_score_group(group(*texts), judge)
    assert sorted(judge.shown[0].values()) == texts
    assert list(judge.shown[0].values()) != texts


async def test_rubric_tools_and_calls_reach_the_judge() -> None:
    said: list[str] = []

    class Listening(PlantedJudge):
        async def complete(self, messages: Sequence[Message]) -> JudgeReply:
            said.extend(m.content for m in messages)
            return await super().complete(messages)

    call = {"id": "a", "function": {"name": "look_up", "arguments": '{"word": "x"}'}}
    lists = [
        [
            {"role": "user", "content": "q"},
            {"role": "assistant", "content": t, "tool_calls": [call]},
        ]
        for t in ("good", "bad")
    ]
    found = await ruler(
        lists, Listening(by_goodness), rubric="short is good", tools=[{"name": "look_up"}]
    )
    assert [score.score for score in found] == [0.9, 0.1]
    assert [score.trajectory_id for score in found] == ["1", "2"]
    text = "\n".join(said)
    assert "short is good" in text
    assert "Tools that were offered" in text
    assert re.search(r'"name": "look_up", "arguments": \{"word": "x"\}', text)


async def test_further_histories_are_judged_with_the_rest() -> None:
    judge = PlantedJudge(by_goodness)
    one, other = trajectory("same"), trajectory("same")
    one.additional_histories = [
        History(messages_and_choices=[{"role": "assistant", "content": "good"}])
    ]
    judged = await ruler_score_group(TrajectoryGroup([one, other]), judge)
    assert judged is not None
    assert [t.reward for t in judged] == [0.9, 0.1]


async def test_no_trajectories_need_no_judge() -> None:
    assert await ruler([], "nowhere/at-all") == []


async def test_as_after_each_of_a_gathering() -> None:
    judge = PlantedJudge(by_goodness)

    async def attempt(text: str) -> Trajectory:
        return trajectory(text)

    groups = await gather_trajectory_groups(
        [TrajectoryGroup([attempt("good"), attempt("bad")])],
        after_each=lambda g: ruler_score_group(g, judge, swallow_exceptions=True),
    )
    assert [t.reward for t in groups[0]] == [0.9, 0.1]


@pytest.mark.parametrize(
    ("judge", "options", "sentence"),
    [
        ("nowhere/model", None, "judge 'nowhere/model' is nowhere: write local/MODEL"),
        ("openai/o3", {"api_key": "secret"}, "write key_variable="),
        ("openai/o3", {"top_p": 1.0}, "the judge takes no 'top_p'"),
        ("openai/o3", {"key_variable": "NO_SUCH_VARIABLE"}, "NO_SUCH_VARIABLE"),
    ],
)
def test_a_judge_that_cannot_be_found_is_said(
    judge: str, options: dict[str, object] | None, sentence: str
) -> None:
    with pytest.raises(UserError) as refused:
        find_judge(judge, options)
    assert sentence in str(refused.value)
    assert "secret" not in str(refused.value)


def test_judges_are_found_by_the_names_scripts_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    assert find_judge("openai/o3", None).name.startswith("o3 at https://api.openai.com/v1")
    at_home = find_judge("my-judge", {"api_base": "http://localhost:1/v1", "temperature": 0.5})
    assert at_home.name.startswith("my-judge at http://localhost:1/v1/chat/completions")
    assert find_judge("ollama/qwen", None).name.startswith("qwen at http://localhost:11434/v1")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"api_base": "localhost:1/v1"}, r"no address; write http://HOST:PORT/v1"),
        ({"api_base": "http://localhost:1/v1", "temperature": -1}, "temperature = -1"),
    ],
)
def test_a_judge_that_cannot_be_asked_is_refused_in_a_sentence(
    options: dict[str, Any], said: str
) -> None:
    with pytest.raises(UserError, match=said):
        find_judge("my-judge", options)


def planted_answer(question: str) -> str:
    """What a judge that prefers the good would answer, the last attempt first."""
    rows = [json.loads(line) for line in question.splitlines() if line.startswith('{"id"')]
    return backwards({row["id"]: row["messages"][-1]["content"] for row in rows})


class PlantedServer(BaseHTTPRequestHandler):
    """An OpenAI-compatible judge."""

    keys: ClassVar[list[str | None]] = []

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.keys.append(self.headers["Authorization"])
        text = planted_answer(asked["messages"][1]["content"])
        answer = {"choices": [{"message": {"role": "assistant", "content": text}}]}
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


async def test_a_judge_on_a_server_of_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("httpx")
    monkeypatch.setenv("JUDGE_KEY", "secret")
    with ThreadingHTTPServer(("127.0.0.1", 0), PlantedServer) as server:
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        options = {
            "api_base": f"http://127.0.0.1:{server.server_address[1]}/v1",
            "key_variable": "JUDGE_KEY",
        }
        judged = await ruler_score_group(group("bad", "good", "worse"), "judge-7b", options)
        server.shutdown()
    assert judged is not None
    assert [t.reward for t in judged] == [0.1, 0.9, 0.1]
    assert PlantedServer.keys == ["Bearer secret"]


class PlantedSampler:
    """A local model that prefers the good."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer

    async def sample(self, request: SamplingRequest) -> Completion:
        text = planted_answer(self._tokenizer.decode(request.prompt_ids, skip_special_tokens=True))
        ids = tuple(text.encode())
        return Completion(
            token_ids=ids,
            text=text,
            logprobs=(0.0,) * len(ids),
            loss_mask=(True,) * len(ids),
            log_kept=(),
            choices=(),
            temperature=0.0,
            fingerprint="",
            finished=True,
            ended_turn=True,
        )


async def test_a_local_judge_is_asked_in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    from practicum.engine.chat.template_codec import TemplateCodec
    from practicum.engine.models.tiny import build_tiny_tokenizer

    tokenizer = build_tiny_tokenizer()
    local = (PlantedSampler(tokenizer), TemplateCodec(tokenizer))
    monkeypatch.setattr("practicum.engine.sampling.local_judge._loaded", lambda model: local)
    attempts = group("bad", "good", "good too")
    judged = await ruler_score_group(attempts, "local/any-model", {"max_tokens": 500})
    assert judged is not None
    assert [t.reward for t in judged] == [0.1, 0.9, 0.9]


class PlantedScales:
    """A judge that is asked for probabilities and finds the good likely good."""

    name = "scales"

    async def weigh(self, messages: Sequence[Message], answers: tuple[str, ...]) -> Weighed:
        assert answers == ("Yes", "No")
        yes = 0.8 if '"good' in messages[-1].content else 0.3
        return Weighed(probabilities=(yes, 1 - yes), prompt_tokens=7)


async def test_a_judge_whose_probabilities_can_be_read_weighs_each() -> None:
    judged = await ruler_score_group(group("bad", "good", "good too"), PlantedScales())
    assert judged is not None
    assert [t.reward for t in judged] == [0.3, 0.8, 0.8]


async def test_a_local_model_weighs_unless_it_is_told_how_to_write() -> None:
    assert find_judge("local/tiny", None).name == "tiny here (weighing)"
    assert find_judge("local/tiny", {"temperature": 0.5}).name == "tiny here (temperature 0.5)"
    judged = await ruler_score_group(group("good", "bad"), "local/tiny")
    assert judged is not None
    assert all(0.0 < t.reward < 1.0 for t in judged)


async def test_a_local_model_that_cannot_judge_is_not_taken_for_one() -> None:
    one = group("good", "bad")
    options = {"max_tokens": 16}
    with pytest.raises(ValueError, match="no JSON object with scores"):
        await ruler_score_group(one, "local/tiny", options)
    assert await ruler_score_group(one, "local/tiny", options, swallow_exceptions=True) is None
