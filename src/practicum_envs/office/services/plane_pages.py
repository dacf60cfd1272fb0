"""Plane's pages: log in, projects, what all projects have together; every form calls the API."""

import json
from collections import Counter
from typing import Any
from urllib.parse import urlsplit

from practicum_envs.office.company_state import Document
from practicum_envs.office.plane_model import Plane
from practicum_envs.office.services import (
    plane_api,
    plane_issue_pages,
    plane_issues,
    plane_project_pages,
)
from practicum_envs.office.services.forms import area, choice, field
from practicum_envs.office.services.pages import escaped, link, page, sign_in_form, table
from practicum_envs.office.services.plane_layout import (
    LISTS,
    METHOD,
    NETWORKS,
    NEXT,
    ROOT,
    SESSION,
    TOKEN,
    home_of,
    html_of,
    plane_form,
    require_own_form,
    shown_page,
)
from practicum_envs.office.services.plane_views import may_open
from practicum_envs.office.services.web import Refused, Request, Response, Router

routes = Router().add(plane_issue_pages.routes).add(plane_project_pages.routes)
api = Router().add(plane_api.routes).add(plane_issues.routes)
TITLE = "Plane"


@routes.route("GET", "/", is_open=True)
@routes.route("GET", "/sign-in", is_open=True)
@routes.route("GET", ROOT, is_open=True)
@routes.route("GET", f"{ROOT}/projects", is_open=True)
def home(request: Request) -> Response:
    """The projects and a form for a new one, or the form to log in."""
    if request.user is None:
        return Response.html(login_form())
    plane = Plane(request.company)
    rows = [
        (
            link(f"{home_of(one)}/issues/", one["name"]),
            escaped(one["identifier"]),
            escaped(one["description"]),
            link(f"{home_of(one)}/settings/", "Settings"),
        )
        for one in plane.projects.values()
        if may_open(request.user, one)
    ]
    inner = (
        field("Project name", "name")
        + field("Project ID", "identifier")
        + area("Description", "description")
        + choice("Network", "network", NETWORKS)
    )
    form = plane_form(request, f"{ROOT}/projects", inner, "Create project")
    listed = table(("Project", "Identifier", "About", ""), rows)
    return shown_page(request, "Projects", f"{listed}<h2>Create project</h2>{form}")


FIELDS = (("Email", "email"), ("Password", "password"))


def login_form(said: str = "") -> str:
    """The page to log in."""
    return sign_in_form(f"Sign in · {TITLE}", "/auth/sign-in/", FIELDS, "Sign in", said)


@routes.route("POST", "/auth/sign-in", is_open=True)
def log_in(request: Request) -> Response:
    """Log in by the form."""
    plane = Plane(request.company)
    email = request.text("email")
    user = next((one for one in plane.users.values() if one["email"] == email), None)
    if user is None or user["password"] != request.text("password"):
        return Response.html(login_form("Wrong email or password"), 401)
    token = request.company.secret("random")
    plane.data["sessions"][token] = user["id"]
    cookie = f"{SESSION}={token}; Path=/; HttpOnly; SameSite=Lax"
    return Response.redirect(f"{ROOT}/projects", {"Set-Cookie": cookie})


@routes.route("POST", "/auth/sign-out")
def log_out(request: Request) -> Response:
    """The session is worth nothing afterwards."""
    require_own_form(request)
    Plane(request.company).data["sessions"].pop(request.cookie(SESSION), None)
    return Response.redirect("/")


@routes.route("GET", f"{ROOT}/settings/members")
def workspace_members(request: Request) -> Response:
    """Everyone in the workspace."""
    roles = {20: "Admin", 15: "Member", 5: "Guest"}
    rows = [
        (escaped(one["display_name"]), escaped(one["email"]), roles.get(one["role"], "Member"))
        for one in Plane(request.company).users.values()
    ]
    return shown_page(request, "Members", table(("Name", "Email", "Role"), rows))


SHOWN = 5
"""People in a list of who has most."""
OPEN = {"backlog": "Backlog", "unstarted": "Unstarted", "started": "Started"}


@routes.route("GET", f"{ROOT}/analytics")
def analytics(request: Request) -> Response:
    """How many issues all projects have, by what is to be done and by whom."""
    plane = Plane(request.company)
    groups: list[str] = []
    unassigned, by, to, waiting = 0, Counter[str](), Counter[str](), Counter[str]()
    for project in plane.projects.values():
        if not may_open(request.user, project):
            continue
        for issue in project["tables"]["issues"].values():
            group = project["tables"]["states"][issue["state"]]["group"]
            groups.append(group)
            by[issue["created_by"]] += 1
            unassigned += not issue["assignees"]
            done = group in ("completed", "cancelled")
            to.update(issue["assignees"] if group == "completed" else ())
            waiting.update(() if done else issue["assignees"])
    counts = {f"{name} tasks": groups.count(group) for group, name in OPEN.items()}
    facts = {
        "Total open tasks": sum(counts.values()),
        **counts,
        "Unassigned issues": unassigned,
        "Pending issues": sum(waiting.values()),
        "Completed tasks": groups.count("completed"),
    }
    body = table(("", "Issues"), ((name, str(count)) for name, count in facts.items()))
    tops = {"Most issues created": by, "Most issues closed": to, "Most pending issues": waiting}
    for title, found in tops.items():
        # Not most_common, which imports: a company without root can read no file of Python's.
        tops_of = sorted(found.items(), key=lambda one: -one[1])[:SHOWN]
        names = ((plane.users[one]["display_name"], n) for one, n in tops_of if one in plane.users)
        lines = "".join(f"<li>{escaped(name)}: {count}</li>" for name, count in names)
        body += f"<h2>{title}</h2><ul>{lines or '<li>nobody</li>'}</ul>"
    return shown_page(request, "Analytics", body)


# Forms.


@routes.route("POST", f"{ROOT}/projects")
@routes.route("POST", f"{ROOT}/projects/{{rest:.+}}")
def send(request: Request) -> Response:
    """A form: the API's route of the same address does it, with the form's fields."""
    require_own_form(request)
    given = dict(request.form[0])
    method = str(given.pop(METHOD, "POST"))
    then = str(given.pop(NEXT, "")) or request.path
    lists = str(given.pop(LISTS, "")).split()
    given.pop(TOKEN, None)
    fields: dict[str, Any] = {name: [] for name in lists}
    for name, value in given.items():
        fields[name] = html_of(str(value)) if name.endswith("_html") else value or None
    path = "/api/v1/workspaces" + request.path
    route, values, _ = api.find(method, path)
    if route is None:
        raise Refused(404, f"Plane has no form at {request.path}")
    inner = Request(
        method=method,
        path=path,
        query={},
        lists={},
        headers={"content-type": "application/json"},
        body=json.dumps(fields).encode(),
        company=request.company,
        base_url=request.base_url,
        parameters=values,
        user=request.user,
    )
    made = route.handler(inner)
    if made.status == 201 and path.rstrip("/").endswith("/projects"):
        project: Document = json.loads(made.body)
        return Response.redirect(f"{home_of(project)}/issues/")
    return Response.redirect(urlsplit(then).path)


def refused_page(request: Request, refused: Refused) -> Response:
    """An error as a page."""
    if refused.status == 401:
        return Response.html(login_form("Log in to see this page"), 401)
    key = refused.extra.get("key")
    about = f"{key}: " if key not in (None, "error", "detail", "non_field_errors") else ""
    body = f"<p>{escaped(about + refused.message)}</p><p>{link(f'{ROOT}/projects', 'Projects')}</p>"
    return Response.html(page(TITLE, body), refused.status)
