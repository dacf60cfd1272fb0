"""How Plane shows its records, pages its lists, and finds what a request names."""

from typing import Any

from practicum_envs.office.company_seed import PLANE_WORKSPACE
from practicum_envs.office.company_state import Document
from practicum_envs.office.plane_model import Plane
from practicum_envs.office.services.web import Refused, Request, Response

MOST = 1000
"""Entries of a page, unless fewer are asked for."""


def user_view(user: Document) -> Document:
    """A user as others see it."""
    names = ("id", "first_name", "last_name", "display_name", "email", "avatar")
    return {name: user[name] for name in names}


def project_view(plane: Plane, user: Document, project: Document) -> Document:
    """A project."""
    hidden = ("members", "tables", "sequence")
    shown = {name: value for name, value in project.items() if name not in hidden}
    return {
        **shown,
        "total_members": len(project["members"]),
        "total_cycles": len(project["tables"]["cycles"]),
        "total_modules": len(project["tables"]["modules"]),
        "is_member": user["id"] in project["members"],
        "member_role": user["role"] if user["id"] in project["members"] else None,
        "is_deployed": False,
    }


def paged(request: Request, found: list[Any]) -> Response:
    """A page of a list, by `per_page` and `cursor`."""
    size = max(1, request.number("per_page", MOST, MOST)) if request.text("per_page") else MOST
    parts = request.text("cursor").split(":")
    at = int(parts[1]) if len(parts) == 3 and parts[1].isdigit() else 0
    pages = max(1, -(-len(found) // size))
    page = found[at * size : (at + 1) * size]
    return Response.json(
        {
            "grouped_by": None,
            "sub_grouped_by": None,
            "total_count": len(found),
            "next_cursor": f"{size}:{at + 1}:0",
            "prev_cursor": f"{size}:{at - 1}:1",
            "next_page_results": at + 1 < pages,
            "prev_page_results": at > 0,
            "count": len(page),
            "total_pages": pages,
            "total_results": len(found),
            "extra_stats": None,
            "results": page,
        }
    )


def wanted_workspace(request: Request) -> Plane:
    """Plane, where the request names its workspace."""
    if request.parameters["slug"] != PLANE_WORKSPACE:
        raise Refused(404, "The requested resource does not exist.")
    return Plane(request.company)


def may_open(user: Document, project: Document) -> bool:
    """Whether a user sees a project: members do, everyone does where it is public."""
    return user["id"] in project["members"] or project["network"] == 2 or user["role"] >= 20


def wanted_project(request: Request) -> tuple[Plane, Document]:
    """The project of a route."""
    plane = wanted_workspace(request)
    project = plane.projects.get(request.parameters["project"])
    if project is None or not may_open(request.user, project):
        raise Refused(404, "The requested resource does not exist.")
    return plane, project


def wanted(project: Document, kind: str, record_id: str) -> Document:
    """A record of a project by its id."""
    found: Document | None = project["tables"][kind].get(record_id)
    if found is None:
        raise Refused(404, "The requested resource does not exist.")
    return found


def issue_view(issue: Document) -> Document:
    """An issue."""
    hidden = ("comments", "links")
    return {name: value for name, value in issue.items() if name not in hidden}
