"""The judge on a server, against a real one on this machine."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from practicum.core.errors import UserError
from practicum.core.judging import JudgeUnavailable
from practicum.core.trace import Message
from practicum.rewards import EndpointJudge

QUESTION = [Message(role="user", content="Which is better?")]
ANSWER = {
    "choices": [{"message": {"role": "assistant", "content": "the first"}}],
    "usage": {"prompt_tokens": 7, "completion_tokens": 3},
}


@contextmanager
def server(status: int, body: str) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """A server that answers everything the same, and what it was asked."""
    asked: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            content = self.rfile.read(int(self.headers["Content-Length"]))
            key = self.headers.get("Authorization")
            asked.append({"path": self.path, "key": key, **json.loads(content)})
            self.send_response(status)
            self.send_header("Content-Length", str(len(body.encode())))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *words: Any) -> None:
            """Nothing is printed."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.server_port}/v1", asked
        finally:
            listening.shutdown()
            thread.join()


async def test_it_is_asked_as_openai_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUDGE_KEY", "s3cret")
    with server(200, json.dumps(ANSWER)) as (url, asked):
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
    with server(status, body) as (url, _), pytest.raises(JudgeUnavailable):
        await EndpointJudge(url, "m").complete(QUESTION)


@pytest.mark.parametrize("status", [401, 403, 404])
async def test_what_the_user_must_mend_stops_the_run_in_a_sentence(status: int) -> None:
    with server(status, "no") as (url, _), pytest.raises(UserError, match="key_variable"):
        await EndpointJudge(url, "m").complete(QUESTION)


async def test_nobody_there_is_worth_another_attempt() -> None:
    with server(200, "") as (url, _):
        pass
    with pytest.raises(JudgeUnavailable, match="does not answer"):
        await EndpointJudge(url, "m", timeout_s=5).complete(QUESTION)


def test_a_key_that_is_not_set_is_told_before_anything_is_asked() -> None:
    with pytest.raises(UserError, match="export NO_SUCH_KEY="):
        EndpointJudge("http://localhost:1/v1", "m", key_variable="NO_SUCH_KEY")
