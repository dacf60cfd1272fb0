"""GitLab's pages for planning: labels, milestones, boards."""

from practicum_envs.office.company_state import Document
from practicum_envs.office.gitlab_model import Gitlab
from practicum_envs.office.services.forms import area, choice, field
from practicum_envs.office.services.gitlab_layout import (
    GONE,
    PLACE,
    below,
    call,
    listed,
    page_project,
    said,
    sent_form,
    shown,
    submitted,
)
from practicum_envs.office.services.pages import escaped, link, table
from practicum_envs.office.services.web import Refused, Request, Response, Router

routes = Router()


# Labels.


def label_fields(label: Document) -> str:
    """The fields of a label."""
    return (
        field("Title", "label[title]", label.get("name", ""))
        + field("Description", "label[description]", label.get("description") or "")
        + field("Background color", "label[color]", label.get("color", "#6699cc"))
    )


@routes.route("GET", f"{PLACE}/-/labels", is_open=True)
def labels_page(request: Request) -> Response:
    """The labels of a project."""
    project = page_project(request, Gitlab(request.company))
    rows = []
    for one in sorted(project["labels"], key=lambda label: str(label["name"])):
        address = below(project, "labels", one["id"])
        acts = ""
        if request.user is not None:
            acts = link(f"{address}/edit", "Edit")
            acts += sent_form(request, address, "", f"Delete {one['name']}", method="delete")
        rows.append((escaped(one["name"]), escaped(one["description"]), one["color"], acts))
    new = link(below(project, "labels", "new"), "New label")
    body = table(("Label", "Description", "Color", ""), rows) + f"<p>{new}</p>"
    return shown(request, f"Labels · {project['path_with_namespace']}", body, project)


@routes.route("GET", f"{PLACE}/-/labels/new")
def new_label_page(request: Request) -> Response:
    """The form for a new label."""
    project = page_project(request, Gitlab(request.company))
    form = sent_form(request, below(project, "labels"), label_fields({}), "Create label")
    return shown(request, "New label", form, project)


@routes.route("GET", f"{PLACE}/-/labels/{{label}}/edit")
def edit_label_page(request: Request) -> Response:
    """The form to change a label."""
    gitlab = Gitlab(request.company)
    project = page_project(request, gitlab)
    label = gitlab.label(project, request.parameters["label"])
    if label is None:
        raise Refused(404, GONE)
    address = below(project, "labels", label["id"])
    form = sent_form(request, address, label_fields(label), "Save changes", method="patch")
    return shown(request, f"Edit label {label['name']}", form, project)


@submitted(routes, f"{PLACE}/-/labels")
@submitted(routes, f"{PLACE}/-/labels/{{label}}")
def change_label(request: Request) -> Response:
    """Make, change or delete a label."""
    project = page_project(request, Gitlab(request.company))
    place, given = f"projects/{project['id']}/labels", said(request, "label")
    named = request.parameters.get("label")
    if named is None:
        call(request, "POST", place, {**given, "name": given.get("title")})
    elif request.text("_method").lower() == "delete":
        call(request, "DELETE", f"{place}/{named}")
    else:
        call(request, "PUT", f"{place}/{named}", {**given, "new_name": given.get("title")})
    return Response.redirect(below(project, "labels"))


# Milestones.


def milestone_fields(milestone: Document) -> str:
    """The fields of a milestone."""
    dates = (("Start date", "start_date"), ("Due date", "due_date"))
    return (
        field("Title", "milestone[title]", milestone.get("title", ""))
        + area("Description", "milestone[description]", milestone.get("description") or "")
        + "".join(
            field(f"{label} (YYYY-MM-DD)", f"milestone[{name}]", milestone.get(name) or "")
            for label, name in dates
        )
    )


@routes.route("GET", f"{PLACE}/-/milestones", is_open=True)
def milestones_page(request: Request) -> Response:
    """The milestones of a project."""
    project = page_project(request, Gitlab(request.company))
    wanted = request.text("state", default="all")
    rows = [
        (
            link(below(project, "milestones", one["iid"]), one["title"]),
            one["state"],
            escaped(one["due_date"]),
            milestone_button(request, project, one) if request.user is not None else "",
        )
        for one in project["milestones"]
        if wanted in ("all", one["state"], "opened" if one["state"] == "active" else "")
    ]
    tabs = " ".join(
        link(f"{below(project, 'milestones')}?state={one}", one)
        for one in ("opened", "closed", "all")
    )
    new = link(below(project, "milestones", "new"), "New milestone")
    body = f"<p>{tabs} {new}</p>{table(('Title', 'State', 'Due date', ''), rows)}"
    return shown(request, f"Milestones · {project['path_with_namespace']}", body, project)


