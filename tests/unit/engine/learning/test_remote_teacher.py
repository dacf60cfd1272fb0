import json
from collections.abc import Callable
from typing import Any

import httpx
import numpy as np
import pytest

from practicum.core.errors import PracticumError, UserError
from practicum.core.sample import Sample
from practicum.engine.learning.teachers import KEY_VARIABLE, PAUSES_S, RemoteTeacher

ADDRESS = "http://localhost:8001/v1"


def sample(*ids: int, given: int = 2, temperature: float = 1.0, **others: Any) -> Sample:
    length = len(ids)
    return Sample(
        token_ids=np.asarray(ids, np.int64),
        loss_mask=np.arange(length) >= given,
        old_logprobs=np.zeros(length, np.float32),
        advantages=np.zeros(length, np.float32),
        temperatures=np.full(length, temperature, np.float32),
        choices=others.pop("choices", {}),
        **others,
    )


def echo(request: httpx.Request) -> httpx.Response:
    """Says of every token minus its id over 100, of the first nothing, and adds one of its own."""
    asked = json.loads(request.content)
    found = [None, *(-token / 100 for token in asked["prompt"][1:]), -9.0]
    return httpx.Response(200, json={"choices": [{"logprobs": {"token_logprobs": found}}]})


def teacher(answer: Callable[[httpx.Request], httpx.Response], address: str = ADDRESS) -> Any:
    client = httpx.Client(transport=httpx.MockTransport(answer))
    return RemoteTeacher(address, client, pause=lambda pause_s: None)


def complaint(answer: Callable[[httpx.Request], httpx.Response], one: Sample) -> PracticumError:
    with pytest.raises(PracticumError) as caught:
        teacher(answer).logprobs([one])
    assert "\n" not in str(caught.value)
    return caught.value


def test_it_gives_the_log_probabilities_of_the_loss_tokens() -> None:
    first, second = teacher(echo).logprobs([sample(7, 8, 9, 10), sample(1, 2, 3, given=1)])
    np.testing.assert_allclose(first, [-0.09, -0.10], rtol=1e-6)
    np.testing.assert_allclose(second, [-0.02, -0.03], rtol=1e-6)
    assert first.dtype == np.float32


