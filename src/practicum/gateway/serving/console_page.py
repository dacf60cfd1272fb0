"""The page under `/` of `practicum serve`: chat, solve a problem, and see the trace beside it.

Plain files without a build step and without anything from another site. The page is open to any
browser; what it sends needs a key like any other request. Text of models and users is only ever put
in as text, and the policy below lets no other script run.
"""

from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

FOLDER = Path(__file__).parent / "console"

FILES = {
    "/": ("console.html", "text/html; charset=utf-8"),
    "/console.css": ("console.css", "text/css; charset=utf-8"),
    "/console.js": ("console.js", "text/javascript; charset=utf-8"),
}

HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "cache-control": "no-cache",
}


def console_pages() -> list[Route]:
    """A route for each file of the page."""

    async def page(request: Request) -> Response:
        name, kind = FILES[request.url.path]
        return Response((FOLDER / name).read_bytes(), media_type=kind, headers=HEADERS)

    return [Route(path, page, methods=["GET"]) for path in FILES]
