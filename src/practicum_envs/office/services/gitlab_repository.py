"""GitLab's repositories by its API: tree, files, commits, branches, tags, comparison."""

import base64
import binascii
import hashlib
from typing import Any
from urllib.parse import quote

from practicum_envs.office.branch_protection import (
    DEVELOPER,
    MAINTAINER,
    may_merge,
    may_push,
    rules_of,
)
from practicum_envs.office.company_state import Document
from practicum_envs.office.git_repository import GitError, GitRepository
from practicum_envs.office.gitlab_model import ADDRESS, Gitlab
from practicum_envs.office.services.gitlab_views import (
    level_of,
    paged,
    required,
    wanted_project,
)
from practicum_envs.office.services.web import Refused, Request, Response, Router

routes = Router()
P = "/api/v4/projects/{id}"
R = f"{P}/repository"


def opened(request: Request, level: int = 0) -> tuple[Gitlab, Document, GitRepository]:
    """The project of a route and its repository."""
    gitlab = Gitlab(request.company)
    project = wanted_project(request, gitlab, level)
    return gitlab, project, gitlab.repository(project)


def wanted_commit(project: Document, repository: GitRepository, ref: str) -> str:
    """The commit that a name stands for."""
    named = project["default_branch"] if ref in ("", "HEAD") else ref
    found = repository.resolve(named)
    if found is None:
        raise Refused(404, "404 Commit Not Found" if ref else "404 Tree Not Found")
    return found


@routes.route("GET", f"{R}/tree", is_open=True)
def tree(request: Request) -> Response:
    """The entries of a folder."""
    _, project, repository = opened(request)
    commit = wanted_commit(project, repository, request.text("ref"))
    folder = request.text("path")
    found = repository.tree(commit, folder, is_recursive=request.flag("recursive"))
    if folder.strip("/") and not found:
        raise Refused(404, "404 invalid revision or path Not Found")
    found = [one for one in found if one["path"] != folder.strip("/")]
    return paged(request, sorted(found, key=lambda one: (one["type"] != "tree", one["path"])))


# Files.


@routes.route("GET HEAD", f"{R}/files/{{file}}", is_open=True)
def one_file(request: Request) -> Response:
    """A file with its content, in base64."""
    _, project, repository = opened(request)
    ref = request.text("ref", default="HEAD")
    commit, (blob, content) = wanted_file(project, repository, ref, request.parameters["file"])
    last = repository.commits(commit, "-1", path=request.parameters["file"])
    facts = {
        "file_name": request.parameters["file"].rpartition("/")[2],
        "file_path": request.parameters["file"],
        "size": len(content),
        "encoding": "base64",
        "content_sha256": hashlib.sha256(content).hexdigest(),
        "ref": project["default_branch"] if ref == "HEAD" else ref,
        "blob_id": blob,
        "commit_id": commit,
        "last_commit_id": last[0]["id"] if last else commit,
        "execute_filemode": False,
    }
    headers = {f"X-Gitlab-{name.replace('_', '-').title()}": str(v) for name, v in facts.items()}
    return Response.json({**facts, "content": base64.b64encode(content).decode()}, headers=headers)


def wanted_file(
    project: Document, repository: GitRepository, ref: str, path: str
) -> tuple[str, tuple[str, bytes]]:
    """A file's commit, id and content."""
    commit = wanted_commit(project, repository, ref)
    found = repository.blob(commit, path)
    if found is None:
        raise Refused(404, "404 File Not Found")
    return commit, found


@routes.route("GET HEAD", f"{R}/files/{{file}}/raw", is_open=True)
def raw_file(request: Request) -> Response:
    """A file as it is."""
    _, project, repository = opened(request)
    ref = request.text("ref", default="HEAD")
    _, (_, content) = wanted_file(project, repository, ref, request.parameters["file"])
    return Response(body=content, content_type="text/plain; charset=utf-8")


@routes.route("POST PUT DELETE", f"{R}/files/{{file}}")
def change_file(request: Request) -> Response:
    """Create, change or delete one file, in a commit of its own."""
    gitlab, project, repository = opened(request, 30)
    required(request, "branch", "commit_message")
    path = request.parameters["file"]
    action = {"POST": "create", "PUT": "update", "DELETE": "delete"}[request.method]
    change = {**request.fields, "action": action, "file_path": path}
    commit_actions(request, gitlab, project, repository, [change])
    if request.method == "DELETE":
        return Response(status=204)
    status = 201 if request.method == "POST" else 200
    return Response.json({"file_path": path, "branch": request.text("branch")}, status)


