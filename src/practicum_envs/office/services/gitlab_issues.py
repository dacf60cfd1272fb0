"""GitLab's issues and their comments."""

from typing import Any

from practicum_envs.office.company_state import Document
from practicum_envs.office.gitlab_model import Gitlab
from practicum_envs.office.services.gitlab_views import (
    level_of,
    may_see,
    note_view,
    paged,
    person,
    required,
    wanted_project,
    words,
    work_view,
)
from practicum_envs.office.services.web import Refused, Request, Response, Router

routes = Router()
P = "/api/v4/projects/{id}"
WORK = f"{P}/{{kind:issues|merge_requests}}/{{iid}}"
MISSING = {"issues": "404 Issue Not Found", "merge_requests": "404 Not found"}
"""What is said of a number that there is not."""


def wanted_work(request: Request, project: Document, kind: str) -> Document:
    """The issue or merge request of a route."""
    number = request.parameters["iid"]
    found = next((one for one in project[kind] if str(one["iid"]) == number), None)
    if found is None:
        raise Refused(404, MISSING[kind])
    work: Document = found
    return work


def select(request: Request, gitlab: Gitlab, project: Document, kind: str) -> list[Document]:
    """Issues or merge requests as the query asks for them."""
    tests = [
        _by_state(request.text("state", default="all")),
        _by_labels(words(request.fields.get("labels")) if request.text("labels") else []),
        _by_text(request.text("search").lower(), request.text("in", default="title,description")),
        _by_person(gitlab, "author", request),
        _by_assignee(gitlab, request),
        _by_milestone(project, request.text("milestone", "milestone_title")),
    ]
    for name in ("source_branch", "target_branch"):
        if request.text(name):
            tests.append(lambda work, name=name: work.get(name) == request.text(name))
    numbers = {str(one) for one in request.lists.get("iids", [])}
    if numbers:
        tests.append(lambda work: str(work["iid"]) in numbers)
    if request.text("title"):
        tests.append(lambda work: work["title"] == request.text("title"))
    found = [work for work in project[kind] if all(test(work) for test in tests)]
    key = request.text("order_by", default="created_at")
    key = key if key in ("created_at", "updated_at", "title") else "created_at"
    is_descending = request.text("sort", default="desc") != "asc"
    return sorted(found, key=lambda work: (work[key], work["iid"]), reverse=is_descending)


def _by_state(state: str) -> Any:
    return lambda work: state in ("all", work["state"])


def _by_labels(names: list[str]) -> Any:
    if names == ["None"]:
        return lambda work: not work["labels"]
    if names == ["Any"]:
        return lambda work: bool(work["labels"])
    return lambda work: set(names) <= set(work["labels"])


def _by_text(text: str, places: str) -> Any:
    names = places.split(",")
    return lambda work: any(text in str(work.get(name) or "").lower() for name in names)


def _by_person(gitlab: Gitlab, field: str, request: Request) -> Any:
    named = request.text(f"{field}_username", f"{field}_id")
    user = gitlab.user(named) if named else None
    number = user["id"] if user else -1
    return lambda work: not named or work[field] == number


def _by_assignee(gitlab: Gitlab, request: Request) -> Any:
    given = request.fields.get("assignee_username", request.fields.get("assignee_id"))
    if given in (None, "", []):
        return lambda work: True
    named = given[0] if isinstance(given, list) else given
    if str(named) == "None":
        return lambda work: not work["assignees"]
    if str(named) == "Any":
        return lambda work: bool(work["assignees"])
    user = gitlab.user(str(named))
    return lambda work: user is not None and user["id"] in work["assignees"]


def _by_milestone(project: Document, title: str) -> Any:
    ids = {one["id"] for one in project["milestones"] if one["title"] == title}
    if title == "None":
        return lambda work: work["milestone"] is None
    return lambda work: not title or work["milestone"] in ids


def fill(request: Request, gitlab: Gitlab, project: Document, work: Document) -> None:
    """Take over what a request says about an issue or merge request."""
    given = request.fields
    for name in ("title", "description", "due_date"):
        if name in given:
            work[name] = request.text(name) or (work["title"] if name == "title" else None)
    for name in ("confidential", "discussion_locked"):
        if name in given:
            work[name] = request.flag(name)
    if "labels" in given:
        work["labels"] = gitlab.set_labels(project, words(given["labels"]))
    if "add_labels" in given:
        work["labels"] = gitlab.set_labels(project, [*work["labels"], *words(given["add_labels"])])
    if "remove_labels" in given:
        gone = {name.strip() for name in words(given["remove_labels"])}
        work["labels"] = [name for name in work["labels"] if name not in gone]
    if "description" in given:
        gitlab.mention(project, work, request.text("description"), request.user)
    if "assignee_ids" in given or "assignee_id" in given:
        users = people(gitlab, given.get("assignee_ids", given.get("assignee_id")))
        gitlab.assign(project, work, users, request.user)
    if "milestone_id" in given:
        number = str(given["milestone_id"] or "0")
        known = {str(one["id"]): one["id"] for one in project["milestones"]}
        work["milestone"] = known.get(number)
    work["updated_at"] = gitlab.touch(project)
    event = str(given.get("state_event", ""))
    if event in ("close", "reopen"):
        gitlab.close(work, request.user, event == "close")
        gitlab.finish_todos(project, work, request.user)