def milestone_button(request: Request, project: Document, milestone: Document) -> str:
    """To close a milestone, or open it again."""
    is_active = milestone["state"] == "active"
    event, word = ("close", "Close milestone") if is_active else ("activate", "Reopen milestone")
    address = below(project, "milestones", milestone["iid"])
    hidden = {"milestone[state_event]": event}
    return sent_form(request, address, "", word, method="put", hidden=hidden)


def page_milestone(request: Request) -> tuple[Document, Document]:
    """The project and the milestone of a page."""
    project = page_project(request, Gitlab(request.company))
    number = request.parameters["milestone"]
    found = next((one for one in project["milestones"] if str(one["iid"]) == number), None)
    if found is None:
        raise Refused(404, GONE)
    return project, found


@routes.route("GET", f"{PLACE}/-/milestones/new")
def new_milestone_page(request: Request) -> Response:
    """The form for a new milestone."""
    project = page_project(request, Gitlab(request.company))
    fields = milestone_fields({})
    form = sent_form(request, below(project, "milestones"), fields, "Create milestone")
    return shown(request, "New milestone", form, project)


@routes.route("GET", f"{PLACE}/-/milestones/{{milestone}}", is_open=True)
def milestone_page(request: Request) -> Response:
    """A milestone, and what belongs to it."""
    project, found = page_milestone(request)
    lines = []
    for kind in ("issues", "merge_requests"):
        for work in project[kind]:
            if work["milestone"] == found["id"]:
                address = below(project, kind, work["iid"])
                lines.append(f"{link(address, work['title'])} {work['state']}")
    facts = f"State: {found['state']}; Due date: {found['due_date'] or 'none'}"
    body = f"<p>{escaped(facts)}</p><pre>{escaped(found['description'])}</pre>{listed(lines)}"
    if request.user is not None:
        address = below(project, "milestones", found["iid"])
        body += f"<p>{link(f'{address}/edit', 'Edit milestone')}</p>"
        body += milestone_button(request, project, found)
        body += sent_form(request, address, "", "Delete milestone", method="delete")
    return shown(request, found["title"], body, project)


@routes.route("GET", f"{PLACE}/-/milestones/{{milestone}}/edit")
def edit_milestone_page(request: Request) -> Response:
    """The form to change a milestone."""
    project, found = page_milestone(request)
    address = below(project, "milestones", found["iid"])
    form = sent_form(request, address, milestone_fields(found), "Save changes", method="put")
    return shown(request, f"Edit {found['title']}", form, project)


@submitted(routes, f"{PLACE}/-/milestones")
def create_milestone(request: Request) -> Response:
    """A new milestone, by the form."""
    project = page_project(request, Gitlab(request.company))
    given = {name: value or None for name, value in said(request, "milestone").items()}
    made = call(request, "POST", f"projects/{project['id']}/milestones", given)
    return Response.redirect(below(project, "milestones", made["iid"]))


@submitted(routes, f"{PLACE}/-/milestones/{{milestone}}")
def change_milestone(request: Request) -> Response:
    """Change, close, open again or delete a milestone."""
    project, found = page_milestone(request)
    place = f"projects/{project['id']}/milestones/{found['id']}"
    if request.text("_method").lower() == "delete":
        call(request, "DELETE", place)
        return Response.redirect(below(project, "milestones"))
    given = said(request, "milestone")
    for name in ("start_date", "due_date"):
        if name in given:
            given[name] = given[name] or None
    call(request, "PUT", place, given)
    return Response.redirect(below(project, "milestones", found["iid"]))


# Boards.


OPEN, CLOSED = "Open", "Closed"


