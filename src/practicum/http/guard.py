"""Who may ask: checks that every request passes before any route sees it.

A server listens on loopback unless told otherwise, but a web page in the user's browser reaches
loopback too. So the Host header must name this server, a request from a page (which carries an
Origin) is refused, and the key is asked for everywhere but on the paths named open.
"""

import asyncio
import base64
import binascii
import hmac
import ipaddress
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from practicum.http.keys import is_loopback

__all__ = ["Guard", "GuardRules", "Verdict", "bearer_of", "has_key"]

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
EVERYWHERE = frozenset({"0.0.0.0", "::"})
REFUSED_SOCKET = 1008
"""WebSocket close code: against the server's policy."""

MOST_DISCARDED = 32 * 1024 * 1024
"""Bytes of a body which is too long that are read and thrown away, so that a client which sends it
whole before it listens still hears why it was refused."""

DISCARDING_S = 10.0

Verdict = tuple[int, str]
"""The status and the sentence of a refusal; status 0 lets a request through."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardRules:
    """What a guard lets through."""

    host: str
    """What the server listens on."""
    names: tuple[str, ...] = ()
    """Names of this machine that clients use besides `host`."""
    open_paths: frozenset[str] = frozenset()
    """Paths that need no key."""
    may: Callable[[Scope, Mapping[str, str]], Verdict]
    """Whether a request shows the right key; it may note in the scope whose it is."""
    max_body_bytes: int
    body_timeout_s: float = 60.0
    """What the whole body may take to arrive."""
    word: Callable[[str, int, str], object] = lambda path, status, sentence: {"error": sentence}
    """The JSON of a refusal, given the path, the status and the sentence."""
    checks_host: bool = True
    """False on a socket that no browser reaches."""


class TooLong(Exception):
    """A body that goes on after its limit."""


class TooSlow(Exception):
    """A body that does not arrive."""


class Guard:
    """ASGI middleware: Host, Origin, key and length of every request."""

    def __init__(self, app: ASGIApp, rules: GuardRules) -> None:
        self._app = app
        self._rules = rules

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or answer it here."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = {name.decode("latin-1"): v.decode("latin-1") for name, v in scope["headers"]}
        status, sentence = self._verdict(scope, headers)
        if status:
            if status == 413:
                await _discard(receive)
            await self._refuse(scope, receive, send, status, sentence)
        elif scope["type"] == "websocket":
            await self._app(scope, receive, send)
        else:
            await self._limited(scope, receive, send)

    def _verdict(self, scope: Scope, headers: Mapping[str, str]) -> Verdict:
        if self._rules.checks_host and not self._knows(headers.get("host", "")):
            return 421, (
                "the Host header names another server; reach this one by the address it printed, "
                "or serve with server.names=[NAME] for a name it has"
            )
        if "origin" in headers or headers.get("sec-fetch-site", "none") != "none":
            return 403, "requests from web pages are refused; use a program as the client"
        if scope["path"] not in self._rules.open_paths:
            status, sentence = self._rules.may(scope, headers)
            if status:
                return status, sentence
        length = headers.get("content-length", "0")
        if not length.isdigit() or int(length) > self._rules.max_body_bytes:
            return 413, f"the request is longer than {self._rules.max_body_bytes} bytes"
        return 0, ""

    def _knows(self, host: str) -> bool:
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        own = {self._rules.host.lower(), *(known.lower() for known in self._rules.names)}
        if name in own or (is_loopback(self._rules.host) and name in LOOPBACK_NAMES):
            return True
        if self._rules.host not in EVERYWHERE:
            return False
        try:  # an address cannot be pointed elsewhere, as a name can
            ipaddress.ip_address(name)
        except ValueError:
            return name == "localhost"
        return True

    async def _limited(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, and stop reading a body that turns out too long or too slow."""
        most, seen, has_answered, is_whole = self._rules.max_body_bytes, 0, False, False
        until = asyncio.get_running_loop().time() + self._rules.body_timeout_s

        async def receive_counted() -> Message:
            nonlocal seen, is_whole
            if is_whole:
                return await receive()
            try:
                async with asyncio.timeout_at(until):
                    message = await receive()
            except TimeoutError:
                raise TooSlow from None
            seen += len(message.get("body", b""))
            if seen > most:
                raise TooLong
            is_whole = not message.get("more_body", False)
            return message

        async def send_noted(message: Message) -> None:
            nonlocal has_answered
            has_answered = True
            await send(message)

        status, sentence = 0, ""
        try:
            await self._app(scope, receive_counted, send_noted)
        except TooLong:
            status, sentence = 413, f"the request is longer than {most} bytes"
            await _discard(receive)
        except TooSlow:
            status, sentence = (
                408,
                (f"the request took longer than {self._rules.body_timeout_s:g} s to arrive"),
            )
        if status and not has_answered:
            await self._refuse(scope, receive, send, status, sentence)

    async def _refuse(
        self, scope: Scope, receive: Receive, send: Send, status: int, sentence: str
    ) -> None:
        if scope["type"] == "websocket":
            await receive()
            code = REFUSED_SOCKET
            await send({"type": "websocket.close", "code": code, "reason": sentence[:120]})
            return
        body = json.dumps(self._rules.word(scope["path"], status, sentence)).encode()
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
            (b"connection", b"close"),
            (b"x-should-retry", b"false"),
        ]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})


async def _discard(receive: Receive) -> None:
    """Read on and keep nothing, within limits."""
    seen = 0
    try:
        async with asyncio.timeout(DISCARDING_S):
            while seen < MOST_DISCARDED:
                message = await receive()
                seen += len(message.get("body", b""))
                if not message.get("more_body", False):
                    return
    except TimeoutError:
        return


def bearer_of(authorization: str) -> str | None:
    """What an Authorization header shows: a bearer's word, or the password of an address.

    >>> bearer_of("Bearer abc")
    'abc'
    """
    kind, _, value = authorization.partition(" ")
    if kind.lower() == "basic":
        try:
            value = base64.b64decode(value, validate=True).decode().partition(":")[2]
        except (binascii.Error, UnicodeDecodeError):
            return None
    elif kind.lower() != "bearer":
        return None
    return value.strip()


def has_key(authorization: str, key: str) -> bool:
    """Whether a header shows the key."""
    shown = bearer_of(authorization)
    return shown is not None and hmac.compare_digest(shown.encode(), key.encode())
