"""GitLab's projects: making and changing them; members, labels, milestones, wikis, releases."""

from urllib.parse import quote

from practicum_envs.office.company_state import Document
from practicum_envs.office.folders import disk_bytes, remove_folder
from practicum_envs.office.git_repository import GitError
from practicum_envs.office.gitlab_model import ACCESS, Gitlab
from practicum_envs.office.services.gitlab_avatars import remove_avatar, take_avatar
from practicum_envs.office.services.gitlab_views import (
    may_see,
    paged,
    project_view,
    required,
    user_view,
    wanted_project,
    words,
)
from practicum_envs.office.services.web import Refused, Request, Response, Router

routes = Router()
P = "/api/v4/projects/{id}"
TEXTS = ("name", "path", "description", "default_branch", "visibility", "merge_method")
VISIBILITIES = ("private", "internal", "public")


@routes.route("GET", "/api/v4/projects", is_open=True)
def projects(request: Request) -> Response:
    """The projects one can see, newest first."""
    gitlab = Gitlab(request.company)
    found = [p for p in gitlab.projects.values() if may_see(gitlab, request.user, p)]
    return paged(request, select_projects(request, gitlab, found))


def select_projects(request: Request, gitlab: Gitlab, found: list[Document]) -> list[Document]:
    """Projects as the query asks for them."""
    wanted = request.text("search").lower()
    found = [
        p
        for p in found
        if wanted in p["path_with_namespace"].lower() or wanted in p["name"].lower()
    ]
    if request.text("visibility"):
        found = [p for p in found if p["visibility"] == request.text("visibility")]
    if request.flag("owned") and request.user is not None:
        found = [p for p in found if p["namespace_path"] == request.user["username"]]
    if request.flag("membership") and request.user is not None:
        own = str(request.user["id"])
        found = [
            p
            for p in found
            if own in p["members"] or p["namespace_path"] == request.user["username"]
        ]
    order = request.text("order_by", default="created_at")
    key = order if order in ("id", "name", "path", "created_at", "last_activity_at") else "id"
    is_descending = request.text("sort", default="desc") != "asc"
    found = sorted(
        found, key=lambda p: p["id" if key == "created_at" else key], reverse=is_descending
    )
    return [project_view(gitlab, project, request.user) for project in found]


@routes.route("GET", "/api/v4/users/{user}/projects")
def users_projects(request: Request) -> Response:
    """The projects in a user's own namespace."""
    gitlab = Gitlab(request.company)
    user = gitlab.user(request.parameters["user"])
    if user is None:
        raise Refused(404, "404 User Not Found")
    found = [p for p in gitlab.projects.values() if p["namespace_path"] == user["username"]]
    seen = [p for p in found if may_see(gitlab, request.user, p)]
    return paged(request, select_projects(request, gitlab, seen))


@routes.route("POST", "/api/v4/projects")
def create_project(request: Request) -> Response:
    """A new project."""
    gitlab = Gitlab(request.company)
    name = request.text("name", "path")
    if not name:
        raise Refused(
            400, "name, path are missing, at least one parameter must be provided", key="error"
        )
    space = request.user["username"]
    if request.text("namespace_id"):
        named = request.text("namespace_id")
        group = gitlab.group(named)
        owner = gitlab.user(named)
        space = group["full_path"] if group else (owner or {"username": ""})["username"]
    require_namespace(request, gitlab, space)
    path = request.text("path") or "-".join(name.lower().split())
    project = gitlab.add_project(
        space,
        path,
        name=request.text("name") or path,
        description=request.text("description"),
        visibility=visibility_of(request),
        default_branch=request.text("default_branch"),
        creator_id=request.user["id"],
        topics=words(request.fields.get("topics")),
    )
    take_avatar(gitlab, project, request.form[1].get("avatar"))
    if request.flag("initialize_with_readme"):
        text = f"# {project['name']}\n\n{project['description']}\n"
        branch = project["default_branch"]
        gitlab.commit(project, request.user, branch, "Initial commit", files={"README.md": text})
    return Response.json(project_view(gitlab, project, request.user), 201)


def require_namespace(request: Request, gitlab: Gitlab, space: str) -> None:
    """Refuse to make a project where whoever asks may not: in another's namespace."""
    own, group = request.user, gitlab.group(space)
    is_member = group is not None and group["members"].get(str(own["id"]), 0) >= 30
    is_there = group is not None or gitlab.user(space) is not None
    if not (is_there and (own["is_admin"] or is_member or own["username"] == space)):
        raise Refused(400, "", detail={"namespace": ["is not valid"]})


