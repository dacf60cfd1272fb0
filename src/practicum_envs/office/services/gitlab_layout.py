"""What GitLab's pages have in common: where links lead, how forms are sent, what they do.

A form does what a call of the API does, as whoever is signed in: its page only translates.
"""

import hashlib
import hmac
import json
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from practicum_envs.office.company_state import Document
from practicum_envs.office.gitlab_model import Gitlab
from practicum_envs.office.services import (
    gitlab_avatars,
    gitlab_boards,
    gitlab_issues,
    gitlab_merge_requests,
    gitlab_projects,
    gitlab_protected_branches,
    gitlab_repository,
    gitlab_search,
    gitlab_todos,
)
from practicum_envs.office.services.forms import form
from practicum_envs.office.services.gitlab_git import SPACE
from practicum_envs.office.services.gitlab_views import PAGE, level_of, may_see
from practicum_envs.office.services.pages import escaped, link, page
from practicum_envs.office.services.web import Handler, Refused, Request, Response, Router

PLACE = f"/{SPACE}/{{project:(?!-/)[^/]+}}"
SESSION, TOKEN, METHOD = "_gitlab_session", "authenticity_token", "_method"
API = Router()
for part in (
    *(gitlab_projects, gitlab_repository, gitlab_protected_branches, gitlab_issues),
    *(gitlab_merge_requests, gitlab_boards, gitlab_todos, gitlab_search, gitlab_avatars),
):
    API.add(part.routes)
PLACES = {
    "Issues": "issues",
    "Boards": "boards",
    "Milestones": "milestones",
    "Labels": "labels",
    "Merge requests": "merge_requests",
    "Commits": "commits",
    "Branches": "branches",
    "Tags": "tags",
    "Releases": "releases",
    "Wiki": "wikis",
    "Members": "project_members",
}
"""What a project has pages of, and their addresses after `/-/`."""
GONE = "The page could not be found or you don't have permission to view it."


# Forms.


def token_of(request: Request) -> str:
    """What a form must send back to show that it came from a page of this session."""
    session = request.cookie(SESSION)
    return hmac.new(session.encode(), b"form", hashlib.sha256).hexdigest() if session else ""


def sent_form(
    request: Request,
    action: str,
    inner: str,
    button: str,
    *,
    method: str = "",
    hidden: Mapping[str, str] | None = None,
) -> str:
    """A form of this session; `method` is that of a call which is not a POST."""
    kept = {TOKEN: token_of(request), **({METHOD: method} if method else {}), **(hidden or {})}
    return form(quote(action, safe="/:?=&%.-_"), inner, button, kept)


def asking_form(action: str, inner: str, button: str) -> str:
    """A form that changes nothing, such as a search."""
    return (
        f'<form action="{escaped(quote(action))}">{inner} <button>{escaped(button)}</button></form>'
    )


def file_form(request: Request, action: str, label: str, name: str, button: str) -> str:
    """A form that sends a file."""
    inner = f'<p><label>{escaped(label)} <input type="file" name="{name}"></label></p>'
    plain_form = sent_form(request, action, inner, button, method="patch")
    return plain_form.replace("<form ", '<form enctype="multipart/form-data" ', 1)


def tick(label: str, name: str, *, is_on: bool = False) -> str:
    """A box to tick. Left empty it sends 0, by a hidden field before it."""
    shown = " checked" if is_on else ""
    return (
        f'<input type="hidden" name="{name}" value="0"><p><label><input type="checkbox" '
        f'name="{name}" value="1"{shown}> {escaped(label)}</label></p>'
    )


def said(request: Request, record: str) -> dict[str, Any]:
    """What a form says of a record: the fields `record[...]`, with lines that end as in files."""
    found: dict[str, Any] = {}
    for name, value in request.form[0].items():
        if name.startswith(f"{record}[") and name.endswith("]"):
            found[name[len(record) + 1 : -1]] = plain(value)
    return found


def plain(value: Any) -> str | list[str]:
    """A field without what only forms need: CR at the ends of lines, the empty one of a list."""
    if isinstance(value, list):
        return [str(one) for one in value if one]
    return "" if value is None else str(value).replace("\r\n", "\n")


def submitted(routes: Router, pattern: str) -> Callable[[Handler], Handler]:
    """Register the decorated handler for a form; a form of another site is refused."""

    def register(handler: Handler) -> Handler:
        @wraps(handler)
        def checked(request: Request) -> Response:
            require_own_form(request)
            return handler(request)

        return routes.route("POST", pattern)(checked)

    return register