@routes.route("GET", f"{PLACE}/-/boards", is_open=True)
@routes.route("GET", f"{PLACE}/-/boards/{{board:[0-9]+}}", is_open=True)
def board_page(request: Request) -> Response:
    """A board: the open issues of no list, those of each list's label, and the closed ones."""
    gitlab = Gitlab(request.company)
    project = page_project(request, gitlab)
    board = chosen_board(request, project)
    names = list_names(gitlab, project, board)
    columns: dict[str, list[Document]] = {name: [] for name in (OPEN, *names, CLOSED)}
    for issue in project["issues"]:
        own = [name for name in names if name in issue["labels"]]
        for name in [CLOSED] if issue["state"] == "closed" else own or [OPEN]:
            columns[name].append(issue)
    body = ""
    for name, issues in columns.items():
        lines = [card(request, project, board, columns, name, one) for one in issues]
        body += f"<h2>{escaped(name)} ({len(issues)})</h2>{listed(lines)}"
    if request.user is not None:
        left = [(one["name"], one["name"]) for one in project["labels"] if one["name"] not in names]
        address = below(project, "boards")
        hidden = {"board": str(board["id"])}
        form = choice("Label", "label", left)
        body += sent_form(request, f"{address}/lists", form, "Create list", hidden=hidden)
        body += sent_form(request, address, field("Name", "name"), "Create board")
    others = " ".join(
        link(below(project, "boards", one["id"]), one["name"]) for one in project["boards"]
    )
    title = f"{board['name']} · Boards · {project['path_with_namespace']}"
    return shown(request, title, f"<p>{others}</p>{body}", project)


def chosen_board(request: Request, project: Document) -> Document:
    """The board that is named, or the first; a project begins with one that has no lists."""
    named = request.parameters.get("board") or request.text("board")
    boards = project["boards"] or [{"id": "", "name": "Development", "lists": []}]
    if not named:
        first: Document = boards[0]
        return first
    found: Document | None = next((one for one in boards if str(one["id"]) == named), None)
    if found is None:
        raise Refused(404, GONE)
    return found


def list_names(gitlab: Gitlab, project: Document, board: Document) -> list[str]:
    """The labels of a board's lists."""
    labels = (gitlab.label(project, str(one["label"])) for one in board["lists"])
    return [label["name"] for label in labels if label is not None]


def card(
    request: Request,
    project: Document,
    board: Document,
    columns: dict[str, list[Document]],
    name: str,
    issue: Document,
) -> str:
    """An issue on a board, and the form that moves it to another list."""
    shown_as = link(below(project, "issues", issue["iid"]), f"#{issue['iid']} {issue['title']}")
    if request.user is None:
        return shown_as
    hidden = {"board": str(board["id"]), "issue": str(issue["iid"]), "from": name}
    to = choice(f"Move #{issue['iid']} to", "to", ((one, one) for one in columns if one != name))
    return shown_as + sent_form(
        request, below(project, "boards", "move"), to, "Move", hidden=hidden
    )


@submitted(routes, f"{PLACE}/-/boards/move")
def move_card(request: Request) -> Response:
    """Move an issue from a list to another: labels change, and whether it is closed."""
    project = page_project(request, Gitlab(request.company))
    begin, end = request.text("from"), request.text("to")
    given = {}
    if begin not in (OPEN, CLOSED):
        given["remove_labels"] = [begin]
    if end not in (OPEN, CLOSED):
        given["add_labels"] = [end]
    event = {CLOSED: "close"}.get(end, "reopen" if begin == CLOSED else "")
    place = f"projects/{project['id']}/issues/{request.number('issue', 0)}"
    call(request, "PUT", place, {**given, "state_event": event})
    return Response.redirect(below(project, "boards", request.text("board")).rstrip("/"))


@submitted(routes, f"{PLACE}/-/boards")
@submitted(routes, f"{PLACE}/-/boards/lists")
def change_boards(request: Request) -> Response:
    """A new board, or a new list of one; the first list makes the first board."""
    project = page_project(request, Gitlab(request.company))
    place = f"projects/{project['id']}/boards"
    if not request.path.rstrip("/").endswith("/lists"):
        made = call(request, "POST", place, {"name": request.text("name")})
        return Response.redirect(below(project, "boards", made["id"]))
    number = chosen_board(request, project)["id"]
    if not number:
        number = call(request, "POST", place, {"name": "Development"})["id"]
    call(request, "POST", f"{place}/{number}/lists", {"label_id": request.text("label")})
    return Response.redirect(below(project, "boards", number))
