"""Plane at port 8091: its API with `x-api-key`, and pages to read and log in."""

import re
from typing import Any

from practicum.environments.office.company_state import Document
from practicum.environments.office.plane_model import Plane
from practicum.environments.office.services import plane_issues, plane_pages
from practicum.environments.office.services.plane_views import (
    may_open,
    paged,
    project_view,
    user_view,
    wanted,
    wanted_project,
    wanted_workspace,
)
from practicum.environments.office.services.web import Refused, Request, Response, Router, Service

PORT = 8091
routes = Router()
W = "/api/v1/workspaces/{slug}"
P = f"{W}/projects/{{project}}"
FIELDS: dict[str, tuple[str, ...]] = {
    "states": ("name", "description", "color", "group", "sequence", "default"),
    "labels": ("name", "description", "color", "parent", "sort_order"),
    "cycles": ("name", "description", "start_date", "end_date", "owned_by", "sort_order"),
    "modules": (
        *("name", "description", "start_date", "target_date", "status", "lead", "members"),
        "sort_order",
    ),
}
"""What a request may say about each kind of record."""
GROUPS = ("backlog", "unstarted", "started", "completed", "cancelled")


@routes.route("GET", "/api/v1/users/me")
def me(request: Request) -> Response:
    """The account of the key."""
    return Response.json(user_view(request.user))


@routes.route("GET", f"{W}/members")
def workspace_members(request: Request) -> Response:
    """Everyone in the workspace."""
    plane = wanted_workspace(request)
    return Response.json(
        [{**user_view(user), "role": user["role"]} for user in plane.users.values()]
    )


@routes.route("GET", f"{W}/projects")
def projects(request: Request) -> Response:
    """The projects of the workspace."""
    plane = wanted_workspace(request)
    found = [one for one in plane.projects.values() if may_open(request.user, one)]
    return paged(request, [project_view(plane, request.user, one) for one in found])


@routes.route("POST", f"{W}/projects")
def create_project(request: Request) -> Response:
    """A new project."""
    plane = wanted_workspace(request)
    for name in ("name", "identifier"):
        if not request.text(name):
            raise Refused(400, "This field is required.", key=name)
    project = plane.add_project(
        request.user,
        request.text("name"),
        request.text("identifier").upper(),
        description=request.text("description"),
        network=request.number("network", 2),
        project_lead=request.fields.get("project_lead"),
    )
    return Response.json(project_view(plane, request.user, project), 201)


@routes.route("GET PATCH DELETE", P)
def one_project(request: Request) -> Response:
    """One project: show, change, delete."""
    plane, project = wanted_project(request)
    if request.method == "DELETE":
        del plane.projects[project["id"]]
        return Response(status=204)
    if request.method == "PATCH":
        for name in ("name", "identifier", "description", "network", "project_lead", "archived_at"):
            if name in request.fields:
                project[name] = request.fields[name]
        project["updated_at"] = plane.company.timestamp()
    return Response.json(project_view(plane, request.user, project))


@routes.route("GET", f"{P}/members")
@routes.route("GET", f"{P}/project-members")
def members(request: Request) -> Response:
    """Who is in a project."""
    plane, project = wanted_project(request)
    return Response.json(
        [user_view(plane.users[one]) for one in project["members"] if one in plane.users]
    )


@routes.route("POST", f"{P}/members")
@routes.route("POST", f"{P}/project-members")
def add_member(request: Request) -> Response:
    """Add someone to a project, by `member` (an id) or `email`."""
    plane, project = wanted_project(request)
    user = plane.user(request.text("member", "email"))
    if user is None:
        raise Refused(400, "There is no such user in the workspace", key="error")
    if user["id"] not in project["members"]:
        project["members"].append(user["id"])
    return Response.json(user_view(user), 201)


# States, labels, cycles and modules are records of one kind.

KIND = "{kind:states|labels|cycles|modules}"