def require_own_form(request: Request) -> None:
    """Refuse what another site makes a browser send; whoever sends a token is no browser."""
    if request.is_owner or request.headers.get("private-token") or not request.cookie(SESSION):
        return
    given = request.text(TOKEN) or request.headers.get("x-csrf-token", "")
    if not hmac.compare_digest(given.encode("utf-8", "replace"), token_of(request).encode()):
        raise Refused(
            422, "The change you requested was rejected: the form is not of this session; reload it"
        )


# Calls of the API.


def call(request: Request, method: str, path: str, given: Mapping[str, Any] | None = None) -> Any:
    """What a route of the API answers to whoever is signed in; `Refused` where it refuses."""
    address = f"/api/v4/{path}"
    route, values, _ = API.find(method, address)
    if route is None:
        raise Refused(404, GONE)
    if request.user is None and not route.is_open:
        raise Refused(401, "Unauthorized")
    reads = method == "GET"
    inner = Request(
        method=method,
        path=address,
        query={name: str(value) for name, value in (given or {}).items()} if reads else {},
        lists={},
        headers={"content-type": "application/json"},
        body=b"" if reads else json.dumps(dict(given or {})).encode(),
        company=request.company,
        base_url=request.base_url,
        parameters=values,
        user=request.user,
    )
    answer = route.handler(inner)
    is_json = answer.content_type == "application/json"
    return json.loads(answer.body) if answer.body and is_json else answer.body


def named(text: str) -> str:
    """A name as one part of an address of the API."""
    return quote(text, safe="")


# Pages.


def page_project(request: Request, gitlab: Gitlab, level: int = 0) -> Document:
    """The project that a page's address names; not there for whose level is lower than `level`."""
    project = gitlab.project(f"{request.parameters['space']}/{request.parameters['project']}")
    if project is None or not may_see(gitlab, request.user, project):
        raise Refused(404 if request.user else 401, GONE)
    if level and level_of(gitlab, request.user, project) < level:
        raise Refused(404 if request.user else 401, GONE)
    return project


def home_of(project: Document) -> str:
    """The address of a project's first page."""
    return f"/{project['path_with_namespace']}"


def below(project: Document, *parts: object) -> str:
    """An address of a project's pages, such as its issues."""
    return "/".join((f"{home_of(project)}/-", *map(str, parts)))


def shown(request: Request, title: str, body: str, project: Document | None = None) -> Response:
    """A page, with the links of every page after what it is about."""
    lines = [_about_project(request, project)] if project is not None else []
    if request.user is None:
        lines.append(link("/users/sign_in", "Sign in"))
    else:
        own = (
            *(("/dashboard/projects", "Projects"), ("/projects/new", "New project")),
            *(("/dashboard/issues", "Your issues"), ("/dashboard/todos", "To-Do List")),
            ("/dashboard/merge_requests", "Your merge requests"),
        )
        lines.append(" | ".join(link(address, name) for address, name in own))
    where = f'<input type="hidden" name="project_id" value="{project["id"]}">' if project else ""
    words = '<label>Search GitLab <input type="search" name="search"></label>'
    search = asking_form("/search", where + words, "Search")
    out = ""
    if request.user is not None:
        who = f"<p>Signed in as {escaped(request.user['username'])}</p>"
        out = who + sent_form(request, "/users/sign_out", "", "Sign out")
    inner = "".join(f"<p>{line}</p>" for line in lines)
    return Response.html(page(title, f"<main>{body}</main><hr><nav>{inner}{search}{out}</nav>"))


def _about_project(request: Request, project: Document) -> str:
    links = [link(below(project, where), name) for name, where in PLACES.items()]
    links.insert(0, link(home_of(project), project["path_with_namespace"]))
    if level_of(Gitlab(request.company), request.user, project) >= 40:
        links.append(link(f"{home_of(project)}/edit", "Settings"))
        links.append(link(below(project, "settings", "repository"), "Repository settings"))
    return " | ".join(links)


def part_of(request: Request, found: list[Any]) -> tuple[list[Any], str]:
    """The entries of a page of a long list, and the links to its other pages."""
    number = max(1, request.number("page", 1))
    links = []
    for to, name in ((number - 1, "Previous"), (number + 1, "Next")):
        if to > 0 and (to - 1) * PAGE < len(found):
            query = urlencode({**request.query, "page": to})
            links.append(f'<a href="?{escaped(query)}">{name}</a>')
    return found[(number - 1) * PAGE : number * PAGE], f"<p>{' '.join(links)}</p>" if links else ""


def listed(items: Iterable[str]) -> str:
    """A list; its entries are HTML already."""
    return f"<ul>{''.join(f'<li>{item}</li>' for item in items)}</ul>"


def own_path(address: str) -> str:
    """An address of this site without its host; empty for one of another site."""
    parts = urlsplit(address)
    path = parts.path + (f"?{parts.query}" if parts.query else "")
    return path if path.startswith("/") and not path.startswith(("//", "/\\")) else ""