def visibility_of(request: Request) -> str:
    """The visibility that a request asks for."""
    given = request.text("visibility", default="private")
    if given not in VISIBILITIES:
        raise Refused(400, "visibility does not have a valid value", key="error")
    return given


@routes.route("GET", P, is_open=True)
def one_project(request: Request) -> Response:
    """One project."""
    gitlab = Gitlab(request.company)
    return Response.json(project_view(gitlab, wanted_project(request, gitlab), request.user))


@routes.route("PUT", P)
def change_project(request: Request) -> Response:
    """Change a project's settings."""
    gitlab = Gitlab(request.company)
    project = wanted_project(request, gitlab, 40)
    if "visibility" in request.fields:
        visibility_of(request)
    path = request.text("path", default=project["path"])
    if path != project["path"]:
        gitlab.require_path(project["namespace_path"], path)
    branch = request.text("default_branch")
    if branch and branch not in gitlab.repository(project).branches():
        raise Refused(400, "", detail={"base": ["Could not change HEAD: branch does not exist"]})
    take_avatar(gitlab, project, request.form[1].get("avatar"))
    if request.fields.get("avatar") == "":
        remove_avatar(gitlab, project)
    for name, value in request.fields.items():
        if name in TEXTS:
            project[name] = str(value)
        elif name in ("topics", "tag_list"):
            project["topics"] = words(value)
        elif name not in ("id", "avatar"):
            project["settings"][name] = value
    project["path_with_namespace"] = f"{project['namespace_path']}/{project['path']}"
    if branch:
        gitlab.set_default_branch(project, branch)
    gitlab.touch(project)
    return Response.json(project_view(gitlab, project, request.user))


@routes.route("DELETE", P)
def delete_project(request: Request) -> Response:
    """Delete a project and its repository."""
    gitlab = Gitlab(request.company)
    project = wanted_project(request, gitlab, 50)
    remove_avatar(gitlab, project)
    remove_folder(gitlab.path(project))
    del gitlab.projects[str(project["id"])]
    return Response.json({"message": "202 Accepted"}, 202)


@routes.route("POST", f"{P}/{{what:archive|unarchive}}")
def archive_project(request: Request) -> Response:
    """Archive a project, or take it back."""
    gitlab = Gitlab(request.company)
    project = wanted_project(request, gitlab, 50)
    project["archived"] = request.parameters["what"] == "archive"
    return Response.json(project_view(gitlab, project, request.user), 201)


@routes.route("POST", f"{P}/{{what:star|unstar}}")
def star_project(request: Request) -> Response:
    """Star a project, or not."""
    gitlab = Gitlab(request.company)
    project = wanted_project(request, gitlab)
    has = request.user["id"] in project["stars"]
    if has == (request.parameters["what"] == "star"):
        return Response(status=304)
    if has:
        project["stars"].remove(request.user["id"])
    else:
        project["stars"].append(request.user["id"])
    return Response.json(project_view(gitlab, project, request.user), 201)


@routes.route("POST", f"{P}/fork")
def fork_project(request: Request) -> Response:
    """A copy of a project in one's own namespace."""
    gitlab = Gitlab(request.company)
    origin = wanted_project(request, gitlab)
    request.company.require_room(disk_bytes(gitlab.path(origin)))
    space = request.text("namespace_path", "namespace") or request.user["username"]
    require_namespace(request, gitlab, space)
    project = gitlab.add_project(
        space,
        request.text("path") or origin["path"],
        name=request.text("name") or origin["name"],
        description=origin["description"],
        visibility=origin["visibility"],
        default_branch=origin["default_branch"],
        creator_id=request.user["id"],
        forked_from=origin["id"],
    )
    gitlab.repository(project).git("fetch", str(gitlab.path(origin)), "+refs/*:refs/*")
    gitlab.after_push(project)
    origin["forks_count"] += 1
    return Response.json(project_view(gitlab, project, request.user), 201)


# Members.


@routes.route("GET", f"{P}/members")
@routes.route("GET", f"{P}/members/all")
@routes.route("GET", f"{P}/users")
def members(request: Request) -> Response:
    """Who is in a project."""
    gitlab = Gitlab(request.company)
    project = wanted_project(request, gitlab)
    levels = dict(project["members"])
    owner = gitlab.user(project["namespace_path"])
    if owner is not None:
        levels.setdefault(str(owner["id"]), 50)
    pairs = ((gitlab.users.get(number), level) for number, level in levels.items())
    wanted = request.text("query", "search").lower()
    found = [
        (u, level) for u, level in pairs if u and wanted in f"{u['username']} {u['name']}".lower()
    ]
    return paged(request, [member_view(user, level) for user, level in found])


