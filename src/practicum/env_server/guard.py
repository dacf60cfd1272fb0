"""Who may ask: checks that every request passes before any route sees it.

The server listens on loopback unless told otherwise, but a web page in the user's browser reaches
loopback too. So the Host header must name this server, a request from a page (which carries an
Origin) is refused, and the key is asked for everywhere but on the routes named open.
"""

import base64
import binascii
import hmac
import ipaddress
import json
from collections.abc import Mapping
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from practicum.env_server.settings import ServerSettings, is_loopback

__all__ = ["Guard"]

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
EVERYWHERE = frozenset({"0.0.0.0", "::"})
REFUSED_SOCKET = 1008
"""WebSocket close code: against the server's policy."""


class TooLong(Exception):
    """A body that goes on after its limit."""


class Guard:
    """ASGI middleware: Host, Origin, key and length of every request."""

    def __init__(self, app: ASGIApp, settings: ServerSettings, open_paths: frozenset[str]) -> None:
        self._app = app
        self._settings = settings
        self._open = open_paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or answer it here."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = {name.decode("latin-1"): v.decode("latin-1") for name, v in scope["headers"]}
        status, sentence = self._verdict(scope["path"], headers)
        if status:
            await _refuse(scope, receive, send, status, sentence)
        elif scope["type"] == "websocket":
            await self._app(scope, receive, send)
        else:
            await self._limited(scope, receive, send)

    def _verdict(self, path: str, headers: Mapping[str, str]) -> tuple[int, str]:
        """The status and sentence of a refusal; 0 lets it through."""
        if not self._knows(headers.get("host", "")):
            return 421, (
                "the Host header names another server; reach this one by the address it printed, "
                "or serve with server.names=[NAME] for a name it has"
            )
        if "origin" in headers:
            return 403, "requests from web pages are refused; use a program as the client"
        if path not in self._open and not self._has_key(headers.get("authorization", "")):
            return 401, (
                "the key is missing or wrong; send it as `Authorization: Bearer KEY`, or in the "
                "address, as in http://key:KEY@127.0.0.1:8000"
            )
        length = headers.get("content-length", "0")
        if not length.isdigit() or int(length) > self._settings.max_body_bytes:
            return 413, f"the request is longer than {self._settings.max_body_bytes} bytes"
        return 0, ""

    def _knows(self, host: str) -> bool:
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        own = {self._settings.host.lower(), *(known.lower() for known in self._settings.names)}
        if name in own or (is_loopback(self._settings.host) and name in LOOPBACK_NAMES):
            return True
        if self._settings.host not in EVERYWHERE:
            return False
        try:  # an address cannot be pointed elsewhere, as a name can
            ipaddress.ip_address(name)
        except ValueError:
            return name == "localhost"
        return True

    def _has_key(self, authorization: str) -> bool:
        kind, _, value = authorization.partition(" ")
        if kind.lower() == "basic":
            try:
                value = base64.b64decode(value, validate=True).decode().partition(":")[2]
            except (binascii.Error, UnicodeDecodeError):
                return False
        elif kind.lower() != "bearer":
            return False
        return hmac.compare_digest(value.strip().encode(), self._settings.key.encode())

    async def _limited(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, and stop reading a body that turns out too long."""
        most, seen, has_answered = self._settings.max_body_bytes, 0, False

        async def receive_counted() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > most:
                raise TooLong
            return message

        async def send_noted(message: Message) -> None:
            nonlocal has_answered
            has_answered = True
            await send(message)

        try:
            await self._app(scope, receive_counted, send_noted)
        except TooLong:
            if not has_answered:
                await _refuse(scope, receive, send, 413, f"the request is longer than {most} bytes")


async def _refuse(scope: Scope, receive: Receive, send: Send, status: int, sentence: str) -> None:
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.close", "code": REFUSED_SOCKET, "reason": sentence[:120]})
        return
    headers = [(b"content-type", b"application/json"), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    body = json.dumps({"error": sentence}).encode()
    await send({"type": "http.response.body", "body": body})
