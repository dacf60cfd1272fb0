"""GitLab's merge requests: making, changing, approving and merging them."""

from practicum_envs.office.branch_protection import may_merge, rules_of
from practicum_envs.office.company_state import Document
from practicum_envs.office.git_repository import GitError
from practicum_envs.office.gitlab_model import Gitlab
from practicum_envs.office.services.gitlab_issues import (
    fill,
    people,
    require_change,
    select,
    wanted_work,
)
from practicum_envs.office.services.gitlab_repository import commit_view
from practicum_envs.office.services.gitlab_views import (
    level_of,
    paged,
    person,
    required,
    wanted_project,
    work_view,
)
from practicum_envs.office.services.web import Refused, Request, Response, Router

routes = Router()
P = "/api/v4/projects/{id}"
KIND = "merge_requests"
MR = f"{P}/merge_requests/{{iid}}"


def add_merge_request(
    gitlab: Gitlab, project: Document, author: Document, title: str, branches: tuple[str, str]
) -> Document:
    """A new merge request from a source to a target branch."""
    repository = gitlab.repository(project)
    source, target = branches
    known = repository.branches()
    for name, branch in (("source_branch", source), ("target_branch", target)):
        if branch not in known:
            raise Refused(
                400, "", detail={"validate_branches": [f"{name} {branch!r} does not exist"]}
            )
    if source == target:
        said = "You can't use same project/branch for source and target"
        raise Refused(409, "", detail=[said])
    for one in project[KIND]:
        if (one["source_branch"], one["target_branch"], one["state"]) == (source, target, "opened"):
            said = (
                f"Another open merge request already exists for this source branch: !{one['iid']}"
            )
            raise Refused(409, "", detail=[said])
    work = gitlab.add_work(project, KIND, author, title)
    work |= {
        "source_branch": source,
        "target_branch": target,
        "source_project_id": project["id"],
        "target_project_id": project["id"],
        "reviewers": [],
        "merged_at": None,
        "merged_by": None,
        "merge_commit_sha": None,
        "squash": False,
        "should_remove_source_branch": None,
        "force_remove_source_branch": False,
        "approved_by": [],
        "head": known[source],
        "base": repository.merge_base(known[source], known[target]),
    }
    return work


def merge_request_view(gitlab: Gitlab, project: Document, work: Document) -> Document:
    """A merge request."""
    repository = gitlab.repository(project)
    branches = repository.branches() if work["state"] == "opened" else {}
    head = branches.get(work["source_branch"], work["head"])
    work["head"] = head
    shown = work_view(gitlab, project, work, KIND)
    is_draft = work["title"].lower().startswith(("draft:", "wip:", "[draft]"))
    for name in ("issue_type", "confidential", "weight", "due_date"):
        shown.pop(name)
    return {
        **shown,
        "sha": head,
        "reviewers": [person(gitlab, number) for number in work["reviewers"]],
        "merged_by": person(gitlab, work["merged_by"]),
        "merge_user": person(gitlab, work["merged_by"]),
        "approved_by": [{"user": person(gitlab, number)} for number in work["approved_by"]],
        "draft": is_draft,
        "work_in_progress": is_draft,
        "merge_status": "can_be_merged",
        "detailed_merge_status": "draft_status" if is_draft else "mergeable",
        "has_conflicts": False,
        "diff_refs": {"base_sha": work["base"], "head_sha": head, "start_sha": work["base"]},
        "changes_count": str(len(changes_of(gitlab, project, work))),
    }


def changes_of(gitlab: Gitlab, project: Document, work: Document) -> list[Document]:
    """What a merge request changes, file by file."""
    repository = gitlab.repository(project)
    base = work["base"] or repository.resolve(work["target_branch"])
    return repository.diffs(base, work["head"]) if base else []


@routes.route("GET", f"{P}/merge_requests", is_open=True)
def merge_requests(request: Request) -> Response:
    """The merge requests of a project, newest first."""
    gitlab = Gitlab(request.company)
    project = wanted_project(request, gitlab)
    found = select(request, gitlab, project, KIND)
    return paged(request, [merge_request_view(gitlab, project, one) for one in found])


@routes.route("POST", f"{P}/merge_requests")
def create_merge_request(request: Request) -> Response:
    """A new merge request."""
    gitlab = Gitlab(request.company)
    project = wanted_project(request, gitlab, 30)
    required(request, "source_branch", "target_branch", "title")
    branches = (request.text("source_branch"), request.text("target_branch"))
    work = add_merge_request(gitlab, project, request.user, request.text("title"), branches)
    change(request, gitlab, project, work)
    return Response.json(merge_request_view(gitlab, project, work), 201)