def member_view(user: Document, level: int) -> Document:
    """A member."""
    return {**(user_view(user) or {}), "access_level": level, "expires_at": None}


@routes.route("GET", f"{P}/members/{{user}}")
@routes.route("GET", f"{P}/members/all/{{user}}")
def one_member(request: Request) -> Response:
    """One member."""
    gitlab = Gitlab(request.company)
    project = wanted_project(request, gitlab)
    user = gitlab.users.get(request.parameters["user"])
    level = project["members"].get(request.parameters["user"])
    if user is not None and user["username"] == project["namespace_path"]:
        level = 50
    if user is None or level is None:
        raise Refused(404, "404 Not found")
    return Response.json(member_view(user, level))


@routes.route("POST", f"{P}/members")
def add_member(request: Request) -> Response:
    """Add someone to a project."""
    gitlab = Gitlab(request.company)
    project = wanted_project(request, gitlab, 40)
    required(request, "access_level")
    named = request.fields.get("user_id", request.fields.get("username"))
    user = gitlab.user(str(named)) if named is not None else None
    if user is None:
        raise Refused(404, "404 User Not Found")
    if str(user["id"]) in project["members"]:
        raise Refused(409, "Member already exists")
    set_member(request, project, user)
    return Response.json(member_view(user, project["members"][str(user["id"])]), 201)


def set_member(request: Request, project: Document, user: Document) -> None:
    """Set a member's level."""
    level = request.number("access_level", 0)
    if level not in ACCESS:
        raise Refused(400, "access_level does not have a valid value", key="error")
    project["members"][str(user["id"])] = level


@routes.route("PUT DELETE", f"{P}/members/{{user}}")
def change_member(request: Request) -> Response:
    """Change what a member may do, or remove them."""
    gitlab = Gitlab(request.company)
    project = wanted_project(request, gitlab, 40)
    user = gitlab.users.get(request.parameters["user"])
    if user is None or str(user["id"]) not in project["members"]:
        raise Refused(404, "404 Not found")
    if request.method == "DELETE":
        del project["members"][str(user["id"])]
        return Response(status=204)
    set_member(request, project, user)
    return Response.json(member_view(user, project["members"][str(user["id"])]))


# Labels and milestones.


def label_view(project: Document, label: Document) -> Document:
    """A label, and how many open issues have it."""
    using = [one for one in project["issues"] if label["name"] in one["labels"]]
    merging = [one for one in project["merge_requests"] if label["name"] in one["labels"]]
    return {
        **label,
        "description_html": label["description"] or "",
        "open_issues_count": sum(one["state"] == "opened" for one in using),
        "closed_issues_count": sum(one["state"] == "closed" for one in using),
        "open_merge_requests_count": sum(one["state"] == "opened" for one in merging),
    }


@routes.route("GET", f"{P}/labels")
def labels(request: Request) -> Response:
    """The labels of a project."""
    project = wanted_project(request, Gitlab(request.company))
    wanted = request.text("search").lower()
    found = [one for one in project["labels"] if wanted in one["name"].lower()]
    found.sort(key=lambda one: str(one["name"]))
    return paged(request, [label_view(project, one) for one in found])


@routes.route("POST", f"{P}/labels")
def create_label(request: Request) -> Response:
    """A new label."""
    gitlab = Gitlab(request.company)
    project = wanted_project(request, gitlab, 20)
    required(request, "name", "color")
    if gitlab.label(project, request.text("name")) is not None:
        raise Refused(409, "Label already exists")
    more = {
        "description": request.fields.get("description"),
        "priority": request.fields.get("priority"),
    }
    label = gitlab.add_label(project, request.text("name"), request.text("color"), **more)
    return Response.json(label_view(project, label), 201)


@routes.route("GET PUT DELETE", f"{P}/labels/{{label}}")
@routes.route("PUT DELETE", f"{P}/labels")
def change_label(request: Request) -> Response:
    """One label: show, change, delete."""
    gitlab = Gitlab(request.company)
    project = wanted_project(request, gitlab, 0 if request.method == "GET" else 20)
    label = gitlab.label(
        project, request.parameters.get("label") or request.text("name", "label_id")
    )
    if label is None:
        raise Refused(404, "404 Label Not Found")
    if request.method == "DELETE":
        project["labels"].remove(label)
        for work in (*project["issues"], *project["merge_requests"]):
            work["labels"] = [name for name in work["labels"] if name != label["name"]]
        return Response(status=204)
    if request.method == "PUT":
        new = request.text("new_name") or label["name"]
        for work in (*project["issues"], *project["merge_requests"]):
            work["labels"] = [new if name == label["name"] else name for name in work["labels"]]
        label["name"] = new
        for name in ("color", "description", "priority"):
            if name in request.fields:
                label[name] = request.fields[name]
    return Response.json(label_view(project, label))


