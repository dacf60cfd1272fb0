"""GitLab's pages, and its repositories for git itself over HTTP (`git http-backend`)."""

import gzip
import io
import subprocess
import zlib
from contextlib import suppress
from pathlib import Path

from practicum.environments.office.company_state import Document
from practicum.environments.office.git_repository import PUSH_BYTES, git_environment
from practicum.environments.office.gitlab_model import Gitlab
from practicum.environments.office.services.gitlab_views import level_of, may_see, person
from practicum.environments.office.services.pages import escaped, link, page, sign_in_form, table
from practicum.environments.office.services.web import Refused, Request, Response, Router

routes = Router()
MOST_REFS = 1000
"""Branches and tags that one push may change."""
REF_BYTES = 512
BACKEND_S = 30.0
"""Seconds for git to answer a clone or a push."""
SPACE = "{space:(?!api/|oauth/)[A-Za-z0-9_.][^/]*(?:/[^/]+)*?}"
PLACE = f"/{SPACE}/{{project:[^/]+}}"


# Git over HTTP.


GIT = "{suffix:(?:[.]git)?}/{rest:info/refs|git-upload-pack|git-receive-pack}"


@routes.route("GET POST", f"/{SPACE}/{{project:[^/]+?}}{GIT}", is_open=True)
def git_over_http(request: Request) -> Response:
    """Clone, fetch and push."""
    gitlab = Gitlab(request.company)
    named = f"{request.parameters['space']}/{request.parameters['project']}"
    project = gitlab.project(named)
    service = request.query.get("service", request.parameters["rest"])
    is_push = service == "git-receive-pack"
    if request.user is None and (is_push or project is None or not may_see(gitlab, None, project)):
        raise Refused(401, "HTTP Basic: Access denied.")
    if project is None or not may_see(gitlab, request.user, project):
        raise Refused(404, "The project you were looking for could not be found.")
    if is_push and (level_of(gitlab, request.user, project) < 30 or project["archived"]):
        raise Refused(403, "You are not allowed to push code to this project.")
    if is_push:
        request.company.require_room(len(request.body))
        require_few_refs(request)
    response = run_backend(request, gitlab.path(project))
    if is_push and request.method == "POST":
        gitlab.after_push(project)
    return response


def require_few_refs(request: Request) -> None:
    """Refuse a push of more branches and tags than anyone has: each is a file.

    What a push changes stands before its objects, a line of hexadecimal length each.
    """
    body, at = request.body, 0
    if request.headers.get("content-encoding", "") in ("gzip", "x-gzip"):
        with suppress(OSError, EOFError, zlib.error):
            body = gzip.GzipFile(fileobj=io.BytesIO(request.body)).read(MOST_REFS * REF_BYTES)
    for _ in range(MOST_REFS):
        try:
            size = int(body[at : at + 4], 16)
        except ValueError:
            return  # git refuses it
        if size < 4:
            return
        at += size
    raise Refused(413, f"a push may change {MOST_REFS} references")


def run_backend(request: Request, repository: Path) -> Response:
    """Let git answer."""
    room = max(1, request.company.room_bytes)  # for git, 0 is no limit
    environment = {
        **git_environment({"receive.maxInputSize": str(min(PUSH_BYTES, room))}),
        "GIT_PROJECT_ROOT": str(repository.parent),
        "GIT_HTTP_EXPORT_ALL": "1",
        "PATH_INFO": f"/{repository.name}/{request.parameters['rest']}",
        "REQUEST_METHOD": request.method,
        "QUERY_STRING": "&".join(f"{name}={value}" for name, value in request.query.items()),
        "CONTENT_TYPE": request.headers.get("content-type", ""),
        "CONTENT_LENGTH": str(len(request.body)),
        "REMOTE_USER": request.user["username"] if request.user else "",
        "REMOTE_ADDR": "127.0.0.1",
        "GIT_PROTOCOL": request.headers.get("git-protocol", ""),
        "HTTP_CONTENT_ENCODING": request.headers.get("content-encoding", ""),
    }
    done = subprocess.run(
        ["git", "http-backend"],
        input=request.body,
        capture_output=True,
        check=False,
        env={name: value for name, value in environment.items() if value},
        timeout=BACKEND_S,
    )
    head, gap, body = done.stdout.partition(b"\r\n\r\n")
    if not gap:
        raise Refused(500, "git did not answer")
    headers: dict[str, str] = {}
    for line in head.decode(errors="replace").split("\r\n"):
        name, _, value = line.partition(":")
        headers[name.strip()] = value.strip()
    status = int(headers.pop("Status", "200").split()[0])
    kind = headers.pop("Content-Type", "text/plain")
    return Response(status=status, body=body, content_type=kind, headers=headers)


