"""GitLab's first pages: signing in, projects, search, what there is to do, errors."""

from urllib.parse import urlencode

from practicum_envs.office.company_state import Document
from practicum_envs.office.gitlab_model import Gitlab
from practicum_envs.office.services.absent import GITLAB, absence
from practicum_envs.office.services.forms import area, choice, field
from practicum_envs.office.services.gitlab_avatars import take_avatar
from practicum_envs.office.services.gitlab_code_pages import tree_list
from practicum_envs.office.services.gitlab_layout import (
    GONE,
    PLACE,
    SESSION,
    asking_form,
    below,
    call,
    home_of,
    listed,
    own_path,
    page_project,
    said,
    sent_form,
    shown,
    submitted,
    tick,
)
from practicum_envs.office.services.gitlab_search import SCOPES
from practicum_envs.office.services.gitlab_todos import own_todos, todo_view
from practicum_envs.office.services.gitlab_views import may_see, words
from practicum_envs.office.services.pages import escaped, link, page, table
from practicum_envs.office.services.web import Refused, Request, Response, Router

routes = Router()
RETURN = "return_to"
ABSENCE = absence("GitLab", GITLAB)
VISIBILITIES = (("private", "Private"), ("internal", "Internal"), ("public", "Public"))


# Signing in.


@routes.route("GET", "/users/sign_in", is_open=True)
def sign_in_page(request: Request) -> Response:
    """The form to sign in."""
    return Response.html(login_form())


def login_form(words: str = "", to: str = "") -> str:
    """The page to sign in; it leads to the page that was asked for."""
    fields = (
        f'<input type="hidden" name="{RETURN}" value="{escaped(to)}">'
        '<p><label>Username or primary email <input name="user[login]"></label></p>'
        '<p><label>Password <input type="password" name="user[password]"></label></p>'
    )
    form = f'<form method="post" action="/users/sign_in">{fields}<button>Sign in</button></form>'
    return page("Sign in · GitLab", f"<p>{escaped(words)}</p>{form}")


@routes.route("POST", "/users/sign_in", is_open=True)
def sign_in(request: Request) -> Response:
    """Sign in by the form, with a username or an address."""
    gitlab = Gitlab(request.company)
    name, to = request.text("user[login]"), own_path(request.text(RETURN)) or "/"
    by_address = (u for u in gitlab.users.values() if name and u["email"] == name)
    user = gitlab.user(name) or next(by_address, None)
    is_right = user is not None and user["password"] == request.text("user[password]")
    if user is None or not is_right or user["state"] != "active":
        return Response.html(login_form("Invalid login or password.", to), 401)
    token = request.company.secret("random")
    gitlab.data["tokens"][token] = user["id"]
    cookie = f"{SESSION}={token}; Path=/; HttpOnly; SameSite=Lax"
    return Response.redirect(to, {"Set-Cookie": cookie})


@submitted(routes, "/users/sign_out")
def sign_out(request: Request) -> Response:
    """End the session."""
    Gitlab(request.company).data["tokens"].pop(request.cookie(SESSION), None)
    gone = f"{SESSION}=; Path=/; HttpOnly; Max-Age=0"
    return Response.redirect("/users/sign_in", {"Set-Cookie": gone})


# Projects.


@routes.route("GET", "/", is_open=True)
@routes.route("GET", "/explore", is_open=True)
@routes.route("GET", "/explore/projects", is_open=True)
@routes.route("GET", "/dashboard/projects", is_open=True)
def home(request: Request) -> Response:
    """The projects one can see."""
    gitlab = Gitlab(request.company)
    seen = [p for p in gitlab.projects.values() if may_see(gitlab, request.user, p)]
    return shown(request, "Projects", project_table(seen))


def project_table(projects: list[Document]) -> str:
    """Projects, with a link to each."""
    rows = [
        (link(home_of(p), p["path_with_namespace"]), p["visibility"], escaped(p["description"]))
        for p in projects
    ]
    return table(("Project", "Visibility", "About"), rows)


@routes.route("GET", "/projects/new")
def new_project_page(request: Request) -> Response:
    """The form for a new project."""
    gitlab = Gitlab(request.company)
    spaces = [("", request.user["username"])]
    own = str(request.user["id"])
    for group in gitlab.groups.values():
        if request.user["is_admin"] or group["members"].get(own, 0) >= 30:
            spaces.append((str(group["id"]), group["full_path"]))
    fields = (
        field("Project name", "project[name]")
        + choice("Namespace", "project[namespace_id]", spaces)
        + field("Project slug (made from the name if empty)", "project[path]")
        + area("Project description", "project[description]")
        + choice("Visibility level", "project[visibility]", VISIBILITIES)
        + tick("Initialize repository with a README", "project[initialize_with_readme]", is_on=True)
    )
    form = sent_form(request, "/projects", fields, "Create project")
    return shown(request, "New project", form)