@routes.route("GET", f"{P}/milestones")
def milestones(request: Request) -> Response:
    """The milestones of a project, newest first."""
    project = wanted_project(request, Gitlab(request.company))
    wanted, title = request.text("search").lower(), request.text("title")
    found = [
        one
        for one in reversed(project["milestones"])
        if wanted in one["title"].lower()
        and title in ("", one["title"])
        and request.text("state", default=one["state"]) == one["state"]
    ]
    return paged(request, found)


@routes.route("POST", f"{P}/milestones")
def create_milestone(request: Request) -> Response:
    """A new milestone."""
    gitlab = Gitlab(request.company)
    project = wanted_project(request, gitlab, 20)
    required(request, "title")
    if any(one["title"] == request.text("title") for one in project["milestones"]):
        raise Refused(
            400,
            "",
            detail={"title": ["already being used for another group or project milestone."]},
        )
    more = {name: request.fields.get(name) for name in ("description", "due_date", "start_date")}
    return Response.json(gitlab.add_milestone(project, request.text("title"), **more), 201)


@routes.route("GET PUT DELETE", f"{P}/milestones/{{milestone}}")
@routes.route("GET", f"{P}/milestones/{{milestone}}/{{what:issues|merge_requests}}")
def change_milestone(request: Request) -> Response:
    """One milestone: show, change, delete, or list what belongs to it."""
    from practicum_envs.office.services.gitlab_views import work_view

    gitlab = Gitlab(request.company)
    project = wanted_project(request, gitlab, 0 if request.method == "GET" else 20)
    named = request.parameters["milestone"]
    milestone = next((one for one in project["milestones"] if str(one["id"]) == named), None)
    if milestone is None:
        raise Refused(404, "404 Not found")
    if "what" in request.parameters:
        kind = request.parameters["what"]
        inside = [one for one in project[kind] if one["milestone"] == milestone["id"]]
        return paged(request, [work_view(gitlab, project, one, kind) for one in inside])
    if request.method == "DELETE":
        project["milestones"].remove(milestone)
        return Response(status=204)
    if request.method == "PUT":
        for name in ("title", "description", "due_date", "start_date"):
            if name in request.fields:
                milestone[name] = request.fields[name]
        event = request.text("state_event")
        milestone["state"] = {"close": "closed", "activate": "active"}.get(
            event, milestone["state"]
        )
        milestone["updated_at"] = gitlab.touch(project)
    return Response.json(milestone)


# Wikis and releases.


def wiki_view(slug: str, wiki: Document, *, with_content: bool = True) -> Document:
    """A page of the wiki."""
    shown = {"slug": slug, "title": wiki["title"], "format": wiki["format"], "encoding": "UTF-8"}
    return {**shown, **({"content": wiki["content"]} if with_content else {})}


@routes.route("GET", f"{P}/wikis")
def wikis(request: Request) -> Response:
    """The pages of the wiki."""
    project = wanted_project(request, Gitlab(request.company))
    shows = request.flag("with_content")
    pages = sorted(project["wikis"].items())
    return paged(request, [wiki_view(slug, wiki, with_content=shows) for slug, wiki in pages])


@routes.route("POST", f"{P}/wikis")
def create_wiki(request: Request) -> Response:
    """A new page of the wiki."""
    project = wanted_project(request, Gitlab(request.company), 30)
    required(request, "title", "content")
    slug = request.text("title").replace(" ", "-")
    if slug in project["wikis"]:
        raise Refused(400, "Duplicate page: a page with that title already exists")
    project["wikis"][slug] = {
        "title": request.text("title"),
        "content": request.text("content"),
        "format": request.text("format", default="markdown"),
    }
    return Response.json(wiki_view(slug, project["wikis"][slug]), 201)