def content_of(change: dict[str, Any]) -> bytes:
    """The content that a change brings."""
    text = str(change.get("content") or "")
    if change.get("encoding") != "base64":
        return text.encode("utf-8", "surrogatepass")
    try:
        return base64.b64decode(text)
    except binascii.Error:
        raise Refused(400, "content is not valid base64") from None


def commit_actions(
    request: Request,
    gitlab: Gitlab,
    project: Document,
    repository: GitRepository,
    actions: list[dict[str, Any]],
) -> str:
    """Make a commit of some actions; its id."""
    branch = request.text("branch")
    head = repository.resolve(branch) if branch in repository.branches() else None
    if not may_push_to(request, gitlab, project, branch):
        raise Refused(400, "You are not allowed to push into this branch")
    try:
        repository.require_name(branch)
    except GitError:
        raise Refused(400, "Branch name is invalid") from None
    begin = request.text("start_branch", "start_sha")
    start = head or (repository.resolve(begin) if begin else None)
    if start is None and repository.branches():
        raise Refused(400, "You can only create or edit files when you are on a branch")
    files: dict[str, bytes | None] = {}
    for action in actions:
        apply_action(action, files, repository, start)
    request.company.require_room(len(request.body))
    author = {name: request.text(name) for name in ("author_name", "author_email")}
    message = request.text("commit_message")
    try:
        return gitlab.commit(
            project, request.user, branch, message, files=files, start=start, **author
        )
    except GitError as error:  # such as a file where a folder is
        raise Refused(400, f"git cannot make this commit: {error}") from None


def apply_action(
    action: dict[str, Any],
    files: dict[str, bytes | None],
    repository: GitRepository,
    start: str | None,
) -> None:
    """Work one action of a commit into its files."""
    kind, path = str(action.get("action")), str(action.get("file_path") or "").strip("/")
    if not path or ".." in path.split("/") or ".git" in path.split("/"):
        raise Refused(400, "file_path should be a valid file path", key="error")
    old = repository.blob(start, path) if start else None
    if kind == "create":
        if old is not None:
            raise Refused(400, "A file with this name already exists")
        files[path] = content_of(action)
    elif kind in ("update", "delete"):
        if old is None and path not in files:
            raise Refused(400, "A file with this name doesn't exist")
        files[path] = None if kind == "delete" else content_of(action)
    elif kind == "move":
        before = str(action.get("previous_path") or "")
        moved = repository.blob(start, before) if start else None
        if moved is None:
            raise Refused(400, "A file with this name doesn't exist")
        files[before] = None
        files[path] = content_of(action) if action.get("content") is not None else moved[1]
    elif kind != "chmod":
        raise Refused(400, "actions[action] does not have a valid value", key="error")


def may_push_to(request: Request, gitlab: Gitlab, project: Document, branch: str) -> bool:
    """Whether whoever asks may commit to a branch."""
    return may_push(level_of(gitlab, request.user, project), project, branch)


# Commits.


def commit_view(project: Document, commit: Document) -> Document:
    """A commit with its address."""
    where = f"{ADDRESS}/{project['path_with_namespace']}/-/commit/{commit['id']}"
    return {**commit, "web_url": where}


@routes.route("GET", f"{R}/commits", is_open=True)
def commits(request: Request) -> Response:
    """The history of a branch, newest first."""
    _, project, repository = opened(request)
    if not repository.branches():
        return paged(request, [])
    ref = request.text("ref_name", "ref")
    options = [
        f"--{name}={request.text(name)}"
        for name in ("since", "until", "author")
        if request.text(name)
    ]
    if request.flag("all"):
        options.append("--all")
    commit = wanted_commit(project, repository, ref)
    found = repository.commits(commit, *options, path=request.text("path"))
    return paged(request, [commit_view(project, one) for one in found])


