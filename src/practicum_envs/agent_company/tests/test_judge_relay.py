"""Questions of graders to the model that judges."""

import json
import socket
import urllib.error
import urllib.request
from typing import Any

import pytest
from tests.integration.scripted_endpoint import KEY, says, scripted

from practicum_envs.agent_company.judge_relay import JudgeRelay


def asked(listener: socket.socket, relay: JudgeRelay) -> dict[str, Any]:
    base = relay.environment(listener.getsockname()[1])["LITELLM_BASE_URL"]
    request = urllib.request.Request(f"{base}/chat/completions", b'{"model": "m"}')
    with urllib.request.urlopen(request, timeout=120) as answer:
        found: dict[str, Any] = json.load(answer)
    return found


def test_a_question_is_passed_on_with_the_key_which_the_machine_does_not_see() -> None:
    with scripted([says("yes")]) as judge:
        relay = JudgeRelay(endpoint=f"{judge.url}/v1", model="m", key=KEY)
        assert KEY not in str(relay.environment(1))
        inside = socket.create_server(("127.0.0.1", 0))
        with relay.serving(inside) as faults:
            answer = asked(inside, relay)
    assert answer["choices"][0]["message"]["content"] == "yes"
    assert judge.requests == [{"model": "m"}]
    assert faults == []


@pytest.mark.parametrize("status", [401, 500])
def test_a_judge_that_refuses_is_a_fault_and_not_a_no(status: int) -> None:
    with scripted([status]) as judge:
        relay = JudgeRelay(endpoint=judge.url, model="m", key=KEY)
        inside = socket.create_server(("127.0.0.1", 0))
        with relay.serving(inside) as faults, pytest.raises(urllib.error.HTTPError):
            asked(inside, relay)
    assert faults == [f"the judge at {judge.url} answered {status}"]


def test_a_judge_that_is_not_there_is_a_fault() -> None:
    closed = socket.create_server(("127.0.0.1", 0))
    relay = JudgeRelay(endpoint=f"http://127.0.0.1:{closed.getsockname()[1]}/v1", model="m")
    closed.close()
    inside = socket.create_server(("127.0.0.1", 0))
    with relay.serving(inside) as faults, pytest.raises(urllib.error.HTTPError):
        asked(inside, relay)
    assert "did not answer" in faults[0]
