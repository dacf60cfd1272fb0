"""`Gitlab`: the state of GitLab, and what may happen to it; routes and seeds act through it."""

import re
from datetime import datetime
from typing import Any

from practicum_envs.office.company_state import REPOSITORIES, Company, Document
from practicum_envs.office.git_repository import GitRepository
from practicum_envs.office.services.web import Refused

ADDRESS = "http://the-agent-company.com:8929"
ACCESS = {10: "Guest", 20: "Reporter", 30: "Developer", 40: "Maintainer", 50: "Owner"}

PROTECTING = {0: "No one", 30: "Developers + Maintainers", 40: "Maintainers", 60: "Admin"}
"""Access levels of protected branches."""


class Gitlab:
    """GitLab's state in a company."""

    def __init__(self, company: Company) -> None:
        self.company = company
        self.data = company.part("gitlab")
        self.users: dict[str, Document] = self.data["users"]
        self.projects: dict[str, Document] = self.data["projects"]
        self.groups: dict[str, Document] = self.data["groups"]
        self.todos: list[Document] = self.data["todos"]

    # People and groups.

    def add_user(self, username: str, name: str, **more: Any) -> Document:
        """A new account with a namespace of its own."""
        number = self.company.number("gitlab user")
        user: Document = {
            "id": number,
            "username": username,
            "name": name,
            "state": "active",
            "locked": False,
            "avatar_url": None,
            "web_url": f"{ADDRESS}/{username}",
            "email": more.get("email", ""),
            "public_email": "",
            "bio": more.get("bio", ""),
            "is_admin": more.get("is_admin", False),
            "created_at": self.company.timestamp(),
            "password": more.get("password", ""),
        }
        self.users[str(number)] = user
        return user

    def user(self, named: object) -> Document | None:
        """A user by number or username."""
        found = self.users.get(str(named))
        return found or next((u for u in self.users.values() if u["username"] == named), None)

    def add_group(self, path: str, name: str, **more: Any) -> Document:
        """A new group of projects."""
        if self.group(path) is not None or self.user(path) is not None:
            raise Refused(400, 'Failed to save group {:path=>["has already been taken"]}')
        number = self.company.number("gitlab user") + 1000
        group: Document = {
            "id": number,
            "name": name,
            "path": path,
            "full_path": path,
            "full_name": name,
            "description": more.get("description", ""),
            "visibility": more.get("visibility", "private"),
            "web_url": f"{ADDRESS}/groups/{path}",
            "parent_id": None,
            "created_at": self.company.timestamp(),
            "members": more.get("members", {}),
        }
        self.groups[str(number)] = group
        return group

    def group(self, named: object) -> Document | None:
        """A group by number or path."""
        found = self.groups.get(str(named))
        return found or next((g for g in self.groups.values() if g["full_path"] == named), None)

    # Projects.

    def project(self, named: str) -> Document | None:
        """A project by number or path with namespace."""
        found = self.projects.get(named)
        if found is not None:
            return found
        wanted = named.lower()
        paths = ((p["path_with_namespace"].lower(), p) for p in self.projects.values())
        return next((project for path, project in paths if path == wanted), None)

    def require_path(self, namespace: str, path: str) -> None:
        """Refuse an address that no project can have, or that one has."""
        whole = f"{namespace}/{path}"
        if not re.fullmatch(r"[A-Za-z0-9_.][A-Za-z0-9_.\-]*", path):
            raise Refused(
                400, "", detail={"path": ["can contain only letters, digits, '_', '-' and '.'."]}
            )
        if self.project(whole) is not None:
            taken = ["has already been taken"]
            raise Refused(400, "", detail={"path": taken, "name": taken})

    def add_project(self, namespace: str, path: str, **more: Any) -> Document:
        """A new project; its repository is empty."""
        self.require_path(namespace, path)
        number = self.company.number("gitlab project")
        at = self.company.timestamp()
        project: Document = {
            "id": number,
            "description": more.get("description", ""),
            "name": more.get("name") or path,
            "path": path,
            "path_with_namespace": f"{namespace}/{path}",
            "namespace_path": namespace,
            "created_at": at,
            "last_activity_at": at,
            "default_branch": more.get("default_branch") or "main",
            "visibility": more.get("visibility", "private"),
            "creator_id": more.get("creator_id", 1),
            "archived": False,
            "topics": list(more.get("topics", [])),
            "star_count": 0,
            "stars": [],
            "forks_count": 0,
            "forked_from": more.get("forked_from"),
            "merge_method": "merge",
            "settings": {},
            "members": {},
            "issues": [],
            "merge_requests": [],
            "labels": [],
            "milestones": [],
            "boards": [],
            "wikis": {},
            "releases": [],
            "protected_branches": [],
            "pipelines": [],
            "hooks": [],
            "variables": [],
            "snippets": [],
        }
        self.projects[str(number)] = project
        GitRepository.create(self.path(project), project["default_branch"])
        return project

    def path(self, project: Document) -> Any:
        """Where a project's repository lies."""
        return self.company.folder / REPOSITORIES / f"{project['id']}.git"

    def repository(self, project: Document) -> GitRepository:
        """A project's repository."""
        return GitRepository(self.path(project))

    def touch(self, project: Document) -> str:
        """Note that something happened; the time."""
        project["last_activity_at"] = self.company.timestamp()
        return str(project["last_activity_at"])

    def protect(self, project: Document, name: str, push: int = 40, merge: int = 40) -> Document:
        """Protect a branch."""
        found = next((b for b in project["protected_branches"] if b["name"] == name), None)
        if found is not None:
            raise Refused(409, f"Protected branch '{name}' already exists")
        branch = {
            "id": self.company.number("gitlab protection"),
            "name": name,
            "push_access_levels": [access(push)],
            "merge_access_levels": [access(merge)],
            "allow_force_push": False,
            "unprotect_access_levels": [],
            "code_owner_approval_required": False,
        }
        project["protected_branches"].append(branch)
        return branch

    def commit(
        self, project: Document, user: Document, branch: str, message: str, **more: Any
    ) -> str:
        """A commit on a branch; its id. `files` has contents by path, None to delete."""
        at = datetime.fromisoformat(self.touch(project).replace("Z", "+00:00"))
        repository = self.repository(project)
        change = {
            "branch": branch,
            "message": message,
            "author": (
                more.get("author_name") or user["name"],
                more.get("author_email") or user["email"],
            ),
            "at": int(at.timestamp()),
            "files": more["files"],
            "start": more.get("start") or repository.resolve(branch),
        }
        repository.write([change])
        self.after_push(project)
        return str(repository.resolve(branch))

    def after_push(self, project: Document) -> None:
        """What GitLab does when branches changed: the first one is the default and protected."""
        branches = self.repository(project).branches()
        self.touch(project)
        if branches and project["default_branch"] not in branches:
            usual = [name for name in branches if name in ("main", "master")]
            self.set_default_branch(project, (usual or list(branches))[0])
        is_first = bool(branches) and not project["settings"].get("was_pushed")
        if is_first and not project["protected_branches"]:
            self.protect(project, project["default_branch"])
        project["settings"]["was_pushed"] = bool(branches)

    def set_default_branch(self, project: Document, name: str) -> None:
        """Make a branch the one that a clone begins with."""
        project["default_branch"] = name
        self.repository(project).git("symbolic-ref", "HEAD", f"refs/heads/{name}")

    # Labels, milestones, issues, merge requests.

    def label(self, project: Document, name: str) -> Document | None:
        """A label by name or number."""
        for label in project["labels"]:
            if label["name"] == name or str(label["id"]) == name:
                found: Document = label
                return found
        return None

    def add_label(
        self, project: Document, name: str, color: str = "#6699cc", **more: Any
    ) -> Document:
        """A new label."""
        label = {
            "id": self.company.number("gitlab label"),
            "name": name,
            "color": color,
            "text_color": "#FFFFFF",
            "description": more.get("description"),
            "priority": more.get("priority"),
            "is_project_label": True,
            "subscribed": False,
        }
        project["labels"].append(label)
        return label

    def add_milestone(self, project: Document, title: str, **more: Any) -> Document:
        """A new milestone."""
        at = self.touch(project)
        number = len(project["milestones"]) + 1
        milestone = {
            "id": self.company.number("gitlab milestone"),
            "iid": number,
            "project_id": project["id"],
            "title": title,
            "description": more.get("description") or "",
            "state": "active",
            "due_date": more.get("due_date"),
            "start_date": more.get("start_date"),
            "expired": False,
            "created_at": at,
            "updated_at": at,
            "web_url": f"{ADDRESS}/{project['path_with_namespace']}/-/milestones/{number}",
        }
        project["milestones"].append(milestone)
        return milestone

    def set_labels(self, project: Document, names: list[str]) -> list[str]:
        """The labels of an issue; those that do not exist yet are made."""
        kept = list(dict.fromkeys(name.strip() for name in names if name.strip()))
        for name in kept:
            if self.label(project, name) is None:
                self.add_label(project, name)
        return kept

    def add_work(self, project: Document, kind: str, author: Document, title: str) -> Document:
        """A new issue or merge request (`issues`, `merge_requests`) with nothing but a title."""
        at = self.touch(project)
        number = 1 + max((one["iid"] for one in project[kind]), default=0)
        work: Document = {
            "id": self.company.number(f"gitlab {kind}"),
            "iid": number,
            "title": title,
            "description": None,
            "state": "opened",
            "created_at": at,
            "updated_at": at,
            "closed_at": None,
            "closed_by": None,
            "author": author["id"],
            "assignees": [],
            "labels": [],
            "milestone": None,
            "due_date": None,
            "confidential": False,
            "discussion_locked": None,
            "weight": None,
            "issue_type": "issue",
            "notes": [],
            "links": [],
            "upvotes": 0,
            "downvotes": 0,
            "time_estimate": 0,
            "time_spent": 0,
        }
        project[kind].append(work)
        return work

    def add_note(
        self, work: Document, author: Document, body: str, *, is_system: bool = False
    ) -> Document:
        """A comment."""
        at = self.company.timestamp()
        note = {
            "id": self.company.number("gitlab note"),
            "body": body,
            "author": author["id"],
            "created_at": at,
            "updated_at": at,
            "system": is_system,
        }
        work["notes"].append(note)
        work["updated_at"] = at
        return note

    def assign(self, project: Document, work: Document, users: list[int], author: Document) -> None:
        """Set who works on it; those to whom that is new have something to do."""
        for number in users:
            if number not in work["assignees"]:
                self.add_todo(project, work, self.users[str(number)], author, "assigned")
        work["assignees"] = users

    def add_todo(
        self, project: Document, work: Document, user: Document, author: Document, action: str
    ) -> Document:
        """A to-do item of a user about an issue or merge request; one that waits is kept."""
        facts = {
            "user": user["id"],
            "action": action,
            "state": "pending",
            **_place(project, work),
        }
        waiting = (one for one in self.todos if one.items() >= facts.items())
        todo = next(waiting, None)
        if todo is None:
            number = self.company.number("gitlab todo")
            todo = {"id": number, "author": author["id"], "created_at": work["updated_at"], **facts}
            self.todos.append(todo)
        return todo

    def mention(self, project: Document, work: Document, text: str, author: Document) -> None:
        """Whom a text names (`@ann_lee`) has something to do."""
        for name in dict.fromkeys(re.findall(r"(?<!\w)@([\w.-]*\w)", text)):
            user = self.user(name)
            if user is not None and user["id"] != author["id"]:
                self.add_todo(project, work, user, author, "mentioned")

    def finish_todos(self, project: Document, work: Document, user: Document) -> None:
        """Who acts on something has done what there was to do about it."""
        facts = {"user": user["id"], **_place(project, work)}
        for todo in self.todos:
            if todo.items() >= facts.items():
                todo["state"] = "done"

    def close(self, work: Document, user: Document, is_closed: bool) -> None:
        """Close an issue or merge request, or open it again."""
        work["state"] = "closed" if is_closed else "opened"
        work["closed_at"] = self.company.timestamp() if is_closed else None
        work["closed_by"] = user["id"] if is_closed else None
        self.add_note(work, user, "closed" if is_closed else "reopened", is_system=True)


def _place(project: Document, work: Document) -> Document:
    """Where an issue or merge request is, as to-do items say it."""
    kind = "merge_requests" if "source_branch" in work else "issues"
    return {"project": project["id"], "kind": kind, "iid": work["iid"]}


def access(level: int) -> Document:
    """An access level as protected branches show it."""
    return {
        "id": level,
        "access_level": level,
        "access_level_description": PROTECTING[level],
        "user_id": None,
        "group_id": None,
    }