def people(gitlab: Gitlab, given: Any) -> list[int]:
    """Numbers of users that are named by number; 0 or nothing means nobody."""
    several = given if isinstance(given, list) else words(given)
    users = (gitlab.users.get(str(one).strip()) for one in several)
    return list(dict.fromkeys(user["id"] for user in users if user is not None))


@routes.route("GET", "/api/v4/{kind:issues|merge_requests}")
def all_work(request: Request) -> Response:
    """Issues or merge requests of every project; one's own unless `scope` says all."""
    gitlab = Gitlab(request.company)
    kind = request.parameters["kind"]
    scope = request.text("scope", default="created_by_me").replace("-", "_")
    own = request.user["id"]
    found = []
    for project in gitlab.projects.values():
        if not may_see(gitlab, request.user, project):
            continue
        for work in select(request, gitlab, project, kind):
            is_mine = {
                "created_by_me": work["author"] == own,
                "assigned_to_me": own in work["assignees"],
            }
            if is_mine.get(scope, True):
                found.append(work_view(gitlab, project, work, kind))
    return paged(request, sorted(found, key=lambda one: str(one["created_at"]), reverse=True))


@routes.route("GET", f"{P}/issues", is_open=True)
def issues(request: Request) -> Response:
    """The issues of a project, newest first."""
    gitlab = Gitlab(request.company)
    project = wanted_project(request, gitlab)
    found = select(request, gitlab, project, "issues")
    return paged(request, [work_view(gitlab, project, one, "issues") for one in found])


@routes.route("POST", f"{P}/issues")
def create_issue(request: Request) -> Response:
    """A new issue."""
    gitlab = Gitlab(request.company)
    project = wanted_project(request, gitlab)
    required(request, "title")
    issue = gitlab.add_work(project, "issues", request.user, request.text("title"))
    fill(request, gitlab, project, issue)
    return Response.json(work_view(gitlab, project, issue, "issues"), 201)


@routes.route("GET PUT DELETE", f"{P}/issues/{{iid}}", is_open=True)
def one_issue(request: Request) -> Response:
    """One issue: show, change, delete."""
    gitlab = Gitlab(request.company)
    project = wanted_project(request, gitlab)
    issue = wanted_work(request, project, "issues")
    if request.method != "GET":
        require_change(request, gitlab, project, issue)
    if request.method == "DELETE":
        project["issues"].remove(issue)
        return Response(status=204)
    if request.method == "PUT":
        fill(request, gitlab, project, issue)
    return Response.json(work_view(gitlab, project, issue, "issues"))


def require_change(request: Request, gitlab: Gitlab, project: Document, work: Document) -> None:
    """Refuse whoever may not change an issue: its author and reporters may."""
    if request.user is None:
        raise Refused(401, "401 Unauthorized")
    if work["author"] != request.user["id"] and level_of(gitlab, request.user, project) < 20:
        raise Refused(403, "403 Forbidden")


@routes.route("POST", f"{P}/issues/{{iid}}/move")
def move_issue(request: Request) -> Response:
    """Move an issue to another project."""
    gitlab = Gitlab(request.company)
    project = wanted_project(request, gitlab, 20)
    issue = wanted_work(request, project, "issues")
    target = gitlab.project(request.text("to_project_id"))
    if target is None:
        raise Refused(404, "404 Project Not Found")
    moved = gitlab.add_work(target, "issues", request.user, issue["title"])
    moved |= {
        name: issue[name] for name in ("description", "author", "assignees", "notes", "due_date")
    }
    moved["labels"] = gitlab.set_labels(target, issue["labels"])
    gitlab.close(issue, request.user, True)
    issue["moved_to_id"] = moved["id"]
    return Response.json(work_view(gitlab, target, moved, "issues"), 201)


@routes.route("GET POST", f"{P}/issues/{{iid}}/links")
def issue_links(request: Request) -> Response:
    """Issues that one is linked to."""
    gitlab = Gitlab(request.company)
    project = wanted_project(request, gitlab, 0 if request.method == "GET" else 20)
    issue = wanted_work(request, project, "issues")
    if request.method == "POST":
        issue["links"].append(
            {
                "project": request.text("target_project_id"),
                "iid": request.text("target_issue_iid"),
                "link_type": request.text("link_type", default="relates_to"),
            }
        )
    found = []
    for link in issue["links"]:
        other = gitlab.project(str(link["project"]))
        works = other["issues"] if other else []
        target = next((one for one in works if str(one["iid"]) == str(link["iid"])), None)
        if other is not None and target is not None:
            found.append(
                {**work_view(gitlab, other, target, "issues"), "link_type": link["link_type"]}
            )
    return paged(request, found) if request.method == "GET" else Response.json(found[-1:], 201)


