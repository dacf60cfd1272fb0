"""The judge on a server, against a real one on this machine."""

import pytest
from tests.unit.rewards.judge.server import answering, completion

from practicum.core.errors import UserError
from practicum.core.score import JudgeUnavailable
from practicum.core.trace import Message
from practicum.rewards.judge.judge_endpoint import EndpointJudge

QUESTION = [Message(role="user", content="Which is better?")]


async def test_it_is_asked_as_openai_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUDGE_KEY", "s3cret")
    with answering(lambda _: (200, completion("the first"))) as (url, asked):
        judge = EndpointJudge(url + "/", "m", key_variable="JUDGE_KEY", temperature=0.3)
        reply = await judge.complete(QUESTION)
    assert (reply.text, reply.prompt_tokens, reply.completion_tokens) == ("the first", 7, 3)
    assert asked == [
        {
            "path": "/v1/chat/completions",
            "key": "Bearer s3cret",
            "model": "m",
            "temperature": 0.3,
            "max_tokens": 2000,
            "messages": [{"role": "user", "content": "Which is better?"}],
        }
    ]
    assert "s3cret" not in judge.name
    assert "s3cret" not in str(vars(judge))


@pytest.mark.parametrize(
    ("status", "body"),
    [(500, "broken"), (429, "slow down"), (200, "no json"), (200, "{}"), (200, '{"choices": []}')],
)
async def test_what_may_pass_is_worth_another_attempt(status: int, body: str) -> None:
    with answering(lambda _: (status, body)) as (url, _), pytest.raises(JudgeUnavailable):
        await EndpointJudge(url, "m").complete(QUESTION)


@pytest.mark.parametrize("status", [401, 403, 404])
async def test_what_the_user_must_mend_stops_the_run_in_a_sentence(status: int) -> None:
    with (
        answering(lambda _: (status, "no")) as (url, _),
        pytest.raises(UserError, match="key_variable"),
    ):
        await EndpointJudge(url, "m").complete(QUESTION)


async def test_nobody_there_is_worth_another_attempt() -> None:
    with answering(lambda _: (200, "")) as (url, _):
        pass
    with pytest.raises(JudgeUnavailable, match="does not answer"):
        await EndpointJudge(url, "m", timeout_s=5).complete(QUESTION)


def test_a_key_that_is_not_set_is_told_before_anything_is_asked() -> None:
    with pytest.raises(UserError, match="export NO_SUCH_KEY="):
        EndpointJudge("http://localhost:1/v1", "m", key_variable="NO_SUCH_KEY")
