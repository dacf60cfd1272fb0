"""One line a request, whatever becomes of it."""

import json
from contextlib import suppress
from typing import Any

import pytest
from starlette.types import Receive, Scope, Send

from practicum.gateway.serving.access_log import EXCHANGE, AccessLog
from practicum.gateway.serving.serving_metrics import ServingMetrics

SCOPE = {"type": "http", "method": "POST", "path": "/solve", "client": ("10.0.0.1", 5)}


async def nothing(*_: Any) -> Any:
    return {"type": "http.request"}


async def logged(app: Any, path: str = "/solve") -> tuple[list[dict[str, Any]], ServingMetrics]:
    lines: list[str] = []
    metrics = ServingMetrics()
    log = AccessLog(app, metrics, lines.append)
    with suppress(RuntimeError):
        await log({**SCOPE, "path": path}, nothing, nothing)
    return [json.loads(line) for line in lines], metrics


async def answers(scope: Scope, receive: Receive, send: Send) -> None:
    exchange = scope.get(EXCHANGE)
    if exchange is not None:
        exchange.key, exchange.model, exchange.route = "alice", "a", "/solve"
        exchange.completion_tokens = 7
    await send({"type": "http.response.start", "status": 200, "headers": []})


async def fails(scope: Scope, receive: Receive, send: Send) -> None:
    raise RuntimeError("no")


async def leaves(scope: Scope, receive: Receive, send: Send) -> None:
    """The client is gone before anything is sent."""


async def test_an_answer_is_logged_and_counted() -> None:
    [line], metrics = await logged(answers)
    told = [line[name] for name in ("key", "model", "status", "completion_tokens", "client")]
    assert told == ["alice", "a", 200, 7, "10.0.0.1"]
    assert metrics.requests == {("/solve", "a", "200"): 1}
    assert metrics.seconds[("/solve", "a")].counts[0] == 1


@pytest.mark.parametrize(("app", "status"), [(fails, 500), (leaves, 499)])
async def test_what_fails_or_is_left_is_logged_too(app: Any, status: int) -> None:
    [line], metrics = await logged(app)
    assert line["status"] == status
    assert metrics.requests == {("other", "", str(status)): 1}
    assert not metrics.seconds


async def test_probes_are_not_logged() -> None:
    for path in ("/health", "/ready", "/metrics"):
        lines, metrics = await logged(answers, path)
        assert not lines
        assert not metrics.requests


@pytest.mark.parametrize("own", ["chatcmpl-7", ""], ids=["an id of its own", "none"])
async def test_an_answer_leaves_with_one_id_that_the_log_has_too(own: str) -> None:
    async def with_id(scope: Scope, receive: Receive, send: Send) -> None:
        scope[EXCHANGE].id = own
        ids = [(b"x-request-id", b"req-1"), (b"request-id", b"req-1"), (b"x-other", b"o")]
        await send({"type": "http.response.start", "status": 200, "headers": ids})

    sent: list[Any] = []
    lines: list[str] = []

    async def keep(message: Any) -> None:
        sent.append(message)

    await AccessLog(with_id, ServingMetrics(), lines.append)(SCOPE, nothing, keep)
    shown = (own or "req-1").encode()
    assert sorted(sent[0]["headers"]) == [
        (b"request-id", shown),
        (b"x-other", b"o"),
        (b"x-request-id", shown),
    ]
    assert json.loads(lines[0])["id"] == shown.decode()