@routes.route("POST", f"{WORK}/{{what:time_estimate|add_spent_time}}")
def time_tracking(request: Request) -> Response:
    """Note how long the work may take or took, as in `3h30m`."""
    gitlab = Gitlab(request.company)
    kind = request.parameters["kind"]
    project = wanted_project(request, gitlab, 20)
    work = wanted_work(request, project, kind)
    required(request, "duration")
    seconds = seconds_in(request.text("duration"))
    if request.parameters["what"] == "time_estimate":
        work["time_estimate"] = seconds
    else:
        work["time_spent"] += seconds
    return Response.json(work_view(gitlab, project, work, kind)["time_stats"], 201)


def seconds_in(text: str) -> int:
    """Seconds of a duration in GitLab's form.

    >>> seconds_in("1h 30m")
    5400
    """
    units = {"mo": 576_000, "w": 144_000, "d": 28_800, "h": 3600, "m": 60, "s": 1}
    import re

    found = re.findall(r"(\d+)\s*(mo|w|d|h|m|s)", text)
    if not found:
        raise Refused(400, "duration is invalid")
    return sum(int(number) * units[unit] for number, unit in found)


# Comments, of issues and merge requests alike.


@routes.route("GET", f"{WORK}/notes", is_open=True)
def notes(request: Request) -> Response:
    """The comments, newest first."""
    gitlab = Gitlab(request.company)
    kind = request.parameters["kind"]
    work = wanted_work(request, wanted_project(request, gitlab), kind)
    found = [note_view(gitlab, note, work, kind) for note in work["notes"]]
    return paged(request, found if request.text("sort") == "asc" else found[::-1])


@routes.route("POST", f"{WORK}/notes")
@routes.route("POST", f"{WORK}/discussions")
def create_note(request: Request) -> Response:
    """A new comment."""
    gitlab = Gitlab(request.company)
    kind = request.parameters["kind"]
    required(request, "body")
    project = wanted_project(request, gitlab)
    work = wanted_work(request, project, kind)
    gitlab.finish_todos(project, work, request.user)
    gitlab.mention(project, work, request.text("body"), request.user)
    note = note_view(gitlab, gitlab.add_note(work, request.user, request.text("body")), work, kind)
    if request.path.rstrip("/").endswith("discussions"):
        return Response.json(
            {"id": str(note["id"]), "individual_note": False, "notes": [note]}, 201
        )
    return Response.json(note, 201)


@routes.route("GET", f"{WORK}/discussions", is_open=True)
def discussions(request: Request) -> Response:
    """The comments, each as a discussion."""
    gitlab = Gitlab(request.company)
    kind = request.parameters["kind"]
    work = wanted_work(request, wanted_project(request, gitlab), kind)
    found = [note_view(gitlab, note, work, kind) for note in work["notes"]]
    return paged(
        request, [{"id": str(n["id"]), "individual_note": True, "notes": [n]} for n in found]
    )


@routes.route("GET PUT DELETE", f"{WORK}/notes/{{note}}", is_open=True)
def one_note(request: Request) -> Response:
    """One comment: show, change, delete."""
    gitlab = Gitlab(request.company)
    kind = request.parameters["kind"]
    work = wanted_work(request, wanted_project(request, gitlab), kind)
    named = request.parameters["note"]
    note = next((one for one in work["notes"] if str(one["id"]) == named), None)
    if note is None:
        raise Refused(404, "404 Note Not Found")
    if request.method != "GET":
        is_own = request.user is not None and note["author"] == request.user["id"]
        if not is_own and not (request.user or {}).get("is_admin"):
            raise Refused(403 if request.user else 401, "403 Forbidden")
    if request.method == "DELETE":
        work["notes"].remove(note)
        return Response(status=204)
    if request.method == "PUT":
        note["body"], note["updated_at"] = request.text("body"), gitlab.company.timestamp()
    return Response.json(note_view(gitlab, note, work, kind))


@routes.route("GET", f"{WORK}/participants")
def participants(request: Request) -> Response:
    """Who wrote or is assigned."""
    gitlab = Gitlab(request.company)
    work = wanted_work(request, wanted_project(request, gitlab), request.parameters["kind"])
    numbers = [work["author"], *work["assignees"], *(note["author"] for note in work["notes"])]
    return paged(request, [person(gitlab, number) for number in dict.fromkeys(numbers)])