# Pages.


@routes.route("GET", "/", is_open=True)
@routes.route("GET", "/explore", is_open=True)
@routes.route("GET", "/explore/projects", is_open=True)
@routes.route("GET", "/dashboard/projects", is_open=True)
def home(request: Request) -> Response:
    """The projects one can see."""
    gitlab = Gitlab(request.company)
    seen = [p for p in gitlab.projects.values() if may_see(gitlab, request.user, p)]
    rows = [
        (link("/" + p["path_with_namespace"], p["path_with_namespace"]), escaped(p["description"]))
        for p in seen
    ]
    who = f"<p>Signed in as {escaped(request.user['username'])}</p>" if request.user else ""
    sign_in = "" if request.user else f"<p>{link('/users/sign_in', 'Sign in')}</p>"
    return Response.html(
        page("Projects · GitLab", who + sign_in + table(("Project", "About"), rows))
    )


@routes.route("GET", "/users/sign_in", is_open=True)
def sign_in_page(request: Request) -> Response:
    """The form to sign in."""
    return Response.html(login_form())


FIELDS = (("Username or primary email", "user[login]"), ("Password", "user[password]"))


def login_form(said: str = "") -> str:
    """The page to sign in."""
    return sign_in_form("Sign in · GitLab", "/users/sign_in", FIELDS, "Sign in", said)


@routes.route("POST", "/users/sign_in", is_open=True)
def sign_in(request: Request) -> Response:
    """Sign in by the form."""
    gitlab = Gitlab(request.company)
    user = gitlab.user(request.text("user[login]"))
    if user is None or user["password"] != request.text("user[password]"):
        return Response.html(login_form("Invalid login or password."), 401)
    token = request.company.secret("random")
    gitlab.data["tokens"][token] = user["id"]
    return Response.redirect("/", {"Set-Cookie": f"_gitlab_session={token}; Path=/; HttpOnly"})


def page_project(request: Request, gitlab: Gitlab) -> Document:
    """The project that a page's address names."""
    project = gitlab.project(f"{request.parameters['space']}/{request.parameters['project']}")
    if project is None or not may_see(gitlab, request.user, project):
        raise Refused(404, "The page could not be found or you don't have permission to view it.")
    return project


@routes.route("GET", f"{PLACE}/-/{{kind:issues|merge_requests}}", is_open=True)
def works_page(request: Request) -> Response:
    """The issues or merge requests of a project."""
    gitlab = Gitlab(request.company)
    project = page_project(request, gitlab)
    kind = request.parameters["kind"]
    base = f"/{project['path_with_namespace']}/-/{kind}"
    rows = [
        (
            link(f"{base}/{w['iid']}", f"#{w['iid']} {w['title']}"),
            w["state"],
            escaped(", ".join(w["labels"])),
        )
        for w in reversed(project[kind])
    ]
    title = f"{kind.replace('_', ' ').title()} · {project['path_with_namespace']}"
    return Response.html(page(title, table(("Title", "State", "Labels"), rows)))


@routes.route("GET", f"{PLACE}/-/{{kind:issues|merge_requests}}/{{iid}}", is_open=True)
def work_page(request: Request) -> Response:
    """One issue or merge request with its comments."""
    gitlab = Gitlab(request.company)
    project = page_project(request, gitlab)
    number = request.parameters["iid"]
    works = project[request.parameters["kind"]]
    work = next((one for one in works if str(one["iid"]) == number), None)
    if work is None:
        raise Refused(404, "The page could not be found or you don't have permission to view it.")
    names = [(person(gitlab, n) or {}).get("username", "") for n in work["assignees"]]
    writers = [(person(gitlab, n["author"]) or {}).get("username", "") for n in work["notes"]]
    notes = "".join(
        f"<li><b>{escaped(writer)}</b> {escaped(note['body'])}</li>"
        for writer, note in zip(writers, work["notes"], strict=True)
    )
    shown = ("State", work["state"]), ("Labels", ", ".join(work["labels"]))
    facts = "; ".join(f"{k}: {v}" for k, v in (*shown, ("Assignees", ", ".join(names))))
    body = f"<p>{escaped(facts)}</p><pre>{escaped(work['description'])}</pre><ul>{notes}</ul>"
    return Response.html(page(f"{work['title']} (#{work['iid']})", body))