@routes.route("POST", f"{R}/commits")
def create_commit(request: Request) -> Response:
    """A commit with several files."""
    gitlab, project, repository = opened(request, 30)
    required(request, "branch", "commit_message", "actions")
    actions = request.fields["actions"]
    if not may_push_to(request, gitlab, project, request.text("branch")):
        raise Refused(403, "403 Forbidden - You are not allowed to push into this branch")
    if not isinstance(actions, list) or not all(isinstance(one, dict) for one in actions):
        raise Refused(400, "actions is invalid", key="error")
    made = commit_actions(request, gitlab, project, repository, actions)
    return Response.json(commit_view(project, repository.commits(made, "-1")[0]), 201)


@routes.route("GET", f"{R}/commits/{{sha}}", is_open=True)
def one_commit(request: Request) -> Response:
    """One commit, with how much it changed."""
    _, project, repository = opened(request)
    commit = wanted_commit(project, repository, request.parameters["sha"])
    diffs = repository.diffs_of(commit)
    lines = [line for one in diffs for line in one["diff"].splitlines()]
    added = sum(line.startswith("+") for line in lines)
    removed = sum(line.startswith("-") for line in lines)
    stats = {"additions": added, "deletions": removed, "total": added + removed}
    shown = commit_view(project, repository.commits(commit, "-1")[0])
    return Response.json({**shown, "stats": stats, "status": None, "project_id": project["id"]})


@routes.route("GET", f"{R}/commits/{{sha}}/diff", is_open=True)
def commit_diff(request: Request) -> Response:
    """What a commit changed."""
    _, project, repository = opened(request)
    return paged(
        request, repository.diffs_of(wanted_commit(project, repository, request.parameters["sha"]))
    )


@routes.route("GET", f"{R}/compare", is_open=True)
def compare(request: Request) -> Response:
    """What one commit has that another has not."""
    _, project, repository = opened(request)
    required(request, "from", "to")
    base = wanted_commit(project, repository, request.text("from"))
    head = wanted_commit(project, repository, request.text("to"))
    found = [commit_view(project, one) for one in repository.commits(f"{base}..{head}")]
    common = repository.merge_base(base, head) or base
    return Response.json(
        {
            "commit": found[0] if found else None,
            "commits": found[::-1],
            "diffs": repository.diffs(common, head),
            "compare_timeout": False,
            "compare_same_ref": base == head,
        }
    )


# Branches and tags.


def branch_view(
    request: Request, gitlab: Gitlab, project: Document, name: str, commit: str
) -> Document:
    """A branch."""
    repository = gitlab.repository(project)
    rules = rules_of(project, name)
    pushing = [a["access_level"] for one in rules for a in one["push_access_levels"]]
    merging = [a["access_level"] for one in rules for a in one["merge_access_levels"]]
    return {
        "name": name,
        "commit": commit_view(project, repository.commits(commit, "-1")[0]),
        "merged": False,
        "protected": bool(rules),
        "developers_can_push": DEVELOPER in pushing,
        "developers_can_merge": DEVELOPER in merging,
        "can_push": may_push_to(request, gitlab, project, name),
        "default": name == project["default_branch"],
        "web_url": f"{ADDRESS}/{project['path_with_namespace']}/-/tree/{quote(name)}",
    }


@routes.route("GET", f"{R}/branches", is_open=True)
def branches(request: Request) -> Response:
    """The branches of a repository."""
    gitlab, project, repository = opened(request)
    wanted = request.text("search").lower()
    found = [
        (name, at) for name, at in sorted(repository.branches().items()) if wanted in name.lower()
    ]
    return paged(request, [branch_view(request, gitlab, project, name, at) for name, at in found])


@routes.route("POST", f"{R}/branches")
def create_branch(request: Request) -> Response:
    """A new branch."""
    gitlab, project, repository = opened(request, 30)
    required(request, "branch", "ref")
    name = request.text("branch", "branch_name")
    if name in repository.branches():
        raise Refused(400, "Branch already exists")
    commit = repository.resolve(request.text("ref"))
    if commit is None:
        raise Refused(400, f"Invalid reference name: {request.text('ref')}")
    if not may_merge(level_of(gitlab, request.user, project), project, name):
        raise Refused(400, "You are not allowed to create protected branches on this project.")
    try:
        repository.set_branch(name, commit)
    except GitError:
        raise Refused(400, "Branch name is invalid") from None
    gitlab.touch(project)
    return Response.json(branch_view(request, gitlab, project, name, commit), 201)


