"""Puts the projects of a seed into GitLab."""

import re
from datetime import datetime
from pathlib import Path
from typing import Any

from practicum.core.errors import UserError
from practicum_envs.office.company_seed import (
    GITLAB_ADMIN,
    GITLAB_TOKEN,
    PASSWORD,
    CompanySeed,
    Issue,
    MergeRequest,
    Person,
    Project,
)
from practicum_envs.office.company_state import Company, Document
from practicum_envs.office.git_repository import GitError, GitRepository
from practicum_envs.office.gitlab_model import Gitlab
from practicum_envs.office.services.gitlab_merge_requests import add_merge_request


def add_gitlab(company: Company, seed: CompanySeed, people: list[Person]) -> None:
    """Accounts for everyone, and the projects."""
    gitlab = Gitlab(company)
    root = gitlab.add_user(
        GITLAB_ADMIN,
        "Administrator",
        email="admin@example.com",
        password=PASSWORD,
        is_admin=True,
    )
    gitlab.data["tokens"][GITLAB_TOKEN] = root["id"]
    for person in people:
        gitlab.add_user(
            person.username,
            person.name,
            email=person.email,
            password=person.password,
            bio=person.role,
        )
    for project in seed.projects:
        _add_project(gitlab, project)


def account(gitlab: Gitlab, username: str) -> Document:
    """The account of a person whom the seed names."""
    found = gitlab.user(username)
    if found is None:
        raise ValueError(f"the seed names {username!r}, who is not among its people")
    return found


def _add_project(gitlab: Gitlab, seed: Project) -> None:
    space, _, path = seed.path.rpartition("/")
    if gitlab.user(space) is None and gitlab.group(space) is None:
        gitlab.add_group(space, space, visibility="public", members={"1": 50})
    project = gitlab.add_project(
        space, path, description=seed.description, visibility=seed.visibility
    )
    if seed.origin:
        _take_over(gitlab, project, Path(seed.origin))
    _add_commits(gitlab, project, seed)
    for username, level in seed.members.items():
        project["members"][str(account(gitlab, username)["id"])] = level
    for name, color in seed.labels.items():
        gitlab.add_label(project, name, color)
    for title in seed.milestones:
        gitlab.add_milestone(project, title)
    for issue in seed.issues:
        _add_issue(gitlab, project, issue)
    for merge_request in seed.merge_requests:
        _add_merge_request(gitlab, project, merge_request)
    for title, content in seed.wikis.items():
        slug = re.sub(r"\s+", "-", title)
        project["wikis"][slug] = {"title": title, "content": content, "format": "markdown"}


def _take_over(gitlab: Gitlab, project: Document, origin: Path) -> None:
    """The branches and tags of a clone on this machine."""
    if not origin.is_dir():
        raise UserError(f"{origin}, the clone for {project['path_with_namespace']}, is no folder")
    repository = gitlab.repository(project)
    try:
        refs = [f"+refs/{kind}/*:refs/{kind}/*" for kind in ("heads", "tags")]
        repository.git("fetch", "--quiet", str(origin), *refs)
        inside = origin / ".git" if (origin / ".git").exists() else origin
        head = GitRepository(inside).text("symbolic-ref", "--short", "HEAD")
    except GitError as error:
        raise UserError(f"{origin} cannot be read as a clone: {error}") from None
    gitlab.set_default_branch(project, head)
    gitlab.after_push(project)


def _add_commits(gitlab: Gitlab, project: Document, seed: Project) -> None:
    """All commits by one run of git."""
    changes: list[dict[str, Any]] = []
    seen = {project["default_branch"]} if seed.origin else set()

    def add(branch: str, message: str, files: Any, author: str) -> None:
        user = account(gitlab, author)
        at = datetime.fromisoformat(gitlab.touch(project).replace("Z", "+00:00"))
        start = None if branch in seen or not seen else f"refs/heads/{project['default_branch']}"
        seen.add(branch)
        who = (user["name"], user["email"])
        entry = {"branch": branch, "message": message, "author": who, "at": int(at.timestamp())}
        changes.append({**entry, "files": dict(files), "start": start})

    if seed.files:
        add(project["default_branch"], "Initial commit", seed.files, GITLAB_ADMIN)
    for commit in seed.commits:
        add(commit.branch, commit.message, commit.files, commit.author)
    if changes:
        gitlab.repository(project).write(changes)
        gitlab.after_push(project)
        project["settings"]["was_pushed"] = True
        if not project["protected_branches"]:
            gitlab.protect(project, project["default_branch"])


def _fill(gitlab: Gitlab, project: Document, work: Document, seed: Issue | MergeRequest) -> None:
    work["description"] = seed.description or None
    work["labels"] = gitlab.set_labels(project, list(seed.labels))
    people = [account(gitlab, name)["id"] for name in seed.assignees]
    gitlab.assign(project, work, people, account(gitlab, seed.author))
    for note in seed.notes:
        gitlab.add_note(work, account(gitlab, note.sender), note.text)


def _add_issue(gitlab: Gitlab, project: Document, seed: Issue) -> None:
    issue = gitlab.add_work(project, "issues", account(gitlab, seed.author), seed.title)
    issue["iid"] = seed.number or issue["iid"]
    _fill(gitlab, project, issue, seed)
    issue["due_date"] = seed.due_date
    if seed.milestone:
        found = [one for one in project["milestones"] if one["title"] == seed.milestone]
        milestone = found[0] if found else gitlab.add_milestone(project, seed.milestone)
        issue["milestone"] = milestone["id"]
    if seed.is_closed:
        gitlab.close(issue, account(gitlab, seed.author), True)


def _add_merge_request(gitlab: Gitlab, project: Document, seed: MergeRequest) -> None:
    branches = (seed.source_branch, seed.target_branch or project["default_branch"])
    work = add_merge_request(gitlab, project, account(gitlab, seed.author), seed.title, branches)
    _fill(gitlab, project, work, seed)
    work["reviewers"] = [account(gitlab, name)["id"] for name in seed.reviewers]
