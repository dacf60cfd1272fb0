"""Plane's API: the workspace, projects and their members, states, labels, cycles and modules."""

import re
from typing import Any

from practicum_envs.office.company_state import Document
from practicum_envs.office.services.plane_views import (
    may_open,
    paged,
    project_view,
    user_view,
    wanted,
    wanted_project,
    wanted_workspace,
)
from practicum_envs.office.services.web import Refused, Request, Response, Router

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
STATUSES = ("backlog", "planned", "in-progress", "paused", "completed", "cancelled")
"""Of a module."""
PROJECT_FIELDS = (
    *("name", "identifier", "description", "network", "project_lead", "default_assignee"),
    "archived_at",
)
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
        given = {name: request.fields[name] for name in PROJECT_FIELDS if name in request.fields}
        if "network" in given:
            given["network"] = request.number("network", 2)
        plane.change_project(project, given)
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


@routes.route("DELETE", f"{P}/members/{{member}}")
@routes.route("DELETE", f"{P}/project-members/{{member}}")
def remove_member(request: Request) -> Response:
    """Take someone out of a project."""
    _, project = wanted_project(request)
    if request.parameters["member"] not in project["members"]:
        raise Refused(404, "The requested resource does not exist.")
    if project["members"] == [request.parameters["member"]]:
        raise Refused(400, "A project keeps at least one member", key="error")
    project["members"].remove(request.parameters["member"])
    return Response(status=204)


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
    require_span(kind, given)
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
    for name, known in (("group", GROUPS), ("status", STATUSES)):
        if given.get(name, known[0]) not in known:
            raise Refused(400, f'"{given[name]}" is not a valid choice.', key=name)
    if "name" in given and not (isinstance(given["name"], str) and given["name"].strip()):
        raise Refused(400, "This field may not be blank.", key="name")
    return given


def require_span(kind: str, record: Document) -> None:
    """Refuse dates that are no span of time: one of a cycle's alone, or an end before the start."""
    start = record.get("start_date")
    end = record.get("end_date" if kind == "cycles" else "target_date")
    if kind == "cycles" and bool(start) != bool(end):
        said = "Both start date and end date are either required or are to be null"
        raise Refused(400, said, key="error")
    if start and end and str(start) > str(end):
        raise Refused(400, "Start date cannot exceed end date", key="error")


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
        given = taken(request, kind)
        require_span(kind, {**record, **given})
        record |= given
        record["updated_at"] = plane.company.timestamp()
    return Response.json(record_view(project, kind, record))


def require_unused_state(project: Document, state: Document) -> None:
    """Refuse to delete a state that issues have, or the default one."""
    if state["default"]:
        raise Refused(400, "Default state cannot be deleted", key="error")
    if any(one["state"] == state["id"] for one in project["tables"]["issues"].values()):
        raise Refused(400, "The state is not empty, only empty states can be deleted", key="error")
