"""Plane's issues: making, changing, finding them; comments; what cycles and modules have."""

from practicum_envs.office.company_state import Document
from practicum_envs.office.plane_model import ISSUE_FIELDS
from practicum_envs.office.services.plane_views import (
    issue_view,
    may_open,
    paged,
    wanted,
    wanted_project,
    wanted_workspace,
)
from practicum_envs.office.services.web import Refused, Request, Response, Router

routes = Router()
W = "/api/v1/workspaces/{slug}"
P = f"{W}/projects/{{project}}"
ISSUES = f"{P}/{{word:issues|work-items}}"
"""Later clients call them work items."""
TABLE = "issues"
GROUPS = "{kind:cycles|modules}"
INSIDE = f"{P}/{GROUPS}/{{group}}/{{list:cycle-issues|module-issues}}"


@routes.route("GET", f"{ISSUES}")
def issues(request: Request) -> Response:
    """The issues of a project, narrowed by state, priority, assignees, labels or text."""
    _, project = wanted_project(request)
    found = [one for one in project["tables"][TABLE].values() if is_wanted(request, one)]
    return paged(request, [issue_view(one) for one in ordered(request, found)])


def ordered(request: Request, issues: list[Document]) -> list[Document]:
    """Issues in the order that a request wants; newest first unless it says so."""
    order = request.text("order_by", default="-created_at")
    key = order.lstrip("-")
    if key not in ("created_at", "updated_at", "name", "sequence_id", "target_date", "start_date"):
        return issues
    numbers = (lambda one: one[key]) if key == "sequence_id" else (lambda one: str(one[key] or ""))
    return sorted(issues, key=numbers, reverse=order.startswith("-"))


def is_wanted(request: Request, issue: Document) -> bool:
    """Whether an issue is what the query asks for."""
    for name in ("state", "priority"):
        if request.text(name) and issue[name] not in request.text(name).split(","):
            return False
    for name in ("assignees", "labels"):
        if request.text(name) and not set(request.text(name).split(",")) & set(issue[name]):
            return False
    return request.text("search").lower() in issue["name"].lower()


@routes.route("POST", f"{ISSUES}")
def create_issue(request: Request) -> Response:
    """A new issue."""
    plane, project = wanted_project(request)
    name = request.text("name").strip()
    if not name:
        raise Refused(400, "This field is required.", key="name")
    issue = plane.add_issue(project, request.user, name, **given(request))
    return Response.json(issue_view(issue), 201)


def given(request: Request) -> Document:
    """What a request says about an issue, besides its name."""
    fields = dict(request.fields)
    fields.pop("name", None)
    for plain, listed in (
        ("assignee_ids", "assignees"),
        ("label_ids", "labels"),
        ("state_id", "state"),
    ):
        if plain in fields:
            fields[listed] = fields.pop(plain)
    if "description" in fields and "description_html" not in fields:
        fields["description_html"] = f"<p>{fields['description']}</p>"
    return {name: value for name, value in fields.items() if name in ISSUE_FIELDS}


@routes.route("GET PATCH PUT DELETE", f"{ISSUES}/{{issue}}")
def one_issue(request: Request) -> Response:
    """One issue: show, change, delete."""
    plane, project = wanted_project(request)
    issue = wanted(project, TABLE, request.parameters["issue"])
    if request.method == "DELETE":
        del project["tables"][TABLE][issue["id"]]
        for kind in ("cycles", "modules"):
            for group in project["tables"][kind].values():
                group["issues"] = [one for one in group["issues"] if one != issue["id"]]
        return Response(status=204)
    if request.method != "GET":
        named = {"name": request.text("name")} if request.text("name") else {}
        plane.change_issue(project, issue, {**given(request), **named})
    return Response.json(issue_view(issue))


@routes.route("GET", "/api/workspaces/{slug}/issues")
def workspace_issues(request: Request) -> Response:
    """The issues of every project, as the web application asks for them."""
    plane = wanted_workspace(request)
    found = [
        one
        for project in plane.projects.values()
        if may_open(request.user, project)
        for one in project["tables"][TABLE].values()
        if is_wanted(request, one)
    ]
    return paged(request, [issue_view(one) for one in ordered(request, found)])


@routes.route("GET", f"{W}/issues/search")
@routes.route("GET", f"{W}/search")
def search(request: Request) -> Response:
    """Issues of every project whose name has some text."""
    plane = wanted_workspace(request)
    text = request.text("search").lower()
    found = [
        {**issue_view(issue), "project__identifier": project["identifier"]}
        for project in plane.projects.values()
        if may_open(request.user, project)
        for issue in project["tables"][TABLE].values()
        if text in issue["name"].lower()
    ]
    return Response.json({"issues": found})


