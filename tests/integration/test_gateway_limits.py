"""Requests that are too much, too deep or too slow: refused, and the gateway goes on."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from tests.integration.gateway_site import DIALECTS, QUESTION, Site, is_shaped, post, site_with

from practicum.gateway import http_listening as protocols


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with site_with(tmp_path) as found:
        yield found


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("path", DIALECTS)
async def test_ten_megabytes_are_refused_in_the_dialects_shape(
    site: Site, path: str, chunked: bool
) -> None:
    _, endpoint = site.open()
    body = json.dumps({**DIALECTS[path], "user": "x" * 10_000_000}).encode()

    async def pieces() -> AsyncIterator[bytes]:
        for at in range(0, len(body), 65536):
            yield body[at : at + 65536]

    headers = {"Authorization": f"Bearer {endpoint.key}", "Content-Type": "application/json"}
    async with httpx.AsyncClient(timeout=240) as client:
        content: Any = pieces() if chunked else body
        answer = await client.post(endpoint.url + path, content=content, headers=headers)
        assert answer.status_code == 413
        assert is_shaped(path, answer.json())
        after = await client.post(endpoint.url + path, json=DIALECTS[path], headers=headers)
        assert after.status_code == 200


@pytest.mark.parametrize("path", DIALECTS)
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"null",
        b'{"messages": ' + b"[" * 3000 + b"]" * 3000 + b"}",
        b'{"messages": NaN}',
        b"\xff\xfe",
        b'{"messages": [], "input": []}',
        b'{"messages": {"role": "user"}, "input": 5, "max_tokens": 1}',
        b'{"messages": [{"role": "user", "content": "x"}], "input": "x", "max_tokens": -1, '
        b'"max_output_tokens": -1}',
        b'{"messages": [{"role": "user", "content": "x"}], "input": "x", "max_tokens": 5, '
        b'"temperature": 1e400}',
    ],
    ids=lambda body: repr(body[:40]),
)
async def test_bodies_that_make_no_sense_are_one_sentence(
    site: Site, path: str, body: bytes
) -> None:
    _, endpoint = site.open()
    headers = {"Authorization": f"Bearer {endpoint.key}", "Content-Type": "application/json"}
    async with httpx.AsyncClient() as client:
        answer = await client.post(endpoint.url + path, content=body, headers=headers)
    assert answer.status_code == 400
    assert is_shaped(path, answer.json())


async def test_too_many_choices_are_refused_before_anything_is_sampled(site: Site) -> None:
    _, endpoint = site.open()
    url = f"{endpoint.url}/v1/chat/completions"
    for n in (17, 10**6):
        assert (await post(url, endpoint.key, {**QUESTION, "n": n})).status_code == 400
    stops = {**QUESTION, "stop": ["x" * 2000]}
    assert (await post(url, endpoint.key, stops)).status_code == 400
    assert site.samplers[0].requests == []


async def test_half_characters_and_zero_bytes_reach_the_model_as_text(site: Site) -> None:
    _, endpoint = site.open()
    body = b'{"messages": [{"role": "user", "content": "\\ud800 \\u0000"}]}'
    headers = {"Authorization": f"Bearer {endpoint.key}", "Content-Type": "application/json"}
    async with httpx.AsyncClient() as client:
        url = f"{endpoint.url}/v1/chat/completions"
        assert (await client.post(url, content=body, headers=headers)).status_code == 200


async def raw(site: Site, sent: bytes, limit_s: float = 10.0) -> bytes:
    """What a server answers to bytes before it hangs up."""
    parts = urlsplit(site.address)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    try:
        writer.write(sent)
        await writer.drain()
        return await asyncio.wait_for(reader.read(), limit_s)
    except ConnectionError:
        return b""
    finally:
        writer.close()


async def test_a_body_that_does_not_arrive_is_given_up(tmp_path: Path) -> None:
    async with site_with(tmp_path, body_timeout_s=0.1) as site:
        _, endpoint = site.open()
        head = (
            f"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\n"
            f"Authorization: Bearer {endpoint.key}\r\nContent-Type: application/json\r\n"
            "Content-Length: 1000\r\n\r\n{"
        )
        assert b"408" in (await raw(site, head.encode())).splitlines()[0]


async def test_a_head_that_does_not_arrive_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocols, "HEADERS_S", 0.1)
    async with site_with(tmp_path) as site:
        assert await raw(site, b"POST /v1/chat") == b""
        many = b"GET /health HTTP/1.1\r\n" + b"X-A: " + b"a" * 200_000
        assert b"200" not in await raw(site, many)
        async with httpx.AsyncClient() as client:
            assert (await client.get(f"{site.address}/health")).status_code == 200


async def test_a_reader_that_stops_reading_holds_nobody_up(tmp_path: Path) -> None:
    async with site_with(tmp_path, write_timeout_s=3600) as site:
        slow, endpoint = site.open()
        sampler = site.samplers[0]
        sampler._answer = lambda request: "w" * 4000
        body = json.dumps({**QUESTION, "stream": True, "max_tokens": 4900}).encode()
        parts = urlsplit(site.address)
        _, writer = await asyncio.open_connection(parts.hostname, parts.port, limit=1024)
        writer.write(
            f"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\n"
            f"Authorization: Bearer {endpoint.key}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n".encode()
            + body
        )
        await writer.drain()
        _, other = site.open()
        for _ in range(5):
            answer = await post(f"{other.url}/v1/chat/completions", other.key)
            assert answer.status_code == 200
        async with asyncio.timeout(240):
            while not slow.conversation.nodes:
                await asyncio.sleep(0.02)
            assert len(slow.conversation.nodes[-1].token_ids) == 4001
            writer.close()
            while slow.use.under_way:
                await asyncio.sleep(0.02)


async def test_a_connection_outlives_the_patience_of_clients(site: Site) -> None:
    """Clients drop idle connections after 5 s; a server that does so first cuts off requests."""
    _, endpoint = site.open()
    async with httpx.AsyncClient(
        headers={"Authorization": f"Bearer {endpoint.key}"},
        limits=httpx.Limits(keepalive_expiry=60, max_connections=1),
    ) as client:
        for pause in (5.2, 0):
            assert (await client.get(f"{endpoint.url}/v1/models")).status_code == 200
            await asyncio.sleep(pause)
