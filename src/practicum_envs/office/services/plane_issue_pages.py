"""Plane's pages of issues: those of a project, one with its comments, forms for both."""

from practicum_envs.office.company_state import Document
from practicum_envs.office.plane_model import PRIORITIES, Plane
from practicum_envs.office.services.forms import area, boxes, choice, field
from practicum_envs.office.services.pages import escaped, link, table
from practicum_envs.office.services.plane_layout import (
    LISTS,
    METHOD,
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
    require_own_form,
    shown_page,
    text_of,
)
from practicum_envs.office.services.plane_views import may_open
from practicum_envs.office.services.web import Refused, Request, Response, Router

routes = Router()
ISSUES = f"{ROOT}/projects/{{project}}/issues"
ISSUE = f"{ISSUES}/{{record}}"


@routes.route("GET", f"{ROOT}/projects/{{project}}")
def project_home(request: Request) -> Response:
    """A project begins with its issues."""
    return Response.redirect(f"{home_of(page_project(request)[1])}/issues/")


@routes.route("GET", ISSUES)
def issues_page(request: Request) -> Response:
    """The issues of a project, and a form for a new one."""
    plane, project = page_project(request)
    listed = issue_table(plane, project, list(project["tables"]["issues"].values()))
    default = next(one for one in project["tables"]["states"].values() if one["default"])
    empty: Document = {"state": default["id"], "priority": "none", "assignees": [], "labels": []}
    inner = issue_fields(plane, project, empty) + area("Description", "description_html")
    form = plane_form(request, f"{home_of(project)}/issues/", inner, "Create issue")
    body = f"{listed}<h2>New issue</h2>{form}"
    return shown_page(request, f"{project['name']} · Issues", body, project)


def issue_table(plane: Plane, project: Document, issues: list[Document]) -> str:
    """Issues with what is to be seen of them at a glance."""
    rows = []
    for issue in issues:
        cycle = plane.cycle_of(project, issue)
        rows.append(
            (
                link(f"{home_of(project)}/issues/{issue['id']}", call_name(project, issue)),
                link(f"{home_of(project)}/issues/{issue['id']}", issue["name"]),
                escaped(project["tables"]["states"][issue["state"]]["name"]),
                escaped(issue["priority"]),
                escaped(", ".join(names(plane, issue["assignees"]))),
                escaped(", ".join(label_names(project, issue))),
                escaped(cycle["name"] if cycle else ""),
                escaped(issue["target_date"]),
            )
        )
    head = ("ID", "Title", "State", "Priority", "Assignees", "Labels", "Cycle", "Due date")
    return table(head, rows)


def names(plane: Plane, ids: list[str]) -> list[str]:
    """What people are called."""
    return [plane.users[one]["display_name"] for one in ids if one in plane.users]


def label_names(project: Document, issue: Document) -> list[str]:
    """The labels of an issue."""
    labels = project["tables"]["labels"]
    return [labels[one]["name"] for one in issue["labels"] if one in labels]


def issue_fields(plane: Plane, project: Document, issue: Document) -> str:
    """What a form says of an issue."""
    return (
        field("Title", "name", issue.get("name"))
        + choice("State", "state", records(project, "states"), issue["state"])
        + choice("Priority", "priority", ((one, one) for one in PRIORITIES), issue["priority"])
        + boxes("Assignees", "assignees", people(plane), issue["assignees"])
        + boxes("Labels", "labels", records(project, "labels"), issue["labels"])
        + field("Start date", "start_date", issue.get("start_date"), "date")
        + field("Due date", "target_date", issue.get("target_date"), "date")
    )


