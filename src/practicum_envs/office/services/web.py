"""Requests, responses and routes of the services.

A handler is a function from a `Request` to a `Response`; `Refused` ends it early. Handlers run one
at a time for a company, so they need no locks of their own.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self
from urllib.parse import parse_qsl, unquote

if TYPE_CHECKING:
    from practicum_envs.office.company_state import Company

OWNER_HEADER = "x-office-user"
"""In a request of the owner: as whom it is made."""


@dataclass(slots=True, kw_only=True)
class Response:
    """What a service answers."""

    status: int = 200
    body: bytes = b""
    content_type: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)
    file: Path | None = None
    """Sent instead of `body`."""

    @classmethod
    def json(cls, value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Self:
        """A response with JSON."""
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        return cls(status=status, body=text.encode("utf-8", "surrogatepass"), headers=headers or {})

    @classmethod
    def html(cls, body: str, status: int = 200, headers: dict[str, str] | None = None) -> Self:
        """A response with HTML."""
        return cls(
            status=status,
            body=body.encode("utf-8", "replace"),
            content_type="text/html; charset=utf-8",
            headers=headers or {},
        )

    @classmethod
    def redirect(cls, location: str, headers: dict[str, str] | None = None) -> Self:
        """A redirect that is followed by GET."""
        return cls(
            status=303, content_type="text/plain", headers={"Location": location, **(headers or {})}
        )


class Refused(Exception):
    """Ends a handler: the service writes it in its own error shape."""

    def __init__(self, status: int, message: str, **extra: Any) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.extra = extra


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """A file of a multipart form."""

    name: str
    content_type: str
    content: bytes


@dataclass(kw_only=True)
class Request:
    """One HTTP request; `path` is as it was sent, percent signs and all, without the query."""

    method: str
    path: str
    query: dict[str, str]
    """Of a name that is repeated, the last value; `name[]` as `lists` has it."""
    lists: dict[str, list[str]]
    headers: Mapping[str, str]
    """With names in lower case."""
    body: bytes
    company: "Company"
    base_url: str
    """Such as `http://the-agent-company.com:3000`."""
    is_owner: bool = False
    """Whether it came through the company's door, which is out of every agent's reach."""
    parameters: dict[str, str] = field(default_factory=dict)
    """Values of the placeholders in the route's pattern."""
    user: Any = None
    """Set by the service's authentication."""

    @cached_property
    def form(self) -> tuple[dict[str, Any], dict[str, Upload]]:
        """The body's fields, from JSON or either kind of form, and its files."""
        kind = self.headers.get("content-type", "")
        if "multipart/form-data" in kind:
            return read_multipart(self.body, kind)
        if "x-www-form-urlencoded" in kind and not self.body.lstrip().startswith(b"{"):
            return gather(parse_qsl(self.body.decode(errors="replace"), keep_blank_values=True)), {}
        return self._json_fields(), {}

    def _json_fields(self) -> dict[str, Any]:
        if not self.body.strip():
            return {}
        try:
            found = json.loads(self.body)
        except (ValueError, RecursionError):
            raise Refused(400, "the body is not valid JSON") from None
        return found if isinstance(found, dict) else {"": found}

    @cached_property
    def fields(self) -> dict[str, Any]:
        """All that the query and the body say; the body wins."""
        return {**self.query, **self.lists, **self.form[0]}

    def text(self, *names: str, default: str = "") -> str:
        """The first of these fields that is given, as text."""
        for name in names:
            value = self.fields.get(name)
            if value is not None:
                return (value if isinstance(value, str) else str(value)).replace("\0", "")
        return default

    def number(self, name: str, default: int, most: int = 1_000_000) -> int:
        """A field as a whole number, 0 to `most`; `default` where it is missing or no number."""
        try:
            return max(0, min(most, int(self.fields.get(name, default))))
        except (TypeError, ValueError):
            return default

    def flag(self, name: str, default: bool = False) -> bool:
        """A field as true or false."""
        value = self.fields.get(name, default)
        return (
            value if isinstance(value, bool) else str(value).lower() in ("1", "true", "on", "yes")
        )

    def cookie(self, name: str) -> str:
        """The value of a cookie, empty where there is none."""
        for part in self.headers.get("cookie", "").split(";"):
            key, _, value = part.strip().partition("=")
            if key == name:
                return unquote(value)
        return ""


def gather(pairs: list[tuple[str, str]]) -> dict[str, Any]:
    """Fields from pairs; `name[]` becomes a list under `name`.

    >>> gather([("a", "1"), ("b[]", "x"), ("b[]", "y")])
    {'a': '1', 'b': ['x', 'y']}
    """
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name.endswith("[]"):
            found.setdefault(name[:-2], []).append(value)
        else:
            found[name] = value
    return found


