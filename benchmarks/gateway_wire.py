"""Plain HTTP over sockets for the clients of `gateway.py`.

What a client library would cost is not the gateway's, and some of these clients misbehave on
purpose. Needs nothing but Python.
"""

import asyncio
import json
import statistics
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any, Self
from urllib.parse import urlsplit

__all__ = [
    "ANTHROPIC",
    "CHAT",
    "RESPONSES",
    "Connection",
    "Control",
    "Json",
    "path_of",
    "request_bytes",
    "spread_ms",
    "stream_turn",
]

Json = dict[str, Any]

END = b"\r\n0\r\n\r\n"
"""With which a stream ends."""

LARGEST_READ = 1 << 16

CHAT, RESPONSES, ANTHROPIC = "/v1/chat/completions", "/v1/responses", "/v1/messages"


class Connection:
    """One connection that asks one thing after another."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def to(cls, address: str) -> Self:
        """Connect to a URL, or to a unix socket by its path."""
        if address.startswith("/"):
            return cls(*await asyncio.open_unix_connection(address))
        parts = urlsplit(address)
        return cls(*await asyncio.open_connection(parts.hostname, parts.port))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()

    async def send(self, method: str, path: str, key: str, body: bytes) -> tuple[int, int | None]:
        """Send a request; gives the status and, unless it comes in chunks, the answer's length."""
        self._writer.write(request_bytes(method, path, key, body))
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        lines = head.split("\r\n")
        lengths = [line.split(":")[1] for line in lines if line.startswith("content-length:")]
        return int(lines[0].split()[1]), int(lengths[0]) if lengths else None

    async def ask(self, method: str, path: str, key: str, body: bytes) -> tuple[int, Any]:
        """The status and the answer, which is not a stream."""
        status, length = await self.send(method, path, key, body)
        assert length is not None, "the answer is a stream"
        return status, json.loads(await self._reader.readexactly(length))

    async def stream(self) -> AsyncIterator[bytes]:
        """A stream as it comes, in chunks with their sizes; nothing is read into it."""
        last = b""
        while not last.endswith(END):
            part = await self._reader.read(LARGEST_READ)
            if not part:
                raise RuntimeError("a stream broke off")
            last = (last + part)[-len(END) :]
            yield part


def events_of(stream: bytes) -> list[str]:
    """The data of each event of a whole stream."""
    text, rest = b"", stream
    while rest:
        head, _, rest = rest.partition(b"\r\n")
        size = int(head, 16)
        text, rest = text + rest[:size], rest[size + 2 :]
    return [event.partition("data: ")[2] for event in text.decode().split("\n\n")[:-1]]


def request_bytes(method: str, path: str, key: str, body: bytes) -> bytes:
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


class Control:
    """Opens and closes rollouts."""

    def __init__(self, job: Mapping[str, Any]) -> None:
        self._path, self._key = job["control"], job["control_key"]

    async def ask(self, method: str, path: str) -> Json:
        """The answer, over a connection of its own: servers close those that are idle."""
        async with await Connection.to(self._path) as connection:
            status, body = await connection.ask(method, path, self._key, b"{}")
        if status not in (200, 201):
            raise RuntimeError(f"{method} {path}: {status} {body}")
        return dict(body)


def path_of(place: Mapping[str, str]) -> str:
    """Where a rollout is, without the server's address."""
    return urlsplit(place["url"]).path


async def stream_turn(connection: Connection, path: str, key: str, body: Json) -> Json:
    """One streamed turn of chat: words, ids, and when the first and the last of them came.

    What the client makes of it is not the gateway's work, so it is done when all is there.
    """
    began = time.perf_counter()
    status, length = await connection.send("POST", path, key, json.dumps(body).encode())
    if status != 200 or length is not None:
        raise RuntimeError(f"{path}: answered with {status}")
    found: Json = {"content": "", "ids": None, "prompt": None, "first_s": None, "ended": False}
    stream = b""
    async for part in connection.stream():
        if found["first_s"] is None:
            found["first_s"] = time.perf_counter() - began
        stream += part
    took = time.perf_counter() - began
    for event in events_of(stream):
        if event == "[DONE]":
            found["ended"] = True
            continue
        chunk = json.loads(event)
        if "error" in chunk:
            raise RuntimeError(f"{path}: {chunk['error']}")
        for choice in chunk["choices"]:
            found["content"] += choice["delta"].get("content") or ""
            found["ids"] = choice.get("token_ids", found["ids"])
        found["prompt"] = chunk.get("prompt_token_ids", found["prompt"])
    return {**found, "took_s": took}


def spread_ms(seconds: list[float]) -> dict[str, float]:
    """Median and the slow ones, in milliseconds."""
    if len(seconds) < 2:
        return {}
    cuts = statistics.quantiles(seconds, n=100)
    return {"p50": 1000 * cuts[49], "p95": 1000 * cuts[94], "p99": 1000 * cuts[98]}