@routes.route("GET PUT DELETE", f"{P}/wikis/{{slug}}")
def one_wiki(request: Request) -> Response:
    """One page of the wiki: show, change, delete."""
    project = wanted_project(request, Gitlab(request.company), 0 if request.method == "GET" else 30)
    slug = request.parameters["slug"]
    wiki = project["wikis"].get(slug)
    if wiki is None:
        raise Refused(404, "404 Wiki Page Not Found")
    if request.method == "DELETE":
        del project["wikis"][slug]
        return Response(status=204)
    if request.method == "PUT":
        for name in ("title", "content", "format"):
            if name in request.fields:
                wiki[name] = request.text(name)
        new = wiki["title"].replace(" ", "-")
        if new != slug:
            project["wikis"][new] = project["wikis"].pop(slug)
            slug = new
    return Response.json(wiki_view(slug, wiki))


@routes.route("GET", f"{P}/releases")
def releases(request: Request) -> Response:
    """The releases of a project, newest first."""
    project = wanted_project(request, Gitlab(request.company))
    return paged(request, project["releases"][::-1])


@routes.route("POST", f"{P}/releases")
def create_release(request: Request) -> Response:
    """A new release; its tag is made where it does not exist."""
    gitlab = Gitlab(request.company)
    project = wanted_project(request, gitlab, 30)
    required(request, "tag_name")
    tag = request.text("tag_name")
    if any(one["tag_name"] == tag for one in project["releases"]):
        raise Refused(409, "Release already exists")
    repository = gitlab.repository(project)
    commit = repository.tags().get(tag)
    if commit is None:
        commit = repository.resolve(request.text("ref"))
        if commit is None:
            raise Refused(
                422, "Ref is not specified" if not request.text("ref") else "Ref is invalid"
            )
        try:
            repository.set_tag(tag, commit)
        except GitError:
            raise Refused(422, "Tag name invalid") from None
    at = gitlab.touch(project)
    release: Document = {
        "tag_name": tag,
        "name": request.text("name") or tag,
        "description": request.text("description"),
        "created_at": at,
        "released_at": request.text("released_at") or at,
        "author": user_view(request.user),
        "commit": repository.commits(commit, "-1")[0],
        "milestones": [],
        "assets": {"count": 0, "sources": [], "links": []},
        "tag_path": f"/{project['path_with_namespace']}/-/tags/{quote(tag)}",
    }
    project["releases"].append(release)
    return Response.json(release, 201)


@routes.route("GET PUT DELETE", f"{P}/releases/{{tag}}")
def one_release(request: Request) -> Response:
    """One release: show, change, delete."""
    project = wanted_project(request, Gitlab(request.company), 0 if request.method == "GET" else 30)
    release = next(
        (r for r in project["releases"] if r["tag_name"] == request.parameters["tag"]), None
    )
    if release is None:
        raise Refused(404, "404 Not Found ")
    if request.method == "DELETE":
        project["releases"].remove(release)
    elif request.method == "PUT":
        for name in ("name", "description", "released_at"):
            if name in request.fields:
                release[name] = request.text(name)
    return Response.json(release)


# What a project has besides: lists that are kept and shown.


@routes.route("GET POST", f"{P}/{{what:hooks|variables|snippets|pipelines}}")
def extras(request: Request) -> Response:
    """Hooks, variables, snippets: kept as they were given. Pipelines are listed and never run."""
    gitlab = Gitlab(request.company)
    project = wanted_project(request, gitlab, 30 if request.method == "POST" else 0)
    what = request.parameters["what"]
    if request.method == "GET":
        return paged(request, project[what][::-1])
    if what == "pipelines":
        raise Refused(400, "", detail={"base": ["Missing CI config file"]})
    made = {
        "id": gitlab.company.number(f"gitlab {what}"),
        **request.fields,
        "created_at": gitlab.touch(project),
    }
    project[what].append(made)
    return Response.json(made, 201)


@routes.route("GET", f"{P}/languages")
def languages(request: Request) -> Response:
    """The share of each language, by the endings of the files' names."""
    gitlab = Gitlab(request.company)
    project = wanted_project(request, gitlab)
    head = gitlab.repository(project).resolve(project["default_branch"])
    names = {
        "py": "Python",
        "js": "JavaScript",
        "rs": "Rust",
        "go": "Go",
        "java": "Java",
        "sh": "Shell",
    }
    found: dict[str, int] = {}
    for entry in gitlab.repository(project).tree(head, is_recursive=True) if head else []:
        name = names.get(entry["name"].rpartition(".")[2])
        if name and entry["type"] == "blob":
            found[name] = found.get(name, 0) + 1
    total = sum(found.values())
    return Response.json({name: round(100 * count / total, 2) for name, count in found.items()})