def read_multipart(body: bytes, content_type: str) -> tuple[dict[str, Any], dict[str, Upload]]:
    """The fields and the files of a multipart form."""
    found = re.search(r'boundary="?([^";]+)"?', content_type)
    if found is None:
        raise Refused(400, "the form has no boundary")
    fields: dict[str, Any] = {}
    files: dict[str, Upload] = {}
    for part in body.split(b"--" + found.group(1).encode())[1:]:
        head, gap, content = part.partition(b"\r\n\r\n")
        if not gap:
            continue
        said = head.decode(errors="replace")
        name = re.search(r'name="([^"]*)"', said)
        file = re.search(r'filename="([^"]*)"', said)
        kind = re.search(r"content-type:\s*(\S+)", said, re.IGNORECASE)
        content = content.removesuffix(b"\r\n")
        if name is None:
            continue
        if file is None:
            fields[name.group(1)] = content.decode(errors="replace")
        else:
            typed = kind.group(1) if kind else "application/octet-stream"
            files[name.group(1)] = Upload(name=file.group(1), content_type=typed, content=content)
    return fields, files


Handler = Callable[[Request], Response]


class Conversation(Protocol):
    """A service's end of a web socket."""

    def hear(self, text: str) -> None:
        """Answer a message of the client."""

    def close(self) -> None:
        """The client is gone."""


Opening = Callable[[Request, Handler, Callable[[str], None]], Conversation]
"""Begins a conversation, with the request that opened it, what answers further ones, and what
sends a text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """A handler and where it is found."""

    methods: frozenset[str]
    pattern: re.Pattern[str]
    handler: Handler
    is_open: bool
    """Whether it needs no login."""


class Router:
    """The routes of a service. In a pattern `{id}` is one part of the path, `{file:.+}` a regex."""

    def __init__(self) -> None:
        self.routes: list[Route] = []

    def route(
        self, methods: str, pattern: str, *, is_open: bool = False
    ) -> Callable[[Handler], Handler]:
        """Register the decorated handler."""

        def register(handler: Handler) -> Handler:
            self.routes.append(
                Route(
                    methods=frozenset(methods.split()),
                    pattern=compiled(pattern),
                    handler=handler,
                    is_open=is_open,
                )
            )
            return handler

        return register

    def add(self, other: "Router") -> "Router":
        """Take over another router's routes."""
        self.routes.extend(other.routes)
        return self

    def find(self, method: str, path: str) -> tuple[Route | None, dict[str, str], bool]:
        """The route of a path, the placeholders' values, and whether the path is known at all."""
        is_known = False
        plain = re.sub("/{2,}", "/", path).rstrip("/") or "/"  # as nginx before the real services
        for route in self.routes:
            found = route.pattern.fullmatch(plain)
            if found is None:
                continue
            is_known = True
            if method in route.methods:
                values = {name: unquote(value or "") for name, value in found.groupdict().items()}
                return route, values, True
        return None, {}, is_known


def compiled(pattern: str) -> re.Pattern[str]:
    """A route's pattern as a regular expression.

    >>> compiled("/projects/{id}").fullmatch("/projects/a%2Fb").groupdict()
    {'id': 'a%2Fb'}
    """
    parts = re.split(r"\{(\w+)(?::([^{}]+))?\}", pattern)
    text = re.escape(parts[0])
    for at in range(1, len(parts), 3):
        text += f"(?P<{parts[at]}>{parts[at + 1] or '[^/]+'})" + re.escape(parts[at + 2])
    return re.compile(text)


@dataclass(frozen=True, kw_only=True)
class Service:
    """One of the company's services."""

    name: str
    port: int
    router: Router
    authenticate: Callable[[Request], Any]
    """The user of a request; None where nobody is logged in."""
    find_user: Callable[["Company", str], Any]
    """The user of a name, for the owner, who needs no password."""
    refuse: Callable[[Request, Refused], Response]
    """An error in the service's own shape."""
    absence: Callable[[Request, bool], Refused] = lambda request, is_known: Refused(
        405 if is_known else 404, "Not Found"
    )
    """Why there is no route for a request, and whether its address takes other methods."""
    converse: Opening | None = None
    """Begins what is said over a web socket, where it has one."""

    def answer(self, request: Request) -> Response:
        """Answer one request; whatever happens, there is a response."""
        try:
            route, values, is_known = self.router.find(request.method, request.path)
            if route is None:
                raise self.absence(request, is_known)
            if "%00" in request.path or "\0" in request.path:
                raise Refused(400, "Bad Request")
            request.parameters = values
            named = request.headers.get(OWNER_HEADER) if request.is_owner else None
            request.user = (
                self.authenticate(request)
                if named is None
                else self.find_user(request.company, named)
            )
            if request.user is None and not route.is_open:
                raise Refused(401, "Unauthorized")
            return route.handler(request)
        except Refused as refused:
            return self.refuse(request, refused)
