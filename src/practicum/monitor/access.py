"""Who may use the monitor: whoever has the key of its URL, and then the cookie it was swapped for.

The key is in the address line once: the first request with it is answered with a cookie and the
same address without the key, so that it stays in no history, log or screenshot. Pages of other
sites are kept out by the `Guard` (Host, Origin, `Sec-Fetch-Site`) and by `SameSite=Strict`.
"""

import hmac
import secrets
from collections.abc import Mapping
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from practicum.gateway.http_guard import Guard, GuardRules, Verdict

KEY = "key"
"""Name of the key in the query of a URL."""
MAX_BODY_BYTES = 64 * 1024
"""Nothing longer than a note is ever sent."""
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    # Not "no-referrer": browsers then send forms with the origin "null".
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


class Access:
    """ASGI middleware: the key, the cookie that it is swapped for, and headers of every answer.

    Args:
        app: What answers those who may.
        key: The key of the URL.
        port: The server's; browsers share cookies between the ports of a host.
        may_write: Whether anything but reading is answered at all.
    """

    def __init__(self, app: ASGIApp, *, key: str, port: int, may_write: bool) -> None:
        self._app = app
        self._key = key
        self._cookie = f"practicum_monitor_{port}"
        self._session = secrets.token_urlsafe(32)
        self._may_write = may_write

    def guarded(self, host: str) -> ASGIApp:
        """This, behind the checks of Host, Origin and length."""
        rules = GuardRules(
            host=host,
            authorize=self.authorize,
            max_body_bytes=MAX_BODY_BYTES,
            own_pages=True,
        )
        return Guard(self, rules)

    def authorize(self, scope: Scope, headers: Mapping[str, str]) -> Verdict:
        """Whether a request may be answered: by its cookie, or by the key in its URL."""
        is_reading = scope["method"] in ("GET", "HEAD")
        if not is_reading and not self._may_write:
            return 403, "this monitor only reads; start it with practicum monitor --write"
        if not is_reading and "origin" not in headers:
            return 403, "a form is sent by a page of this monitor alone"
        if self._is_ours(headers.get("cookie", "")) or (is_reading and self._has_key(scope)):
            return 0, ""
        return 401, "open the address that practicum monitor printed: it has the key"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Swaps a key for the cookie, or passes the request on."""
        if scope["type"] != "http":
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                headers.setdefault("cache-control", "no-store")
            await send(message)

        app = self._swapped(scope) if self._has_key(scope) else self._app
        await app(scope, receive, send_with_headers)

    def _swapped(self, scope: Scope) -> RedirectResponse:
        left = urlencode([pair for pair in _query(scope) if pair[0] != KEY])
        # A path that begins with two slashes would be another site's.
        path = "/" + scope["path"].lstrip("/")
        answer = RedirectResponse(f"{path}?{left}" if left else path, status_code=303)
        answer.set_cookie(self._cookie, self._session, httponly=True, samesite="strict")
        return answer

    def _has_key(self, scope: Scope) -> bool:
        given = next((value for name, value in _query(scope) if name == KEY), "")
        return hmac.compare_digest(given.encode("utf-8", "replace"), self._key.encode())

    def _is_ours(self, cookies: str) -> bool:
        found = cookie_parser(cookies).get(self._cookie, "")
        return hmac.compare_digest(found.encode("utf-8", "replace"), self._session.encode())


def _query(scope: Scope) -> list[tuple[str, str]]:
    return parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