def test_it_asks_for_an_echo_of_the_tokens_with_the_model_and_the_key_it_was_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[httpx.Request] = []

    def keep(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return echo(request)

    teacher(keep).logprobs([sample(7, 8, 9)])
    monkeypatch.setenv(KEY_VARIABLE, "secret")
    teacher(keep, f"{ADDRESS}/#big").logprobs([sample(7, 8, 9)])
    plain, keyed = seen
    assert str(plain.url) == str(keyed.url) == f"{ADDRESS}/completions"
    asked = json.loads(plain.content)
    assert asked["prompt"] == [7, 8, 9]
    assert asked["echo"] is True
    assert asked["temperature"] == 1.0
    assert "model" not in asked
    assert "authorization" not in plain.headers
    assert json.loads(keyed.content)["model"] == "big"
    assert keyed.headers["authorization"] == "Bearer secret"


@pytest.mark.parametrize(
    "one", [sample(1, 2, 3, temperature=0.7), sample(1, 2, 3, choices={2: (3, 4)})]
)
def test_tokens_drawn_in_a_way_it_cannot_judge_are_refused(one: Sample) -> None:
    error = complaint(echo, one)
    assert isinstance(error, UserError)
    assert "set rollouts.temperature=1" in str(error)


def test_an_endpoint_that_is_down_may_be_started_and_the_run_resumed() -> None:
    def refuse(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("connection refused", request=request)

    error = complaint(refuse, sample(1, 2, 3))
    assert not isinstance(error, UserError)
    assert "cannot be reached (connection refused); start it and go on with --resume" in str(error)


def test_what_an_endpoint_says_of_an_error_is_passed_on_in_one_line() -> None:
    error = complaint(
        lambda request: httpx.Response(400, text="echo is\nnot supported"), sample(1, 2, 3)
    )
    assert f"the teacher at {ADDRESS} answered 400: echo is not supported" in str(error)


@pytest.mark.parametrize(
    "reply",
    [
        {"choices": [{"text": "x"}]},
        {"choices": []},
        {"choices": [{"logprobs": None}]},
        {"choices": [{"logprobs": {"token_logprobs": None}}]},
        ["x"],
    ],
)
def test_an_endpoint_without_log_probabilities_is_refused(reply: Any) -> None:
    error = complaint(lambda request: httpx.Response(200, json=reply), sample(1, 2, 3))
    assert isinstance(error, UserError)
    assert "needs an endpoint with `echo` and `logprobs`, or a local model" in str(error)


def test_an_answer_that_is_not_json_is_refused() -> None:
    error = complaint(lambda request: httpx.Response(200, text="hello"), sample(1, 2, 3))
    assert "returns no log-probabilities" in str(error)


def test_an_endpoint_that_reads_other_tokens_is_refused() -> None:
    def short(request: httpx.Request) -> httpx.Response:
        return httpx.Response(
            200, json={"choices": [{"logprobs": {"token_logprobs": [None, -1.0]}}]}
        )

    assert "gave 2 log-probabilities for 3 tokens" in str(complaint(short, sample(1, 2, 3)))


def test_a_loss_token_that_nothing_is_said_of_is_refused() -> None:
    def gaps(request: httpx.Request) -> httpx.Response:
        found = [None, -1.0, None, -1.0]
        return httpx.Response(200, json={"choices": [{"logprobs": {"token_logprobs": found}}]})

    assert "returns no log-probabilities" in str(complaint(gaps, sample(1, 2, 3)))


class Failing:
    """Fails so many times before it answers."""

    def __init__(self, times: int, how: Callable[[httpx.Request], httpx.Response]) -> None:
        self.left, self._how, self.asked = times, how, 0

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked += 1
        self.left -= 1
        return self._how(request) if self.left >= 0 else echo(request)


def unreachable(request: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("refused", request=request)


def busy(status: int) -> Callable[[httpx.Request], httpx.Response]:
    return lambda request: httpx.Response(status, text="come back later")


PASSING = [busy(500), busy(502), busy(503), busy(429), unreachable]


@pytest.mark.parametrize("how", PASSING, ids=["500", "502", "503", "429", "unreachable"])
def test_a_fault_that_passes_does_not_end_a_run(
    how: Callable[[httpx.Request], httpx.Response],
) -> None:
    waited: list[float] = []
    for times in (1, len(PAUSES_S)):
        client = httpx.Client(transport=httpx.MockTransport(Failing(times, how)))
        waited.clear()
        (found,) = RemoteTeacher(ADDRESS, client, waited.append).logprobs([sample(7, 8, 9, 10)])
        np.testing.assert_allclose(found, [-0.09, -0.10], rtol=1e-6)
        assert waited == list(PAUSES_S[:times])


@pytest.mark.parametrize("how", PASSING, ids=["500", "502", "503", "429", "unreachable"])
def test_a_fault_that_stays_is_told_after_a_bounded_number_of_tries(
    how: Callable[[httpx.Request], httpx.Response],
) -> None:
    endpoint = Failing(1000, how)
    client = httpx.Client(transport=httpx.MockTransport(endpoint))
    with pytest.raises(PracticumError, match="go on with --resume"):
        RemoteTeacher(ADDRESS, client, lambda pause_s: None).logprobs([sample(7, 8, 9)])
    assert endpoint.asked == len(PAUSES_S) + 1


def test_what_the_endpoint_refuses_is_not_asked_again() -> None:
    endpoint = Failing(1000, busy(400))
    complaint(endpoint, sample(1, 2, 3))
    assert endpoint.asked == 1