@routes.route("GET", f"{P}/{KIND}")
def records(request: Request) -> Response:
    """All states, labels, cycles or modules of a project."""
    _, project = wanted_project(request)
    kind = request.parameters["kind"]
    found = [record_view(project, kind, one) for one in project["tables"][kind].values()]
    if kind == "cycles" and request.text("cycle_view") in ("current", "upcoming", "completed"):
        now = request.company.data["now"][:10]
        found = [one for one in found if phase(one, now) == request.text("cycle_view")]
    return paged(request, found)


def phase(cycle: Document, today: str) -> str:
    """Whether a cycle is going on."""
    start, end = str(cycle["start_date"] or "")[:10], str(cycle["end_date"] or "")[:10]
    if not start or not end:
        return "draft"
    return "current" if start <= today <= end else "upcoming" if start > today else "completed"


def record_view(project: Document, kind: str, record: Document) -> Document:
    """A record; cycles and modules with how far their issues are."""
    if "issues" not in record:
        return record
    tables = project["tables"]
    issues = [tables["issues"][one] for one in record["issues"] if one in tables["issues"]]
    groups = [tables["states"][issue["state"]]["group"] for issue in issues]
    counts = {f"{group}_issues": groups.count(group) for group in GROUPS}
    shown = {name: value for name, value in record.items() if name != "issues"}
    return {**shown, "total_issues": len(issues), **counts}


@routes.route("POST", f"{P}/{KIND}")
def create_record(request: Request) -> Response:
    """A new state, label, cycle or module."""
    plane, project = wanted_project(request)
    kind = request.parameters["kind"]
    if not request.text("name"):
        raise Refused(400, "This field is required.", key="name")
    given = taken(request, kind)
    if bool(given.get("start_date")) != bool(given.get("end_date")) and kind == "cycles":
        raise Refused(
            400, "Both start date and end date are either required or are to be null", key="error"
        )
    made = plane.add(project, kind, request.user, **given)
    return Response.json(record_view(project, kind, made), 201)


def taken(request: Request, kind: str) -> dict[str, Any]:
    """What a request says about a record of a kind; dates must be dates."""
    given = {name: request.fields[name] for name in FIELDS[kind] if name in request.fields}
    for name in ("start_date", "end_date", "target_date"):
        value = given.get(name)
        if value and not re.match(r"\d{4}-\d\d-\d\d", str(value)):
            said = "Date has wrong format. Use one of these formats instead: YYYY-MM-DD."
            raise Refused(400, said, key=name)
    if given.get("group", GROUPS[0]) not in GROUPS:
        raise Refused(400, f'"{given["group"]}" is not a valid choice.', key="group")
    return given


@routes.route("GET PATCH DELETE", f"{P}/{KIND}/{{record}}")
def one_record(request: Request) -> Response:
    """One state, label, cycle or module: show, change, delete."""
    plane, project = wanted_project(request)
    kind = request.parameters["kind"]
    record = wanted(project, kind, request.parameters["record"])
    if request.method == "DELETE":
        if kind == "states":
            require_unused_state(project, record)
        for issue in project["tables"]["issues"].values():
            if kind == "labels" and record["id"] in issue["labels"]:
                issue["labels"].remove(record["id"])
        del project["tables"][kind][record["id"]]
        return Response(status=204)
    if request.method == "PATCH":
        record |= taken(request, kind)
        record["updated_at"] = plane.company.timestamp()
    return Response.json(record_view(project, kind, record))


def require_unused_state(project: Document, state: Document) -> None:
    """Refuse to delete a state that issues have, or the default one."""
    if state["default"]:
        raise Refused(400, "Default state cannot be deleted", key="error")
    if any(one["state"] == state["id"] for one in project["tables"]["issues"].values()):
        raise Refused(400, "The state is not empty, only empty states can be deleted", key="error")


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
    if refused.status in (404, 405) and key is None:
        return Response.json({"error": "The requested resource does not exist."}, refused.status)
    said: Any = refused.message
    if key not in (None, "error", "detail") and refused.status == 400:
        said = [said]
    return Response.json({key or "error": said}, refused.status)


SERVICE = Service(
    name="plane",
    port=PORT,
    router=Router().add(routes).add(plane_issues.routes).add(plane_pages.routes),
    authenticate=authenticate,
    find_user=lambda company, name: Plane(company).user(name),
    refuse=refuse,
)