@routes.route(
    "GET", f"{PLACE}/-/{{kind:tree|blob|raw}}/{{ref:[^/]+}}{{path:(?:/.*)?}}", is_open=True
)
def files_page(request: Request) -> Response:
    """A folder or a file of a repository; a branch with a slash in its name is found too."""
    gitlab = Gitlab(request.company)
    project = page_project(request, gitlab)
    repository = gitlab.repository(project)
    whole = (request.parameters["ref"] + request.parameters["path"]).strip("/")
    names = sorted(repository.branches(), key=len, reverse=True)
    ref = next(
        (n for n in names if whole == n or whole.startswith(n + "/")), request.parameters["ref"]
    )
    path = whole[len(ref) :].strip("/")
    commit = repository.resolve(ref)
    if commit is None:
        raise Refused(404, "There is no such branch, tag or commit.")
    title = f"{path or project['name']} · {ref} · {project['path_with_namespace']}"
    found = repository.blob(commit, path) if path else None
    if found is not None:
        if request.parameters["kind"] == "raw":
            return Response(body=found[1], content_type="text/plain; charset=utf-8")
        return Response.html(
            page(title, f"<pre>{escaped(found[1].decode(errors='replace'))}</pre>")
        )
    return Response.html(page(title, tree_list(project, repository.tree(commit, path), ref)))


def tree_list(project: Document, entries: list[Document], ref: str) -> str:
    """The entries of a folder as links."""
    base = f"/{project['path_with_namespace']}/-"
    places = ((f"{base}/{e['type']}/{ref}/{e['path']}", e["name"]) for e in entries)
    rows = [f"<li>{link(place, name)}</li>" for place, name in places]
    return f"<ul>{''.join(rows)}</ul>"


@routes.route("GET", f"{PLACE}/-/wikis", is_open=True)
@routes.route("GET", f"{PLACE}/-/wikis/{{slug:.+}}", is_open=True)
def wiki_page(request: Request) -> Response:
    """A page of the wiki, or the list of them."""
    gitlab = Gitlab(request.company)
    project = page_project(request, gitlab)
    slug = request.parameters.get("slug", "")
    if slug in project["wikis"]:
        wiki = project["wikis"][slug]
        return Response.html(page(wiki["title"], f"<pre>{escaped(wiki['content'])}</pre>"))
    if slug and slug not in ("home", "pages"):
        raise Refused(404, "There is no such page of the wiki.")
    base = f"/{project['path_with_namespace']}/-/wikis/"
    rows = "".join(
        f"<li>{link(base + s, w['title'])}</li>" for s, w in sorted(project["wikis"].items())
    )
    return Response.html(page(f"Wiki · {project['path_with_namespace']}", f"<ul>{rows}</ul>"))


@routes.route("GET", PLACE, is_open=True)
def project_page(request: Request) -> Response:
    """A project: what it is, its files, where the rest is."""
    gitlab = Gitlab(request.company)
    project = page_project(request, gitlab)
    repository = gitlab.repository(project)
    base = f"/{project['path_with_namespace']}/-"
    places = ("issues", "merge_requests", "wikis")
    links = " ".join(link(f"{base}/{place}", place.replace("_", " ")) for place in places)
    head = repository.resolve(project["default_branch"])
    files = tree_list(project, repository.tree(head), project["default_branch"]) if head else ""
    clone = f"git clone {request.base_url}/{project['path_with_namespace']}.git"
    body = f"<p>{escaped(project['description'])}</p><p>{links}</p><p>{escaped(clone)}</p>{files}"
    return Response.html(page(project["path_with_namespace"], body))


def refused_page(request: Request, refused: Refused) -> Response:
    """An error as a page; git is asked for a name and a password."""
    is_git = request.path.endswith(("info/refs", "git-upload-pack", "git-receive-pack"))
    if is_git:
        headers = {"WWW-Authenticate": 'Basic realm="GitLab"'} if refused.status == 401 else {}
        body = refused.message.encode()
        return Response(
            status=refused.status, body=body, content_type="text/plain", headers=headers
        )
    if refused.status == 401:
        return Response.html(login_form("You need to sign in before continuing."), 401)
    return Response.html(page("GitLab", f"<p>{escaped(refused.message)}</p>"), refused.status)