@routes.route("GET", f"{W}/issues/{{name:[A-Za-z0-9]+-[0-9]+}}")
def issue_by_name(request: Request) -> Response:
    """An issue by its identifier and number, such as SHOP-3."""
    plane = wanted_workspace(request)
    letters, _, number = request.parameters["name"].rpartition("-")
    for project in plane.projects.values():
        for issue in project["tables"][TABLE].values() if may_open(request.user, project) else ():
            if (project["identifier"], str(issue["sequence_id"])) == (letters.upper(), number):
                return Response.json(issue_view(issue))
    raise Refused(404, "The requested resource does not exist.")


# Comments and links.


@routes.route("GET POST", f"{ISSUES}/{{issue}}/{{list:comments|links}}")
def attached(request: Request) -> Response:
    """The comments or links of an issue, or a new one."""
    plane, project = wanted_project(request)
    issue = wanted(project, TABLE, request.parameters["issue"])
    table = issue[request.parameters["list"]]
    if request.method == "GET":
        return paged(request, table)
    key = "comment_html" if request.parameters["list"] == "comments" else "url"
    text = request.text(key, "comment")
    if not text:
        raise Refused(400, "This field is required.", key=key)
    fields = {key: text, "issue": issue["id"], "actor": request.user["id"]}
    if key == "url":
        fields["title"] = request.text("title")
    made = plane.record(request.user, project, **fields)
    table.append(made)
    return Response.json(made, 201)


@routes.route("GET PATCH DELETE", f"{ISSUES}/{{issue}}/{{list:comments|links}}/{{record}}")
def one_attached(request: Request) -> Response:
    """One comment or link: show, change, delete."""
    _, project = wanted_project(request)
    table = wanted(project, TABLE, request.parameters["issue"])[request.parameters["list"]]
    found = next((one for one in table if one["id"] == request.parameters["record"]), None)
    if found is None:
        raise Refused(404, "The requested resource does not exist.")
    if request.method == "DELETE":
        table.remove(found)
        return Response(status=204)
    for name in ("comment_html", "url", "title"):
        if request.method == "PATCH" and name in request.fields:
            found[name] = request.text(name)
    return Response.json(found)


# What belongs to a cycle or a module.


@routes.route("GET", INSIDE)
def group_issues(request: Request) -> Response:
    """The issues of a cycle or module."""
    _, project = wanted_project(request)
    group = wanted(project, request.parameters["kind"], request.parameters["group"])
    table = project["tables"][TABLE]
    return paged(request, [issue_view(table[one]) for one in group["issues"] if one in table])


@routes.route("POST", INSIDE)
def add_group_issues(request: Request) -> Response:
    """Add issues to a cycle or module; an issue is in one cycle at most."""
    plane, project = wanted_project(request)
    kind = request.parameters["kind"]
    group = wanted(project, kind, request.parameters["group"])
    listed = request.fields.get("issues")
    if not isinstance(listed, list) or not listed:
        raise Refused(400, "Issues are required", key="error")
    for one in listed:
        wanted(project, TABLE, str(one))
    plane.put_into(project, kind, group, listed)
    link = {"cycles": "cycle", "modules": "module"}[kind]
    made = [
        plane.record(request.user, project, **{link: group["id"], "issue": one}) for one in listed
    ]
    return Response.json(made)


@routes.route("GET DELETE", f"{INSIDE}/{{issue}}")
def one_group_issue(request: Request) -> Response:
    """An issue of a cycle or module: show it, or take it out."""
    _, project = wanted_project(request)
    group = wanted(project, request.parameters["kind"], request.parameters["group"])
    if request.parameters["issue"] not in group["issues"]:
        raise Refused(404, "The requested resource does not exist.")
    if request.method == "DELETE":
        group["issues"].remove(request.parameters["issue"])
        return Response(status=204)
    return Response.json(issue_view(wanted(project, TABLE, request.parameters["issue"])))


@routes.route("POST", f"{P}/cycles/{{group}}/transfer-issues")
def transfer_issues(request: Request) -> Response:
    """Move what is not done from a cycle to a new one."""
    _, project = wanted_project(request)
    old = wanted(project, "cycles", request.parameters["group"])
    new = wanted(project, "cycles", request.text("new_cycle_id"))
    tables = project["tables"]
    for one in list(old["issues"]):
        group = tables["states"][tables[TABLE][one]["state"]]["group"]
        if group not in ("completed", "cancelled"):
            old["issues"].remove(one)
            new["issues"].append(one)
    return Response.json({"message": "Success"})