@submitted(routes, "/projects")
def create_project(request: Request) -> Response:
    """A new project, by the form."""
    given = {name: value for name, value in said(request, "project").items() if value}
    made = call(request, "POST", "projects", given)
    return Response.redirect(f"/{made['path_with_namespace']}")


@routes.route("GET", PLACE, is_open=True)
def project_page(request: Request) -> Response:
    """A project: what it is, its files, what one can do with it."""
    gitlab = Gitlab(request.company)
    project = page_project(request, gitlab)
    repository = gitlab.repository(project)
    head = repository.resolve(project["default_branch"])
    files = tree_list(project, repository.tree(head), project["default_branch"]) if head else ""
    opened = {
        kind: sum(one["state"] == "opened" for one in project[kind])
        for kind in ("issues", "merge_requests")
    }
    facts = (
        f"Visibility: {project['visibility']}; Stars: {len(project['stars'])}; "
        f"Open issues: {opened['issues']}; Open merge requests: {opened['merge_requests']}"
    )
    clone = f"git clone {request.base_url}/{project['path_with_namespace']}.git"
    lines = (project["description"], facts, clone, *(["Archived project"] * project["archived"]))
    body = "".join(f"<p>{escaped(line)}</p>" for line in lines) + files
    if "avatar_path" in project:
        body += f'<p><img src="{escaped(project["avatar_path"])}" alt="Project avatar"></p>'
    if head is None:
        body += "<p>The repository for this project is empty</p>"
    readme = repository.blob(head, "README.md") if head else None
    if readme is not None:
        body += f"<h2>README.md</h2><pre>{escaped(readme[1].decode(errors='replace'))}</pre>"
    if request.user is not None:
        word = "Unstar" if request.user["id"] in project["stars"] else "Star"
        body += sent_form(request, f"{home_of(project)}/toggle_star", "", word)
        body += sent_form(request, below(project, "forks"), "", "Fork")
    return shown(request, project["path_with_namespace"], body, project)


@submitted(routes, f"{PLACE}/toggle_star")
def toggle_star(request: Request) -> Response:
    """Star a project, or not."""
    project = page_project(request, Gitlab(request.company))
    word = "unstar" if request.user["id"] in project["stars"] else "star"
    call(request, "POST", f"projects/{project['id']}/{word}")
    return Response.redirect(home_of(project))


@submitted(routes, f"{PLACE}/-/forks")
def fork(request: Request) -> Response:
    """A copy of a project in one's own namespace."""
    project = page_project(request, Gitlab(request.company))
    made = call(request, "POST", f"projects/{project['id']}/fork")
    return Response.redirect(f"/{made['path_with_namespace']}")


@submitted(routes, PLACE)
def change_project(request: Request) -> Response:
    """Change or delete a project."""
    gitlab = Gitlab(request.company)
    project = page_project(request, gitlab)
    place = f"projects/{project['id']}"
    if request.text("_method").lower() == "delete":
        call(request, "DELETE", place)
        return Response.redirect("/dashboard/projects")
    given = said(request, "project")
    if "topics" in given:
        given["topics"] = [one.strip() for one in words(given["topics"]) if one.strip()]
    changed = call(request, "PUT", place, given)
    take_avatar(gitlab, project, request.form[1].get("project[avatar]"))
    return Response.redirect(f"/{changed['path_with_namespace']}")


# What there is to do, and search.


@routes.route("GET", "/dashboard/{kind:issues|merge_requests}")
def own_work_page(request: Request) -> Response:
    """One's own open issues or merge requests: those that one made, works on or reviews."""
    gitlab, own = Gitlab(request.company), request.user["id"]
    rows = []
    kind = request.parameters["kind"]
    for project in gitlab.projects.values():
        for work in project[kind] if may_see(gitlab, request.user, project) else ():
            people = [work["author"], *work["assignees"], *work.get("reviewers", [])]
            if work["state"] == "opened" and own in people:
                address = below(project, kind, work["iid"])
                role = "assigned" if own in work["assignees"] else ""
                rows.append(
                    (link(address, work["title"]), escaped(project["path_with_namespace"]), role)
                )
    body = table(("Title", "Project", "Role"), rows)
    return shown(request, f"Your {kind.replace('_', ' ')}", body)


@routes.route("GET", "/dashboard/todos")
def todos_page(request: Request) -> Response:
    """What one has to do."""
    gitlab = Gitlab(request.company)
    state = "done" if request.query.get("state") == "done" else "pending"
    items = []
    for one in own_todos(gitlab, request.user, state):
        todo = todo_view(gitlab, one)
        address = own_path(todo["target_url"])
        name = f"{todo['project']['path_with_namespace']}: {todo['body']}"
        done = sent_form(request, f"/dashboard/todos/{one['id']}/done", "", "Mark as done")
        author = (todo["author"] or {"username": "someone"})["username"]
        what = escaped(f"{todo['action_name']} by {author}")
        items.append(f"{link(address, name)} {what} {done if state == 'pending' else ''}")
    tabs = " ".join(link(f"/dashboard/todos?state={one}", one) for one in ("pending", "done"))
    all_done = sent_form(request, "/dashboard/todos/done", "", "Mark all as done")
    body = f"<p>{tabs}</p>{listed(items)}{all_done if items and state == 'pending' else ''}"
    return shown(request, "To-Do List", body)


