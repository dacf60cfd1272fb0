"""`Guard`: ASGI middleware that checks Host, Origin, key and body size before any route runs.

Servers listen on loopback by default, but web pages in the user's browser can reach loopback too.
Against DNS rebinding the Host header must name this server; against requests forged by pages any
request with an Origin is refused; and all but the open paths need the key.
"""

import asyncio
import base64
import binascii
import hmac
import ipaddress
import itertools
import json
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from practicum.core.loopback import is_loopback

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
ALL_INTERFACES = frozenset({"0.0.0.0", "::"})
POLICY_VIOLATION = 1008
"""WebSocket close code."""

MOST_DISCARDED = 32 * 1024 * 1024
"""Bytes of a too long body that are read and dropped, because many clients read no answer before
they have sent everything, and would see a broken connection instead of the 413."""

DISCARD_TIMEOUT_S = 10.0

ONCE = frozenset(
    {b"host", b"authorization", b"x-api-key", b"content-length", b"content-type", b"origin"}
)
"""Headers by which a request is judged: given twice, two programs may each read another one."""

Verdict = tuple[int, str]
"""HTTP status and message of a refusal; status 0 accepts the request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardRules:
    """What a guard accepts."""

    host: str
    """The address that the server listens on."""
    names: tuple[str, ...] = ()
    """Names of this machine that a Host header may have besides `host`."""
    open_paths: frozenset[str] = frozenset()
    """Paths that need no key."""
    authorize: Callable[[Scope, Mapping[str, str]], Verdict]
    """Checks a request's key; it may store in the scope whose it is."""
    max_body_bytes: int
    body_timeout_s: float = 60.0
    """For the whole body to arrive (against slow-body attacks)."""
    error_json: Callable[[str, int, str], object] = lambda path, status, text: {"error": text}
    """The JSON body of a refusal, from path, status and message."""
    own_pages: bool = False
    """Whether pages that this server itself serves may send requests."""
    checks_host: bool = True
    """False on a unix socket, which no browser can reach."""


class TooLong(Exception):
    """A body is longer than its limit."""


class TooSlow(Exception):
    """A body did not arrive in time."""


class Guard:
    """ASGI middleware: Host, Origin, key and length of every request."""

    def __init__(self, app: ASGIApp, rules: GuardRules) -> None:
        self._app = app
        self._rules = rules
        # Random once and then counted: a system call for each would release the interpreter lock.
        self._ids = map(f"req_{secrets.token_hex(6)}{{:012x}}".format, itertools.count())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request on to the app, or refuses it."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        send = self._with_id(scope, send)
        headers = {name.decode("latin-1"): v.decode("latin-1") for name, v in scope["headers"]}
        names = [name for name, _ in scope["headers"] if name in ONCE]
        if len(names) > len(set(names)):
            status, sentence = 400, "a header that can be given once is given twice"
        else:
            status, sentence = self._verdict(scope, headers)
        if status:
            if status == 413:
                await _discard(receive)
            await self._refuse(scope, receive, send, status, sentence)
        elif scope["type"] == "websocket":
            await self._app(scope, receive, send)
        else:
            await self._limit_body(scope, receive, send)

    def _with_id(self, scope: Scope, send: Send) -> Send:
        """Gives every answer an id, in the headers where OpenAI's and Anthropic's clients look."""
        if scope["type"] != "http":
            return send
        shown = next(self._ids).encode()

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                ids = ((b"x-request-id", shown), (b"request-id", shown))
                message = {**message, "headers": [*message.get("headers", ()), *ids]}
            await send(message)

        return send_with_id

    def _verdict(self, scope: Scope, headers: Mapping[str, str]) -> Verdict:
        if self._rules.checks_host and not self._is_own_name(headers.get("host", "")):
            return 421, (
                "the Host header names another server; reach this one by the address it printed, "
                "or name it where it is served: --server-name NAME, or server.names=[NAME]"
            )
        if self._is_from_page(headers):
            return 403, "requests from web pages are refused; use a program as the client"
        if scope["path"] not in self._rules.open_paths:
            status, sentence = self._rules.authorize(scope, headers)
            if status:
                return status, sentence
        length = headers.get("content-length", "0")
        if not length.isdigit() or int(length) > self._rules.max_body_bytes:
            return 413, f"the request is longer than {self._rules.max_body_bytes} bytes"
        return 0, ""

    def _is_from_page(self, headers: Mapping[str, str]) -> bool:
        """Whether a web page sends it, other than one of this server's own where it has any."""
        origin, site = headers.get("origin"), headers.get("sec-fetch-site", "none")
        if self._rules.own_pages:
            own = {f"{scheme}://{headers.get('host', '')}" for scheme in ("http", "https")}
            return (origin is not None and origin not in own) or site not in ("none", "same-origin")
        return origin is not None or site != "none"

    def _is_own_name(self, host: str) -> bool:
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        own = {self._rules.host.lower(), *(known.lower() for known in self._rules.names)}
        if name in own or (is_loopback(self._rules.host) and name in LOOPBACK_NAMES):
            return True
        if self._rules.host not in ALL_INTERFACES:
            return False
        # Any IP address is accepted: DNS rebinding needs a name.
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return name == "localhost"
        return True

    async def _limit_body(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes the request on, but stops a body that turns out too long (chunked) or too slow."""
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

        async def send_and_note(message: Message) -> None:
            nonlocal has_answered
            has_answered = True
            await send(message)

        status, sentence = 0, ""
        try:
            await self._app(scope, receive_counted, send_and_note)
        except TooLong:
            status, sentence = 413, f"the request is longer than {most} bytes"
            await _discard(receive)
        except TooSlow:
            timeout_s = self._rules.body_timeout_s
            status, sentence = 408, f"the request took longer than {timeout_s:g} s to arrive"
        if status and not has_answered:
            await self._refuse(scope, receive, send, status, sentence)

    async def _refuse(
        self, scope: Scope, receive: Receive, send: Send, status: int, sentence: str
    ) -> None:
        if scope["type"] == "websocket":
            await receive()
            reason = {"code": POLICY_VIOLATION, "reason": sentence[:120]}  # a close frame is short
            await send({"type": "websocket.close", **reason})
            return
        body = json.dumps(self._rules.error_json(scope["path"], status, sentence)).encode()
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
            (b"connection", b"close"),
            (b"x-should-retry", b"false"),
        ]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})


async def _discard(receive: Receive) -> None:
    """Reads and drops the rest of a body, up to `MOST_DISCARDED` bytes."""
    seen = 0
    try:
        async with asyncio.timeout(DISCARD_TIMEOUT_S):
            while seen < MOST_DISCARDED:
                message = await receive()
                seen += len(message.get("body", b""))
                if not message.get("more_body", False):
                    return
    except TimeoutError:
        return


def bearer_of(authorization: str) -> str | None:
    """The key in an Authorization header: a Bearer token, or the password of Basic (http://key:KEY@).

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
    """Whether an Authorization header has the key, compared in constant time."""
    shown = bearer_of(authorization)
    return shown is not None and hmac.compare_digest(shown.encode(), key.encode())
