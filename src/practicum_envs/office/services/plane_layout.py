"""What Plane's pages have in common: who is logged in, where the links lead, how forms are sent.

A form is a call of the API: it is sent to the page's address, which is that of the API's route
without `/api/v1/workspaces`, and its fields are those of the API.
"""

import hashlib
import hmac
import re
from collections.abc import Mapping
from html import escape, unescape

from practicum_envs.office.company_seed import PLANE_WORKSPACE
from practicum_envs.office.company_state import Document
from practicum_envs.office.plane_model import Plane
from practicum_envs.office.services.forms import Options, form
from practicum_envs.office.services.pages import escaped, link, page
from practicum_envs.office.services.plane_views import may_open
from practicum_envs.office.services.web import Refused, Request, Response

ROOT = f"/{PLANE_WORKSPACE}"
SESSION = "session-id"
TOKEN = "csrfmiddlewaretoken"
METHOD, NEXT, LISTS = "_method", "_next", "_lists"
"""Fields of a form besides the API's: its method, where it leads, and which fields are lists."""
NONE = (("", "none"),)
NETWORKS = (("2", "Public"), ("0", "Private"))


def token_of(request: Request) -> str:
    """What a form must send back to show that it came from a page of this login."""
    session = request.cookie(SESSION)
    return hmac.new(session.encode(), b"form", hashlib.sha256).hexdigest() if session else ""


def require_own_form(request: Request) -> None:
    """Refuse what another site makes a browser send; whoever sends a key is no browser."""
    if request.headers.get("x-api-key") or request.is_owner:
        return
    sent = request.text(TOKEN, "csrftoken") or request.headers.get("x-csrftoken", "")
    if not hmac.compare_digest(sent.encode("utf-8", "replace"), token_of(request).encode()):
        raise Refused(403, "CSRF verification failed: the form is not of this login; reload it")


def plane_form(
    request: Request,
    action: str,
    inner: str,
    button: str,
    hidden: Mapping[str, str] | None = None,
) -> str:
    """A form that calls the API's route of this address."""
    return form(action, inner, button, {TOKEN: token_of(request), **(hidden or {})})


def deleting(request: Request, action: str, button: str, then: str) -> str:
    """A button that deletes what is at an address."""
    return plane_form(request, action, "", button, {METHOD: "DELETE", NEXT: then})


def shown_page(
    request: Request, title: str, body: str, project: Document | None = None
) -> Response:
    """A page with the links of every page."""
    places = {"Projects": "/projects", "Analytics": "/analytics", "Members": "/settings/members"}
    top = " | ".join(link(ROOT + where, name) for name, where in places.items())
    out = plane_form(request, "/auth/sign-out/", "", "Sign out")
    who = escaped(request.user["email"])
    inner = ""
    if project is not None:
        parts = ("issues", "cycles", "modules", "settings", "settings/members")
        names = {"settings/members": "Project members"}
        links = [link(f"{home_of(project)}/{one}/", names.get(one, one.title())) for one in parts]
        inner = f"<p>{escaped(project['name'])}: {' | '.join(links)}</p>"
    head = f"<nav><p>{top}</p>{inner}</nav>"
    return Response.html(page(f"{title} · Plane", f"{head}{body}<hr><p>{who}</p>{out}"))


def home_of(project: Document) -> str:
    """The address under which a project's pages are."""
    return f"{ROOT}/projects/{project['id']}"


def page_project(request: Request) -> tuple[Plane, Document]:
    """The project that a page's address names."""
    plane = Plane(request.company)
    project = plane.projects.get(request.parameters["project"])
    if project is None or not may_open(request.user, project):
        raise Refused(404, f"Plane has no project {request.parameters['project']}")
    return plane, project


def page_record(request: Request, project: Document, kind: str) -> Document:
    """The issue, cycle or module that a page's address names."""
    found: Document | None = project["tables"][kind].get(request.parameters["record"])
    if found is None:
        raise Refused(404, f"{project['name']} has no {kind[:-1]} {request.parameters['record']}")
    return found


def people(plane: Plane, ids: list[str] | None = None) -> Options:
    """Everyone, or some people, as options; the address tells those of one name apart."""
    users = (
        plane.users.values() if ids is None else [plane.users[i] for i in ids if i in plane.users]
    )
    return tuple((one["id"], f"{one['display_name']} ({one['email']})") for one in users)


def records(project: Document, kind: str) -> Options:
    """The states, labels, cycles or modules of a project as options."""
    return tuple((one["id"], one["name"]) for one in project["tables"][kind].values())


def call_name(project: Document, issue: Document) -> str:
    """How an issue is called, such as SHOP-3."""
    return f"{project['identifier']}-{issue['sequence_id']}"


def text_of(html: object) -> str:
    """The text of HTML that was written as text.

    >>> text_of(html_of("a < b & c"))
    'a < b & c'
    """
    lines = re.sub(r"<br\s*/?>|</p>\s*<p[^>]*>", "\n", str(html))
    return unescape(re.sub(r"<[^>]*>", "", lines))


def html_of(text: str) -> str:
    """Text as the API keeps it."""
    return f"<p>{escape(text.strip(), quote=False).replace(chr(10), '<br>')}</p>"
