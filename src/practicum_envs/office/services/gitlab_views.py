"""How GitLab shows its records, pages its lists, and finds what a request names."""

from typing import Any
from urllib.parse import urlencode

from practicum_envs.office.company_state import Document
from practicum_envs.office.git_repository import GitRepository
from practicum_envs.office.gitlab_model import ADDRESS, Gitlab
from practicum_envs.office.services.web import Refused, Request, Response

PAGE, MOST = 20, 100
"""Entries of a page unless told, and at most."""
HIDDEN = frozenset(
    (
        *("members", "issues", "merge_requests", "labels", "milestones", "wikis", "releases"),
        *("protected_branches", "pipelines", "hooks", "variables", "stars", "settings"),
        *("snippets", "boards", "avatar_path"),
    )
)
"""Parts of a stored project that have routes of their own."""
INSIDE = ("notes", "links", "awards")
"""Parts of a stored issue, merge request or comment that have routes of their own."""


def user_view(user: Document | None) -> Document | None:
    """A user as it is named in other records."""
    if user is None:
        return None
    names = ("id", "username", "name", "state", "locked", "avatar_url", "web_url")
    return {name: user[name] for name in names}


def person(gitlab: Gitlab, number: Any) -> Document | None:
    """The user of a number, as it is shown."""
    return user_view(gitlab.users.get(str(number)))


