"""Plane's pages of a project's cycles, modules and settings."""

from practicum_envs.office.company_state import Document
from practicum_envs.office.services.forms import area, boxes, choice, field
from practicum_envs.office.services.pages import escaped, link, table
from practicum_envs.office.services.plane_api import GROUPS, STATUSES, phase
from practicum_envs.office.services.plane_issue_pages import issue_table
from practicum_envs.office.services.plane_layout import (
    LISTS,
    METHOD,
    NETWORKS,
    NEXT,
    NONE,
    ROOT,
    call_name,
    deleting,
    home_of,
    page_project,
    page_record,
    people,
    plane_form,
    records,
    shown_page,
)
from practicum_envs.office.services.web import Request, Response, Router

routes = Router()
PROJECT = f"{ROOT}/projects/{{project}}"
KINDS = "{kind:cycles|modules}"


@routes.route("GET", f"{PROJECT}/{KINDS}")
def groups_page(request: Request) -> Response:
    """The cycles or modules of a project, and a form for a new one."""
    _, project = page_project(request)
    kind = request.parameters["kind"]
    own = f"{home_of(project)}/{kind}"
    today = request.company.data["now"][:10]
    rows = []
    for one in project["tables"][kind].values():
        end = one["end_date"] if kind == "cycles" else one["target_date"]
        state = phase(one, today) if kind == "cycles" else one["status"]
        facts = (state, one["start_date"], end, len(one["issues"]))
        rows.append((link(f"{own}/{one['id']}", one["name"]), *map(escaped, facts)))
    listed = table((kind[:-1].title(), "State", "Start date", "End date", "Issues"), rows)
    form = plane_form(request, own, group_fields(request, kind, {}), f"Create {kind[:-1]}")
    body = f"{listed}<h2>New {kind[:-1]}</h2>{form}"
    return shown_page(request, f"{project['name']} · {kind.title()}", body, project)


def group_fields(request: Request, kind: str, group: Document) -> str:
    """What a form says of a cycle or module."""
    plane, _ = page_project(request)
    end = "end_date" if kind == "cycles" else "target_date"
    inner = (
        field("Name", "name", group.get("name"))
        + area("Description", "description", group.get("description"))
        + field("Start date", "start_date", group.get("start_date"), "date")
        + field("End date", end, group.get(end), "date")
    )
    if kind == "modules":
        states = ((one, one) for one in STATUSES)
        inner += choice("Status", "status", states, group.get("status", "backlog"))
        inner += choice("Lead", "lead", (*NONE, *people(plane)), group.get("lead") or "")
        inner += boxes("Members", "members", people(plane), group.get("members", ()))
    return inner


@routes.route("GET", f"{PROJECT}/{KINDS}/{{record}}")
def group_page(request: Request) -> Response:
    """One cycle or module: its issues, which others to add, forms to change it."""
    plane, project = page_project(request)
    kind = request.parameters["kind"]
    group = page_record(request, project, kind)
    own, what = f"{home_of(project)}/{kind}/{group['id']}", kind[:-1]
    inside = f"{own}/{what}-issues"
    table_of = project["tables"]["issues"]
    issues = [table_of[one] for one in group["issues"] if one in table_of]
    others = [one for one in table_of.values() if one["id"] not in group["issues"]]
    options = tuple((one["id"], f"{call_name(project, one)} {one['name']}") for one in others)
    body = issue_table(plane, project, issues)
    for one in issues:
        button = f"Remove {call_name(project, one)}"
        body += deleting(request, f"{inside}/{one['id']}", button, own)
    to_add = boxes("Issues", "issues", options)
    body += "<h2>Add issues</h2>" + plane_form(
        request, inside, to_add, f"Add to {what}", {NEXT: own, LISTS: "issues"}
    )
    later = tuple(one for one in records(project, "cycles") if one[0] != group["id"])
    if kind == "cycles" and later:
        inner = choice("To cycle", "new_cycle_id", later)
        where = f"{own}/transfer-issues"
        button = "Transfer unfinished issues"
        body += "<h2>Transfer</h2>" + plane_form(request, where, inner, button, {NEXT: own})
    change = {METHOD: "PATCH", **({LISTS: "members"} if kind == "modules" else {})}
    inner = group_fields(request, kind, group)
    body += "<h2>Change</h2>" + plane_form(request, own, inner, f"Save {what}", change)
    body += deleting(request, own, f"Delete {what}", f"{home_of(project)}/{kind}")
    return shown_page(request, f"{what.title()} {group['name']}", body, project)


# Settings.


@routes.route("GET", f"{PROJECT}/settings")
def settings_page(request: Request) -> Response:
    """What a project is called, its states and labels, and how to delete it."""
    plane, project = page_project(request)
    own = home_of(project)
    here = f"{own}/settings"
    inner = (
        field("Project name", "name", project["name"])
        + field("Project ID", "identifier", project["identifier"])
        + area("Description", "description", project["description"])
        + choice("Network", "network", NETWORKS, str(project["network"]))
        + choice(
            *("Project lead", "project_lead", (*NONE, *people(plane))),
            project["project_lead"] or "",
        )
    )
    change = {METHOD: "PATCH", NEXT: here}
    body = plane_form(request, own, inner, "Update project", change)
    body += f"<p>{link(f'{here}/members', 'Project members')}</p>"
    for kind in ("states", "labels"):
        body += f"<h2>{kind.title()}</h2>{records_part(request, project, kind, here)}"
    body += "<h2>Delete</h2>" + deleting(request, own, "Delete project", f"{ROOT}/projects")
    return shown_page(request, f"{project['name']} · Settings", body, project)


def records_part(request: Request, project: Document, kind: str, here: str) -> str:
    """The states or labels of a project, each with a button, and a form for a new one."""
    own, what = f"{home_of(project)}/{kind}", kind[:-1]
    rows = [
        (
            escaped(one["name"]),
            escaped(one.get("group", one["color"])),
            deleting(request, f"{own}/{one['id']}", f"Delete {what} {one['name']}", here),
        )
        for one in project["tables"][kind].values()
    ]
    inner = field(f"New {what}", "name")
    if kind == "states":
        inner += choice("Group", "group", ((one, one) for one in GROUPS))
    form = plane_form(request, own, inner, f"Add {what}", {NEXT: here})
    return table((what.title(), "", ""), rows) + form


@routes.route("GET", f"{PROJECT}/settings/members")
def members_page(request: Request) -> Response:
    """Who is in a project, and a form to add someone."""
    plane, project = page_project(request)
    own = f"{home_of(project)}/members"
    here = f"{home_of(project)}/settings/members"
    rows = [
        (escaped(text), deleting(request, f"{own}/{one}", "Remove", here))
        for one, text in people(plane, project["members"])
    ]
    others = tuple(one for one in people(plane) if one[0] not in project["members"])
    form = plane_form(request, own, choice("Member", "member", others), "Add member", {NEXT: here})
    body = f"{table(('Member', ''), rows)}<h2>Add member</h2>{form}"
    return shown_page(request, f"{project['name']} · Members", body, project)