@routes.route("GET DELETE", f"{R}/branches/{{branch}}", is_open=True)
def one_branch(request: Request) -> Response:
    """One branch: show, delete."""
    gitlab, project, repository = opened(request, 0 if request.method == "GET" else 30)
    name = request.parameters["branch"]
    commit = repository.branches().get(name)
    if commit is None:
        raise Refused(404, "404 Branch Not Found")
    if request.method == "GET":
        return Response.json(branch_view(request, gitlab, project, name, commit))
    if name == project["default_branch"]:
        raise Refused(403, "Cannot remove HEAD branch")
    if rules_of(project, name) and level_of(gitlab, request.user, project) < MAINTAINER:
        raise Refused(403, "Protected branch can't be removed")
    repository.delete_ref(f"refs/heads/{name}")
    return Response(status=204)


def tag_view(project: Document, repository: GitRepository, name: str, commit: str) -> Document:
    """A tag."""
    release = next((r for r in project["releases"] if r["tag_name"] == name), None)
    return {
        "name": name,
        "message": "",
        "target": commit,
        "commit": commit_view(project, repository.commits(commit, "-1")[0]),
        "release": {"tag_name": name, "description": release["description"]} if release else None,
        "protected": False,
    }


@routes.route("GET", f"{R}/tags", is_open=True)
def tags(request: Request) -> Response:
    """The tags of a repository."""
    _, project, repository = opened(request)
    found = sorted(repository.tags().items(), reverse=True)
    return paged(request, [tag_view(project, repository, name, at) for name, at in found])


@routes.route("POST", f"{R}/tags")
def create_tag(request: Request) -> Response:
    """A new tag."""
    _, project, repository = opened(request, 30)
    required(request, "tag_name", "ref")
    name, commit = request.text("tag_name"), repository.resolve(request.text("ref"))
    if commit is None:
        raise Refused(400, f"Target {request.text('ref')} is invalid")
    if name in repository.tags():
        raise Refused(400, f"Tag {name} already exists")
    try:
        repository.set_tag(name, commit)
    except GitError:
        raise Refused(400, "Tag name invalid") from None
    return Response.json(tag_view(project, repository, name, commit), 201)


@routes.route("GET DELETE", f"{R}/tags/{{tag}}", is_open=True)
def one_tag(request: Request) -> Response:
    """One tag: show, delete."""
    _, project, repository = opened(request, 0 if request.method == "GET" else 30)
    name = request.parameters["tag"]
    commit = repository.tags().get(name)
    if commit is None:
        raise Refused(404, "404 Tag Not Found")
    if request.method == "DELETE":
        repository.delete_ref(f"refs/tags/{name}")
        return Response(status=204)
    return Response.json(tag_view(project, repository, name, commit))


@routes.route("GET", f"{R}/contributors", is_open=True)
def contributors(request: Request) -> Response:
    """Who made how many commits."""
    _, project, repository = opened(request)
    counted: dict[tuple[str, str], int] = {}
    head = repository.resolve(project["default_branch"])
    for one in repository.commits(head) if head else []:
        key = (one["author_name"], one["author_email"])
        counted[key] = counted.get(key, 0) + 1
    found = [{"name": n, "email": e, "commits": count} for (n, e), count in counted.items()]
    return paged(request, sorted(found, key=lambda one: -int(str(one["commits"]))))


@routes.route("GET", f"{R}/archive{{format:(?:\\.tar\\.gz|\\.tgz|\\.zip)?}}", is_open=True)
def archive(request: Request) -> Response:
    """All files of a commit in one."""
    _, project, repository = opened(request)
    commit = wanted_commit(project, repository, request.text("sha"))
    kind = "zip" if request.parameters["format"] == ".zip" else "tar.gz"
    name = f"{project['path']}-{commit[:8]}"
    content = repository.git("archive", f"--format={kind}", f"--prefix={name}/", commit)
    headers = {"Content-Disposition": f'attachment; filename="{name}.{kind}"'}
    return Response(body=content, content_type="application/octet-stream", headers=headers)
