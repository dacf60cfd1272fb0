"""Plane at port 8091: its API with `x-api-key`, and pages for a browser."""

from typing import Any

from practicum_envs.office.company_state import Document
from practicum_envs.office.plane_model import Plane
from practicum_envs.office.services import plane_api, plane_issues, plane_pages
from practicum_envs.office.services.absent import PLANE, absence
from practicum_envs.office.services.web import Refused, Request, Response, Router, Service

PORT = 8091


def authenticate(request: Request) -> Document | None:
    """The user of the key, or of the cookie that the pages use."""
    plane = Plane(request.company)
    user = plane.data["keys"].get(request.headers.get("x-api-key", ""))
    user = user or plane.data["sessions"].get(request.cookie("session-id"), "")
    return plane.users.get(user or "")


def refuse(request: Request, refused: Refused) -> Response:
    """Plane's error shapes."""
    if not request.path.startswith(("/api", "/auth")):
        return plane_pages.refused_page(request, refused)
    if refused.status == 401:
        return Response.json({"detail": "Given API token is not valid"}, 401)
    key = refused.extra.get("key")
    said: Any = refused.message
    if key not in (None, "error", "detail") and refused.status == 400:
        said = [said]
    return Response.json({key or "error": said}, refused.status)


SERVICE = Service(
    name="plane",
    port=PORT,
    router=Router().add(plane_api.routes).add(plane_issues.routes).add(plane_pages.routes),
    authenticate=authenticate,
    find_user=lambda company, name: Plane(company).user(name),
    refuse=refuse,
    absence=absence("Plane", PLANE),
)