@routes.route("GET", ISSUE)
def issue_page(request: Request) -> Response:
    """One issue: what it is, forms to change it, its comments."""
    plane, project = page_project(request)
    issue = page_record(request, project, "issues")
    own = f"{home_of(project)}/issues/{issue['id']}"
    state = project["tables"]["states"][issue["state"]]["name"]
    cycle = plane.cycle_of(project, issue)
    modules = [m for m in project["tables"]["modules"].values() if issue["id"] in m["issues"]]
    facts = {
        "ID": call_name(project, issue),
        "State": state,
        "Priority": issue["priority"],
        "Assignees": ", ".join(names(plane, issue["assignees"])),
        "Labels": ", ".join(label_names(project, issue)),
        "Dates": f"{issue['start_date'] or ''} to {issue['target_date'] or ''}",
        "Cycle": cycle["name"] if cycle else "",
        "Modules": ", ".join(one["name"] for one in modules),
        "Created by": ", ".join(names(plane, [issue["created_by"]])),
    }
    described = text_of(issue["description_html"])
    change = {METHOD: "PATCH"}
    where = choice(
        "Cycle", "cycle", (*NONE, *records(project, "cycles")), cycle["id"] if cycle else ""
    ) + boxes("Modules", "modules", records(project, "modules"), [one["id"] for one in modules])
    forms = (
        plane_form(
            *(request, own, issue_fields(plane, project, issue), "Save issue"),
            {**change, LISTS: "assignees labels"},
        ),
        plane_form(request, f"{own}/groups", where, "Save cycle and modules"),
        plane_form(
            *(request, own, area("Description", "description_html", described)),
            *("Save description", change),
        ),
        deleting(request, own, "Delete issue", f"{home_of(project)}/issues/"),
    )
    body = (
        table(("", ""), ((name, escaped(value)) for name, value in facts.items()))
        + f"<pre>{escaped(described)}</pre>{comments(request, plane, issue, own)}"
        + f"<h2>Change</h2>{''.join(forms)}"
    )
    title = f"{call_name(project, issue)} {issue['name']}"
    return shown_page(request, title, body, project)


def comments(request: Request, plane: Plane, issue: Document, own: str) -> str:
    """What was said about an issue, and a form to say more."""
    said = "".join(
        f"<li><b>{escaped(', '.join(names(plane, [one['actor']])))}</b> "
        f"<time>{escaped(one['created_at'])}</time> {escaped(text_of(one['comment_html']))}</li>"
        for one in issue["comments"]
    )
    inner = area("Comment", "comment_html")
    form = plane_form(request, f"{own}/comments", inner, "Comment", {"_next": own})
    return f"<h2>Comments</h2><ul>{said}</ul>{form}"


@routes.route("POST", f"{ISSUE}/groups")
def save_groups(request: Request) -> Response:
    """Put an issue into a cycle and modules, and out of all others."""
    require_own_form(request)
    plane, project = page_project(request)
    issue = page_record(request, project, "issues")
    wanted = {"cycles": [request.text("cycle")] if request.text("cycle") else []}
    wanted["modules"] = [str(one) for one in request.fields.get("modules") or []]
    for kind, ids in wanted.items():
        groups: dict[str, Document] = project["tables"][kind]
        if not set(ids) <= set(groups):
            raise Refused(400, f"{project['name']} has no such {kind[:-1]}")
        for group in groups.values():
            if issue["id"] in group["issues"] and group["id"] not in ids:
                group["issues"].remove(issue["id"])
        for one in ids:
            plane.put_into(project, kind, groups[one], [issue["id"]])
    return Response.redirect(f"{home_of(project)}/issues/{issue['id']}")


@routes.route("GET", f"{ROOT}/browse/{{name:[A-Za-z0-9]+-[0-9]+}}")
def browse(request: Request) -> Response:
    """An issue by its identifier and number, such as SHOP-3."""
    wanted = request.parameters["name"].upper()
    for project in Plane(request.company).projects.values():
        for issue in project["tables"]["issues"].values():
            if call_name(project, issue) == wanted and may_open(request.user, project):
                return Response.redirect(f"{home_of(project)}/issues/{issue['id']}")
    raise Refused(404, f"Plane has no issue {wanted}")