def paged(request: Request, found: list[Any]) -> Response:
    """A page of a list, with the headers that lead to the others."""
    size = min(MOST, max(1, request.number("per_page", PAGE)))
    number = max(1, request.number("page", 1))
    pages = max(1, -(-len(found) // size))
    headers = {
        "X-Total": str(len(found)),
        "X-Total-Pages": str(pages),
        "X-Page": str(number),
        "X-Per-Page": str(size),
        "X-Next-Page": str(number + 1) if number < pages else "",
        "X-Prev-Page": str(number - 1) if number > 1 else "",
    }
    wanted = {"first": 1, "last": pages}
    wanted |= {"next": number + 1} if number < pages else {}
    wanted |= {"prev": number - 1} if number > 1 else {}
    links = []
    for name, to in wanted.items():
        query = urlencode({**request.query, "page": to, "per_page": size})
        links.append(f'<{request.base_url}{request.path}?{query}>; rel="{name}"')
    headers["Link"] = ", ".join(links)
    return Response.json(found[(number - 1) * size : number * size], headers=headers)


def level_of(gitlab: Gitlab, user: Document | None, project: Document) -> int:
    """What a user may do in a project: 0 nothing, 10 guest … 50 owner, 60 administrator."""
    if user is None:
        return 0
    if user["is_admin"]:
        return 60
    if project["namespace_path"] == user["username"]:
        return 50
    group = gitlab.group(project["namespace_path"])
    own = int(project["members"].get(str(user["id"]), 0))
    return max(own, int(group["members"].get(str(user["id"]), 0)) if group else 0)


def may_see(gitlab: Gitlab, user: Document | None, project: Document) -> bool:
    """Whether a project exists for a user."""
    if project["visibility"] == "public":
        return True
    if project["visibility"] == "internal" and user is not None:
        return True
    return level_of(gitlab, user, project) > 0


def wanted_project(request: Request, gitlab: Gitlab, level: int = 0) -> Document:
    """The project of a route; refused where the user's level is lower than `level`."""
    project = gitlab.project(request.parameters["id"])
    if project is None or not may_see(gitlab, request.user, project):
        raise Refused(404, "404 Project Not Found")
    if level and level_of(gitlab, request.user, project) < level:
        raise Refused(
            403 if request.user else 401, "403 Forbidden" if request.user else "401 Unauthorized"
        )
    return project


def project_view(gitlab: Gitlab, project: Document, user: Document | None = None) -> Document:
    """A project as everyone sees it."""
    whole = project["path_with_namespace"]
    owner = gitlab.user(project["namespace_path"])
    group = gitlab.group(project["namespace_path"])
    space = owner or group or {"id": 0, "name": project["namespace_path"]}
    repository: GitRepository = gitlab.repository(project)
    is_empty = (
        not any((repository.path / "refs" / "heads").iterdir())
        and not (repository.path / "packed-refs").exists()
    )
    level = level_of(gitlab, user, project)
    shown = {name: value for name, value in project.items() if name not in HIDDEN}
    shown |= {
        "name_with_namespace": f"{space['name']} / {project['name']}",
        "tag_list": project["topics"],
        "web_url": f"{ADDRESS}/{whole}",
        "http_url_to_repo": f"{ADDRESS}/{whole}.git",
        "ssh_url_to_repo": f"ssh://git@the-agent-company.com:2424/{whole}.git",
        "readme_url": f"{ADDRESS}/{whole}/-/blob/{project['default_branch']}/README.md",
        "avatar_url": ADDRESS + project["avatar_path"] if "avatar_path" in project else None,
        "namespace": {
            "id": space["id"],
            "name": space["name"],
            "path": project["namespace_path"],
            "kind": "group" if group else "user",
            "full_path": project["namespace_path"],
            "parent_id": None,
            "web_url": f"{ADDRESS}/{project['namespace_path']}",
        },
        "empty_repo": is_empty,
        "open_issues_count": sum(one["state"] == "opened" for one in project["issues"]),
        "issues_enabled": True,
        "merge_requests_enabled": True,
        "wiki_enabled": True,
        "jobs_enabled": True,
        "snippets_enabled": True,
        "owner": user_view(owner),
        "star_count": len(project["stars"]),
        "permissions": {
            "project_access": {"access_level": level, "notification_level": 3} if level else None,
            "group_access": None,
        },
        "_links": {"self": f"{ADDRESS}/api/v4/projects/{project['id']}"},
        **project["settings"],
    }
    if project["forked_from"]:
        origin = gitlab.project(str(project["forked_from"]))
        shown["forked_from_project"] = (
            {"id": origin["id"], "path_with_namespace": origin["path_with_namespace"]}
            if origin
            else None
        )
    return shown


def milestone_named(project: Document, number: Any) -> Document | None:
    """The milestone of a number."""
    return next((one for one in project["milestones"] if one["id"] == number), None)


def work_view(gitlab: Gitlab, project: Document, work: Document, kind: str) -> Document:
    """An issue or a merge request."""
    place = "issues" if kind == "issues" else "merge_requests"
    whole = project["path_with_namespace"]
    people = [person(gitlab, number) for number in work["assignees"]]
    shown = {name: value for name, value in work.items() if name not in INSIDE}
    shown |= {
        "project_id": project["id"],
        "author": person(gitlab, work["author"]),
        "assignees": people,
        "assignee": people[0] if people else None,
        "closed_by": person(gitlab, work["closed_by"]),
        "milestone": milestone_named(project, work["milestone"]),
        "user_notes_count": sum(not note["system"] for note in work["notes"]),
        "web_url": f"{ADDRESS}/{whole}/-/{place}/{work['iid']}",
        "references": {
            "short": f"{'#' if kind == 'issues' else '!'}{work['iid']}",
            "relative": f"{'#' if kind == 'issues' else '!'}{work['iid']}",
            "full": f"{whole}{'#' if kind == 'issues' else '!'}{work['iid']}",
        },
        "time_stats": {
            "time_estimate": work["time_estimate"],
            "total_time_spent": work["time_spent"],
            "human_time_estimate": None,
            "human_total_time_spent": None,
        },
        "task_completion_status": {"count": 0, "completed_count": 0},
        "has_tasks": False,
    }
    return shown


def note_view(gitlab: Gitlab, note: Document, work: Document, kind: str) -> Document:
    """A comment."""
    return {
        **{name: value for name, value in note.items() if name not in INSIDE},
        "type": None,
        "attachment": None,
        "author": person(gitlab, note["author"]),
        "noteable_id": work["id"],
        "noteable_iid": work["iid"],
        "noteable_type": "Issue" if kind == "issues" else "MergeRequest",
        "resolvable": False,
        "confidential": False,
        "internal": False,
    }


def required(request: Request, *names: str) -> None:
    """Refuse a request without these fields, as GitLab does."""
    missing = [name for name in names if request.fields.get(name) in (None, "")]
    if missing:
        raise Refused(400, ", ".join(f"{name} is missing" for name in missing), key="error")


def words(value: Any) -> list[str]:
    """A list that was given as one, or as text with commas."""
    if value is None:
        return []
    return [str(one) for one in value] if isinstance(value, list) else str(value).split(",")
