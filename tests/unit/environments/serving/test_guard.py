import base64
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import httpx
import pytest
from starlette.types import Receive, Scope, Send
from tests.unit.environments.serving.toy import KEY, SETTINGS

from practicum.environments.serving.env_server import guard_rules
from practicum.gateway.http_guard import Guard

BEARER = {"Authorization": f"Bearer {KEY}"}


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Reads the whole body and answers with its length."""
    length, more = 0, True
    while more:
        message = await receive()
        length += len(message.get("body", b""))
        more = message.get("more_body", False)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": str(length).encode()})


async def ask(
    path: str = "/tasks", host: str = "127.0.0.1:8000", settings: Any = SETTINGS, **request: Any
) -> httpx.Response:
    app = Guard(echo, guard_rules(settings, frozenset({"/health"})))
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(
        transport=transport, base_url=f"http://{host}", verify=False
    ) as client:
        return await client.request(request.pop("method", "POST"), path, **request)


async def test_the_key_opens_as_bearer_and_in_the_address() -> None:
    assert (await ask(headers=BEARER)).status_code == 200
    word = base64.b64encode(f"anyone:{KEY}".encode()).decode()
    assert (await ask(headers={"Authorization": f"Basic {word}"})).status_code == 200


@pytest.mark.parametrize(
    "authorization",
    ["", KEY, f"Bearer {KEY}x", f"Bearer {KEY[:-1]}", "Bearer", "Basic ???", "Basic YQ==", "Key x"],
)
async def test_without_the_key_only_open_paths_answer(authorization: str) -> None:
    headers = {"Authorization": authorization}
    refused = await ask(headers=headers)
    assert refused.status_code == 401
    assert list(refused.json()) == ["error"]
    assert (await ask("/health", headers=headers)).status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "10.0.0.7:8000"])
async def test_a_host_that_is_not_this_server_is_refused(host: str) -> None:
    assert (await ask(host=host, headers=BEARER)).status_code == 421


@pytest.mark.parametrize("host", ["localhost:8000", "127.0.0.1", "[::1]:8000"])
async def test_loopback_goes_by_its_names(host: str) -> None:
    assert (await ask(host=host, headers=BEARER)).status_code == 200


async def test_a_server_for_every_address_answers_addresses_and_its_own_names() -> None:
    settings = replace(SETTINGS, host="0.0.0.0", names=("trainer.example",))
    for host, status in [
        ("10.0.0.7:8000", 200),
        ("trainer.example", 200),
        ("Trainer.Example:8000", 200),
        ("localhost", 200),
        ("rebound.example", 421),
    ]:
        answer = await ask(host=host, settings=settings, headers=BEARER)
        assert answer.status_code == status, host


async def test_a_web_page_is_refused_even_with_the_key() -> None:
    answer = await ask(headers={**BEARER, "Origin": "http://127.0.0.1:8000"})
    assert answer.status_code == 403


async def test_a_body_that_says_it_is_too_long_is_not_read() -> None:
    settings = replace(SETTINGS, max_body_bytes=100)
    assert (await ask(settings=settings, headers=BEARER, content=b"x" * 100)).text == "100"
    assert (await ask(settings=settings, headers=BEARER, content=b"x" * 101)).status_code == 413


async def test_a_body_that_grows_too_long_is_cut_off() -> None:
    async def endless() -> AsyncIterator[bytes]:
        for _ in range(50):
            yield b"x" * 10

    settings = replace(SETTINGS, max_body_bytes=100)
    answer = await ask(settings=settings, headers=BEARER, content=endless())
    assert answer.status_code == 413
    assert "100 bytes" in answer.json()["error"]


async def test_a_socket_without_the_key_is_closed_before_it_opens() -> None:
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "websocket.connect"}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "websocket", "path": "/ws", "headers": [(b"host", b"127.0.0.1:8000")]}
    await Guard(echo, guard_rules(SETTINGS, frozenset()))(scope, receive, send)
    assert [message["type"] for message in sent] == ["websocket.close"]
    assert sent[0]["code"] == 1008