def change(request: Request, gitlab: Gitlab, project: Document, work: Document) -> None:
    """Take over what a request says about a merge request."""
    if "reviewer_ids" in request.fields:
        old, work["reviewers"] = work["reviewers"], people(gitlab, request.fields["reviewer_ids"])
        for number in work["reviewers"]:
            if number not in old:
                user = gitlab.users[str(number)]
                gitlab.add_todo(project, work, user, request.user, "review_requested")
    for name in ("squash", "remove_source_branch"):
        if name in request.fields:
            stored = "force_remove_source_branch" if name != "squash" else name
            work[stored] = request.flag(name)
    if "target_branch" in request.fields:
        work["target_branch"] = request.text("target_branch")
    fill(request, gitlab, project, work)


@routes.route("GET PUT DELETE", MR, is_open=True)
def one_merge_request(request: Request) -> Response:
    """One merge request: show, change, delete."""
    gitlab = Gitlab(request.company)
    project = wanted_project(request, gitlab)
    work = wanted_work(request, project, KIND)
    if request.method != "GET":
        require_change(request, gitlab, project, work)
    if request.method == "DELETE":
        project[KIND].remove(work)
        return Response(status=204)
    if request.method == "PUT":
        change(request, gitlab, project, work)
    return Response.json(merge_request_view(gitlab, project, work))


@routes.route("GET", f"{MR}/diffs", is_open=True)
@routes.route("GET", f"{MR}/changes", is_open=True)
def merge_request_changes(request: Request) -> Response:
    """What it changes."""
    gitlab = Gitlab(request.company)
    project = wanted_project(request, gitlab)
    work = wanted_work(request, project, KIND)
    shown = merge_request_view(gitlab, project, work)
    changes = changes_of(gitlab, project, work)
    if request.path.rstrip("/").endswith("diffs"):
        return paged(request, changes)
    return Response.json({**shown, "changes": changes, "overflow": False})


@routes.route("GET", f"{MR}/commits", is_open=True)
def merge_request_commits(request: Request) -> Response:
    """The commits it brings."""
    gitlab = Gitlab(request.company)
    project = wanted_project(request, gitlab)
    work = wanted_work(request, project, KIND)
    merge_request_view(gitlab, project, work)
    span = f"{work['base']}..{work['head']}" if work["base"] else work["head"]
    found = gitlab.repository(project).commits(span)
    return paged(request, [commit_view(project, one) for one in found])


@routes.route("PUT", f"{MR}/merge")
def merge(request: Request) -> Response:
    """Merge the source branch into the target branch."""
    gitlab = Gitlab(request.company)
    project = wanted_project(request, gitlab)
    work = wanted_work(request, project, KIND)
    level = level_of(gitlab, request.user, project)
    if not may_merge(level, project, work["target_branch"]):
        raise Refused(401, "401 Unauthorized")
    shown = merge_request_view(gitlab, project, work)
    if work["state"] != "opened" or shown["draft"]:
        raise Refused(405, "405 Method Not Allowed")
    repository = gitlab.repository(project)
    target = repository.branches().get(work["target_branch"])
    if target is None:
        raise Refused(405, "405 Method Not Allowed")
    text = (
        f"Merge branch '{work['source_branch']}' into '{work['target_branch']}'\n\n{work['title']}"
    )
    author = (request.user["name"], request.user["email"], gitlab.touch(project))
    try:
        made = repository.merge(
            work["head"], target, request.text("merge_commit_message") or text, author
        )
    except GitError:
        raise Refused(406, "Branch cannot be merged") from None
    repository.set_branch(work["target_branch"], made)
    work |= {"state": "merged", "merged_at": author[2], "merged_by": request.user["id"]}
    work["merge_commit_sha"] = made
    removes = request.flag("should_remove_source_branch") or work["force_remove_source_branch"]
    if removes and not rules_of(project, work["source_branch"]):
        repository.delete_ref(f"refs/heads/{work['source_branch']}")
    gitlab.add_note(work, request.user, "merged", is_system=True)
    gitlab.finish_todos(project, work, request.user)
    return Response.json(merge_request_view(gitlab, project, work))


@routes.route("POST", f"{MR}/{{what:approve|unapprove}}")
def approve(request: Request) -> Response:
    """Approve a merge request, or take it back."""
    gitlab = Gitlab(request.company)
    project = wanted_project(request, gitlab, 30)
    work = wanted_work(request, project, KIND)
    own, has = request.user["id"], request.user["id"] in work["approved_by"]
    if (request.parameters["what"] == "approve") == has:
        raise Refused(401, "401 Unauthorized")
    if has:
        work["approved_by"].remove(own)
    else:
        work["approved_by"].append(own)
    return Response.json(approvals_view(gitlab, work), 201)


@routes.route("GET", f"{MR}/approvals")
def approvals(request: Request) -> Response:
    """Who approved a merge request."""
    gitlab = Gitlab(request.company)
    work = wanted_work(request, wanted_project(request, gitlab), KIND)
    return Response.json(approvals_view(gitlab, work))


def approvals_view(gitlab: Gitlab, work: Document) -> Document:
    """Who approved a merge request."""
    users = [{"user": person(gitlab, number)} for number in work["approved_by"]]
    return {"iid": work["iid"], "approved": bool(users), "approved_by": users}
