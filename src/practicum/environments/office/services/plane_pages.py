"""Plane's pages: log in, projects, a project's issues, one issue."""

from practicum.environments.office.company_seed import PLANE_WORKSPACE
from practicum.environments.office.company_state import Document
from practicum.environments.office.plane_model import Plane
from practicum.environments.office.services.pages import escaped, link, page, sign_in_form, table
from practicum.environments.office.services.plane_views import may_open
from practicum.environments.office.services.web import Refused, Request, Response, Router

routes = Router()
ROOT = f"/{PLANE_WORKSPACE}"
TITLE = "Plane"


@routes.route("GET", "/", is_open=True)
@routes.route("GET", "/sign-in", is_open=True)
@routes.route("GET", ROOT, is_open=True)
@routes.route("GET", f"{ROOT}/projects", is_open=True)
def home(request: Request) -> Response:
    """The projects, or the form to log in."""
    if request.user is None:
        return Response.html(login_form())
    plane = Plane(request.company)
    found = [one for one in plane.projects.values() if may_open(request.user, one)]
    rows = [
        (
            link(f"{ROOT}/projects/{p['id']}/issues", p["name"]),
            p["identifier"],
            escaped(p["description"]),
        )
        for p in found
    ]
    return Response.html(
        page(f"Projects · {TITLE}", table(("Project", "Identifier", "About"), rows))
    )


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
    return Response.redirect(
        f"{ROOT}/projects", {"Set-Cookie": f"session-id={token}; Path=/; HttpOnly"}
    )


def page_project(request: Request) -> tuple[Plane, Document]:
    """The project that a page's address names."""
    plane = Plane(request.company)
    project = plane.projects.get(request.parameters["project"])
    if project is None or not may_open(request.user, project):
        raise Refused(404, "There is no such project")
    return plane, project


@routes.route("GET", f"{ROOT}/projects/{{project}}/issues")
def issues_page(request: Request) -> Response:
    """The issues of a project, and its cycles."""
    plane, project = page_project(request)
    states = project["tables"]["states"]
    base = f"{ROOT}/projects/{project['id']}/issues"
    rows = []
    for issue in project["tables"]["issues"].values():
        who = ", ".join(plane.users[one]["display_name"] for one in issue["assignees"])
        name = f"{project['identifier']}-{issue['sequence_id']} {issue['name']}"
        state = escaped(states[issue["state"]]["name"])
        rows.append((link(f"{base}/{issue['id']}", name), state, issue["priority"], escaped(who)))
    cycles = "".join(
        f"<li>{escaped(one['name'])}: {escaped(one['start_date'])} to {escaped(one['end_date'])}, "
        f"{len(one['issues'])} issues</li>"
        for one in project["tables"]["cycles"].values()
    )
    head = ("Issue", "State", "Priority", "Assignees")
    return Response.html(
        page(project["name"], f"{table(head, rows)}<h2>Cycles</h2><ul>{cycles}</ul>")
    )


@routes.route("GET", f"{ROOT}/projects/{{project}}/issues/{{issue}}")
def issue_page(request: Request) -> Response:
    """One issue with its comments."""
    plane, project = page_project(request)
    issue = project["tables"]["issues"].get(request.parameters["issue"])
    if issue is None:
        raise Refused(404, "There is no such issue")
    facts = {
        "State": project["tables"]["states"][issue["state"]]["name"],
        "Priority": issue["priority"],
        "Assignees": ", ".join(plane.users[one]["display_name"] for one in issue["assignees"]),
        "Labels": ", ".join(project["tables"]["labels"][one]["name"] for one in issue["labels"]),
        "Dates": f"{issue['start_date']} to {issue['target_date']}",
    }
    rows = [(escaped(name), escaped(value)) for name, value in facts.items()]
    said = "".join(f"<li>{escaped(one['comment_html'])}</li>" for one in issue["comments"])
    body = table(("", ""), rows) + f"<p>{escaped(issue['description_html'])}</p><ul>{said}</ul>"
    name = f"{project['identifier']}-{issue['sequence_id']} {issue['name']}"
    return Response.html(page(name, body))


def refused_page(request: Request, refused: Refused) -> Response:
    """An error as a page."""
    if refused.status == 401:
        return Response.html(login_form("Log in to see this page"), 401)
    return Response.html(page(TITLE, f"<p>{escaped(refused.message)}</p>"), refused.status)
