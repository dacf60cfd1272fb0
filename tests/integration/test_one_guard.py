"""What no server here lets a client do to it: the same attacks on the gateway and environments."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from tests.integration.gateway_site import QUESTION, site_with

from practicum.environments.registry import build_environment
from practicum.environments.serving.env_server import EnvironmentServer, _server
from practicum.environments.serving.served_episodes import ServerSettings
from practicum.gateway import http_listening
from practicum.gateway.http_listening import address_of, listen, running_servers

KEY = "a-key-for-tests-0123"


@dataclass(frozen=True, kw_only=True)
class Target:
    """A server, and a request that it answers."""

    address: str
    key: str
    path: str
    body: dict[str, Any]

    def request(self, *more: str, body: bytes | None = None, key: str | None = None) -> bytes:
        """The request with more headers, and another body or key where they are given."""
        sent = json.dumps(self.body).encode() if body is None else body
        head = [
            f"POST {self.path} HTTP/1.1",
            f"Host: {urlsplit(self.address).netloc}",
            f"Authorization: Bearer {self.key if key is None else key}",
            "Content-Type: application/json",
            *(() if any("Transfer" in one for one in more) else (f"Content-Length: {len(sent)}",)),
            *more,
        ]
        return "\r\n".join([*head, "", ""]).encode() + sent

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        parts = urlsplit(self.address)
        return await asyncio.open_connection(parts.hostname, parts.port)

    async def status(self, sent: bytes) -> int:
        """The status that is answered to these bytes."""
        reader, writer = await self.connect()
        try:
            writer.write(sent)
            line = await asyncio.wait_for(reader.readline(), 30)
            return int(line.split()[1])
        finally:
            writer.close()

    async def is_healthy(self) -> bool:
        async with httpx.AsyncClient(timeout=240) as client:
            return (await client.get(f"{self.address}/health")).status_code == 200


@asynccontextmanager
async def gateway(folder: Path) -> AsyncIterator[Target]:
    async with site_with(folder) as site:
        _, endpoint = site.open()
        path = "/v1/chat/completions"
        yield Target(address=site.address, key=endpoint.key, path=path, body=QUESTION)


@asynccontextmanager
async def environment(folder: Path) -> AsyncIterator[Target]:
    settings = ServerSettings(key=KEY)
    served = EnvironmentServer(build_environment("math"), settings)
    with listen("127.0.0.1", 0, "--port") as listening:
        servers = [(_server(served.app(), settings), listening)]
        async with served.running(), running_servers(servers):
            address = address_of("127.0.0.1", listening)
            yield Target(address=address, key=KEY, path="/reset", body={"seed": 1})


@pytest.fixture(params=[gateway, environment], ids=["gateway", "environment"])
async def target(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Target]:
    async with request.param(tmp_path) as found:
        yield found


async def test_a_whole_request_is_answered(target: Target) -> None:
    assert await target.status(target.request()) == 200


async def test_a_key_in_a_trailer_is_none(target: Target) -> None:
    sent = json.dumps(target.body).encode()
    body = b"%x\r\n%s\r\n0\r\nAuthorization: Bearer %s\r\n\r\n" % (
        len(sent),
        sent,
        target.key.encode(),
    )
    request = target.request("Transfer-Encoding: chunked", body=body, key="")
    without = request.replace(b"Authorization: Bearer \r\n", b"", 1)
    assert await target.status(without) == 401
    with_key = target.request("Transfer-Encoding: chunked", body=body)
    assert await target.status(with_key) == 200


@pytest.mark.parametrize("again", ["Host: evil.example", "Authorization: Bearer x", "Origin: x"])
async def test_a_header_that_decides_is_given_once(target: Target, again: str) -> None:
    twice = (again,) if not again.startswith("Origin") else (again, again)
    assert await target.status(target.request(*twice)) == 400
    before = target.request().replace(b"Host: ", f"{again}\r\nHost: ".encode(), 1)
    assert await target.status(before) in (400, 403)


async def test_a_second_head_that_drips_is_given_up(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, writer = await target.connect()
    writer.write(target.request())
    await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 30)
    monkeypatch.setattr(http_listening, "HEADERS_S", 0.2)
    ended = asyncio.create_task(reader.read())
    for byte in b"GET /health HTTP/1.1\r\nX-Slow: " + b"a" * 1000:
        if ended.done():
            break
        writer.write(bytes([byte]))
        await asyncio.sleep(0.01)
    assert ended.done()
    writer.close()


async def test_idle_connections_make_way(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_listening, "MOST_OPEN", 20)
    idle = [await target.connect() for _ in range(60)]
    reader, writer = idle[-1]
    assert await target.is_healthy()
    assert await target.status(target.request()) == 200
    writer.write(target.request())
    assert b"200" in await asyncio.wait_for(reader.readline(), 30)  # the newest are still there
    for _, one in idle:
        one.close()


HALF = "\ud800"


@pytest.mark.parametrize("place", ["value", "name", "inside"])
async def test_half_characters_are_no_failure_of_the_server(target: Target, place: str) -> None:
    more: dict[str, dict[str, Any]] = {
        "value": {"messages": HALF, "task_id": HALF, "model": HALF},
        "name": {HALF: 1, "task": {HALF: HALF}},
        "inside": {
            "task": {"id": HALF, "split": HALF, "data": {HALF: [HALF]}},
            "tools": [
                {
                    "type": "function",
                    "function": {"name": HALF, "parameters": {"properties": {HALF: {}}}},
                }
            ],
        },
    }
    for body in (more[place], {**target.body, **more[place]}):
        status = await target.status(target.request(body=json.dumps(body).encode()))
        assert status < 500
    assert await target.is_healthy()


async def test_half_characters_in_a_step_are_no_failure(tmp_path: Path) -> None:
    async with environment(tmp_path) as target, httpx.AsyncClient(timeout=240) as client:
        headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
        reset = await client.post(f"{target.address}/reset", json={"seed": 1}, headers=headers)
        name = reset.json()["observation"]["episode_id"]
        [task] = (await client.get(f"{target.address}/tasks?count=1", headers=headers)).json()[
            "tasks"
        ]
        body = json.dumps({"task": {**task, "instruction": f"{task['instruction']}{HALF}"}})
        reset = await client.post(f"{target.address}/reset", content=body, headers=headers)
        assert reset.status_code < 500, reset.text
        for action in ({"text": HALF}, {"tool": HALF, "arguments": {HALF: HALF}}, HALF):
            body = json.dumps({"episode_id": name, "action": action}).encode()
            step = await client.post(f"{target.address}/step", content=body, headers=headers)
            assert step.status_code < 500, step.text
