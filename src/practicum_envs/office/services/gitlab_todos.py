"""GitLab's to-do items and reactions (award emoji) by its API."""

from practicum_envs.office.company_state import Document
from practicum_envs.office.gitlab_model import ADDRESS, Gitlab
from practicum_envs.office.services.gitlab_issues import WORK, wanted_work
from practicum_envs.office.services.gitlab_views import (
    paged,
    person,
    required,
    wanted_project,
    work_view,
)
from practicum_envs.office.services.web import Refused, Request, Response, Router

routes = Router()
TYPES = {"issues": "Issue", "merge_requests": "MergeRequest"}


def own_todos(gitlab: Gitlab, user: Document, state: str = "pending") -> list[Document]:
    """What a user has to do, newest first, of things that are still there."""
    found = [
        one
        for one in gitlab.todos
        if one["user"] == user["id"] and one["state"] == state and target_of(gitlab, one)
    ]
    return found[::-1]


def target_of(gitlab: Gitlab, todo: Document) -> tuple[Document, Document] | None:
    """The project, and the issue or merge request in it, that a to-do item is about."""
    project = gitlab.projects.get(str(todo["project"]))
    works = project[todo["kind"]] if project else []
    work = next((one for one in works if one["iid"] == todo["iid"]), None)
    return (project, work) if project is not None and work is not None else None


def todo_view(gitlab: Gitlab, todo: Document) -> Document:
    """A to-do item, whose target is there."""
    found = target_of(gitlab, todo)
    if found is None:
        raise Refused(404, "404 Not found")
    project, work = found
    address = f"{ADDRESS}/{project['path_with_namespace']}/-/{todo['kind']}/{work['iid']}"
    return {
        "id": todo["id"],
        "project": {name: project[name] for name in ("id", "name", "path", "path_with_namespace")},
        "author": person(gitlab, todo["author"]),
        "action_name": todo["action"],
        "target_type": TYPES[todo["kind"]],
        "target": work_view(gitlab, project, work, todo["kind"]),
        "target_url": address,
        "body": work["title"],
        "state": todo["state"],
        "created_at": todo["created_at"],
        "updated_at": todo["created_at"],
    }


@routes.route("GET", "/api/v4/todos")
def todos(request: Request) -> Response:
    """One's own to-do items; those that are not done unless `state` says so."""
    gitlab = Gitlab(request.company)
    found = own_todos(gitlab, request.user, request.text("state", default="pending"))
    shown = [todo_view(gitlab, one) for one in found]
    for name, key in (("action", "action_name"), ("type", "target_type")):
        if request.text(name):
            shown = [one for one in shown if one[key] == request.text(name)]
    if request.text("project_id"):
        wanted = request.text("project_id")
        shown = [one for one in shown if str(one["project"]["id"]) == wanted]
    return paged(request, shown)


@routes.route("POST", "/api/v4/todos/{todo}/mark_as_done")
def todo_done(request: Request) -> Response:
    """A to-do item is done."""
    gitlab = Gitlab(request.company)
    named, own = request.parameters["todo"], request.user["id"]
    found = (one for one in gitlab.todos if str(one["id"]) == named and one["user"] == own)
    todo = next(found, None)
    if todo is None:
        raise Refused(404, "404 Not found")
    todo["state"] = "done"
    return Response.json(todo_view(gitlab, todo))


@routes.route("POST", "/api/v4/todos/mark_as_done")
def todos_done(request: Request) -> Response:
    """All of one's own to-do items are done."""
    for one in Gitlab(request.company).todos:
        if one["user"] == request.user["id"]:
            one["state"] = "done"
    return Response(status=204)


@routes.route("POST", f"{WORK}/todo")
def add_todo(request: Request) -> Response:
    """Put an issue or merge request on one's own list."""
    gitlab = Gitlab(request.company)
    kind = request.parameters["kind"]
    project = wanted_project(request, gitlab)
    work = wanted_work(request, project, kind)
    own = request.user
    is_there = any(target_of(gitlab, one) == (project, work) for one in own_todos(gitlab, own))
    if is_there:
        return Response(status=304)
    return Response.json(todo_view(gitlab, gitlab.add_todo(project, work, own, own, "marked")), 201)


# Reactions.


def award_view(gitlab: Gitlab, award: Document, target: Document, kind: str) -> Document:
    """A reaction."""
    return {
        "id": award["id"],
        "name": award["name"],
        "user": person(gitlab, award["user"]),
        "created_at": award["created_at"],
        "updated_at": award["created_at"],
        "awardable_id": target["id"],
        "awardable_type": kind,
    }


def awarded(request: Request, gitlab: Gitlab) -> tuple[Document, str]:
    """What a route's reactions are about: an issue, a merge request, or a comment."""
    kind = request.parameters["kind"]
    work = wanted_work(request, wanted_project(request, gitlab), kind)
    named = request.parameters.get("note")
    if named is None:
        return work, TYPES[kind]
    note: Document | None = next((n for n in work["notes"] if str(n["id"]) == named), None)
    if note is None:
        raise Refused(404, "404 Note Not Found")
    return note, "Note"


@routes.route("GET", f"{WORK}/award_emoji", is_open=True)
@routes.route("GET", f"{WORK}/notes/{{note}}/award_emoji", is_open=True)
def awards(request: Request) -> Response:
    """The reactions to something."""
    gitlab = Gitlab(request.company)
    target, kind = awarded(request, gitlab)
    return paged(request, [award_view(gitlab, a, target, kind) for a in target.get("awards", [])])


@routes.route("POST", f"{WORK}/award_emoji")
@routes.route("POST", f"{WORK}/notes/{{note}}/award_emoji")
def add_award(request: Request) -> Response:
    """A reaction, once for each user and name."""
    gitlab = Gitlab(request.company)
    target, kind = awarded(request, gitlab)
    required(request, "name")
    name, own = request.text("name").strip(":"), request.user["id"]
    kept = target.setdefault("awards", [])
    if any((one["name"], one["user"]) == (name, own) for one in kept):
        raise Refused(404, "404 Award Emoji Name has already been taken Not Found")
    award = {
        "id": gitlab.company.number("gitlab award"),
        "name": name,
        "user": own,
        "created_at": gitlab.company.timestamp(),
    }
    kept.append(award)
    count_votes(target)
    return Response.json(award_view(gitlab, award, target, kind), 201)


@routes.route("GET DELETE", f"{WORK}/award_emoji/{{award}}")
@routes.route("GET DELETE", f"{WORK}/notes/{{note}}/award_emoji/{{award}}")
def one_award(request: Request) -> Response:
    """One reaction: show, take back."""
    gitlab = Gitlab(request.company)
    target, kind = awarded(request, gitlab)
    kept, named = target.get("awards", []), request.parameters["award"]
    award = next((one for one in kept if str(one["id"]) == named), None)
    if award is None:
        raise Refused(404, "404 Award Emoji Not Found")
    if request.method == "GET":
        return Response.json(award_view(gitlab, award, target, kind))
    if award["user"] != request.user["id"] and not request.user["is_admin"]:
        raise Refused(403, "403 Forbidden")
    kept.remove(award)
    count_votes(target)
    return Response(status=204)


def count_votes(target: Document) -> None:
    """Thumbs are votes, of issues and merge requests."""
    if "upvotes" in target:
        names = [one["name"] for one in target["awards"]]
        target["upvotes"], target["downvotes"] = names.count("thumbsup"), names.count("thumbsdown")