@submitted(routes, "/dashboard/todos/{todo}/done")
def todo_done(request: Request) -> Response:
    """A to-do item is done."""
    call(request, "POST", f"todos/{request.parameters['todo']}/mark_as_done")
    return Response.redirect("/dashboard/todos")


@submitted(routes, "/dashboard/todos/done")
def todos_done(request: Request) -> Response:
    """All of them are done."""
    call(request, "POST", "todos/mark_as_done")
    return Response.redirect("/dashboard/todos")


@routes.route("GET", "/search")
def search_page(request: Request) -> Response:
    """Search in everything that one can see, or in the project that `project_id` names."""
    gitlab = Gitlab(request.company)
    words, number = request.text("search"), request.text("project_id")
    project = gitlab.projects.get(number)
    if project is not None and not may_see(gitlab, request.user, project):
        raise Refused(404, GONE)
    scope = request.text("scope", default="blobs" if project else "projects")
    options = ((one, one.replace("_", " ")) for one in SCOPES)
    hidden = f'<input type="hidden" name="project_id" value="{escaped(number)}">' if project else ""
    form = asking_form(
        "/search",
        field("Search for", "search", words) + choice("In", "scope", options, scope) + hidden,
        "Search again",
    )
    found: list[Document] = []
    if words:
        place = f"projects/{project['id']}/search" if project else "search"
        query = {**request.query, "scope": scope, "per_page": 100}
        found = call(request, "GET", place, query)
    body = f"{form}<p>{len(found)} found</p>{listed(result_line(gitlab, one) for one in found)}"
    return shown(request, "Search", body, project)


def result_line(gitlab: Gitlab, found: Document) -> str:
    """What a search found, as a line with a link."""
    project = gitlab.projects.get(str(found.get("project_id", "")))
    if "web_url" in found:  # projects, people, issues, merge requests, milestones, commits
        name = found.get("title") or found.get("path_with_namespace") or found["name"]
        return link(own_path(found["web_url"]), name)
    if project is None:
        return escaped(found.get("body", ""))
    if "slug" in found:
        return link(below(project, "wikis", found["slug"]), found["title"])
    address = below(project, "blob", found["ref"], found["path"])
    place = f"{project['path_with_namespace']}: {found['path']}:{found['startline']}"
    return f"{link(address, place)} <code>{escaped(found['data'])}</code>"


@routes.route("GET", "/groups/{owner:.+}", is_open=True)
@routes.route("GET", "/{owner:(?!api$|users$)[A-Za-z0-9_][^/]*}", is_open=True)
def owner_page(request: Request) -> Response:
    """The projects of a user or a group."""
    gitlab, name = Gitlab(request.company), request.parameters["owner"]
    owner = gitlab.group(name) or gitlab.user(name)
    if owner is None:
        raise ABSENCE(request, False)
    path = owner.get("full_path") or owner["username"]
    found = [p for p in gitlab.projects.values() if p["namespace_path"] == path]
    about = owner.get("bio") or owner.get("description") or ""
    body = f"<p>{escaped(about)}</p>"
    return shown(
        request,
        f"{owner['name']} ({path})",
        body + project_table([p for p in found if may_see(gitlab, request.user, p)]),
    )


# Errors.


def refused_page(request: Request, refused: Refused) -> Response:
    """An error as a page; git is asked for a name and a password."""
    is_git = request.path.endswith(("info/refs", "git-upload-pack", "git-receive-pack"))
    if is_git:
        headers = {"WWW-Authenticate": 'Basic realm="GitLab"'} if refused.status == 401 else {}
        body = refused.message.encode()
        return Response(
            status=refused.status, body=body, content_type="text/plain", headers=headers
        )
    if refused.status == 401 and request.user is None:
        query = f"?{urlencode(request.query)}" if request.query else ""
        to = request.path + query if request.method == "GET" else ""
        return Response.html(login_form("You need to sign in before continuing.", to), 401)
    back = own_path(request.headers.get("referer", ""))
    way = f"<p>{link(back, 'Back to the page before')}</p>" if back else ""
    return Response.html(
        page("GitLab", f'<p role="alert">{escaped(words_of(refused))}</p>{way}'), refused.status
    )


def words_of(refused: Refused) -> str:
    """What an error of the API says, as a sentence."""
    detail = refused.extra.get("detail")
    if isinstance(detail, dict):
        parts = (f"{name} {', '.join(map(str, said))}" for name, said in detail.items())
        return "; ".join(parts)
    return ", ".join(map(str, detail)) if isinstance(detail, list) else refused.message
