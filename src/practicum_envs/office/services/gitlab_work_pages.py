"""GitLab's pages of issues and merge requests: lists, forms, comments, merging."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from practicum_envs.office.branch_protection import may_merge
from practicum_envs.office.company_state import Document
from practicum_envs.office.gitlab_model import Gitlab
from practicum_envs.office.services.forms import area, boxes, choice, field
from practicum_envs.office.services.gitlab_issues import select
from practicum_envs.office.services.gitlab_layout import (
    GONE,
    PLACE,
    asking_form,
    below,
    call,
    listed,
    page_project,
    part_of,
    said,
    sent_form,
    shown,
    submitted,
    tick,
)
from practicum_envs.office.services.gitlab_merge_requests import (
    changes_of,
    merge_request_view,
)
from practicum_envs.office.services.gitlab_views import level_of, milestone_named, person
from practicum_envs.office.services.pages import escaped, link, table
from practicum_envs.office.services.web import Refused, Request, Response, Router

routes = Router()
KINDS = f"{PLACE}/-/{{kind:issues|merge_requests}}"
WORK = f"{KINDS}/{{iid:[0-9]+}}"
RECORDS = {"issues": "issue", "merge_requests": "merge_request"}
"""What forms call a record of each kind."""
NAMES = {"issues": "issue", "merge_requests": "merge request"}
STATES = {"issues": ("opened", "closed"), "merge_requests": ("opened", "merged", "closed")}
FILTERS = {"label_name": "labels", "label_name[]": "labels", "milestone_title": "milestone"}
"""How pages call what the API calls otherwise."""


# Lists.


@routes.route("GET", KINDS, is_open=True)
def works_page(request: Request) -> Response:
    """The issues or merge requests of a project; the open ones unless `state` says so."""
    gitlab = Gitlab(request.company)
    project, kind = page_project(request, gitlab), request.parameters["kind"]
    wanted = {FILTERS.get(name, name): value for name, value in request.query.items()}
    wanted |= {FILTERS.get(name, name): ",".join(v) for name, v in request.lists.items()}
    wanted.setdefault("state", "opened")
    asked = replace(request, query=wanted, lists={})
    found, others = part_of(request, select(asked, gitlab, project, kind))
    rows = [
        (
            link(below(project, kind, w["iid"]), f"#{w['iid']} {w['title']}"),
            w["state"],
            escaped(", ".join(w["labels"])),
            escaped(", ".join(names_of(gitlab, w["assignees"]))),
            escaped((milestone_named(project, w["milestone"]) or {}).get("title", "")),
        )
        for w in found
    ]
    tabs = " ".join(
        link(f"{below(project, kind)}?state={one}", one) for one in (*STATES[kind], "all")
    )
    search = asking_form(
        below(project, kind),
        field("Search or filter results", "search", wanted.get("search", ""))
        + f'<input type="hidden" name="state" value="{escaped(wanted["state"])}">',
        "Filter",
    )
    new = link(below(project, kind, "new"), f"New {NAMES[kind]}")
    head = ("Title", "State", "Labels", "Assignees", "Milestone")
    body = f"<p>{tabs} {new}</p>{table(head, rows)}{others}{search}"
    title = f"{kind.replace('_', ' ').title()} · {project['path_with_namespace']}"
    return shown(request, title, body, project)


def names_of(gitlab: Gitlab, numbers: list[int]) -> list[str]:
    """The usernames of some users."""
    found = (person(gitlab, number) for number in numbers)
    return [one["username"] for one in found if one]


# Forms.


def work_fields(gitlab: Gitlab, project: Document, kind: str, work: Mapping[str, Any]) -> str:
    """The fields of a form for an issue or merge request, filled with what it has."""
    record = RECORDS[kind]
    users = [
        (str(u["id"]), f"{u['name']} ({u['username']})")
        for u in gitlab.users.values()
        if u["state"] == "active"
    ]
    labels = [(one["name"], one["name"]) for one in project["labels"]]
    milestones = [("", "No milestone")]
    milestones += [
        (str(one["id"]), one["title"])
        for one in project["milestones"]
        if one["state"] == "active" or one["id"] == work.get("milestone")
    ]
    number = str(work.get("milestone") or "")
    parts = [
        field("Title", f"{record}[title]", work.get("title", "")),
        area("Description", f"{record}[description]", work.get("description") or ""),
        boxes("Assignees", f"{record}[assignee_ids]", users, map(str, work.get("assignees", ()))),
        boxes("Labels", f"{record}[labels]", labels, work.get("labels", ())),
        choice("Milestone", f"{record}[milestone_id]", milestones, number),
    ]
    if kind == "issues":
        due = work.get("due_date") or ""
        parts.append(field("Due date (YYYY-MM-DD)", f"{record}[due_date]", due))
        is_on = bool(work.get("confidential"))
        parts.append(tick("This issue is confidential", f"{record}[confidential]", is_on=is_on))
    else:
        chosen = map(str, work.get("reviewers", ()))
        parts.append(boxes("Reviewers", f"{record}[reviewer_ids]", users, chosen))
    return "".join(parts)


def empty_lists(kind: str) -> dict[str, str]:
    """Hidden fields, so that a list of which nothing is ticked is sent all the same."""
    lists = ("assignee_ids", "labels", *(["reviewer_ids"] if kind == "merge_requests" else []))
    return {f"{RECORDS[kind]}[{name}][]": "" for name in lists}


@routes.route("GET", f"{KINDS}/new")
def new_work_page(request: Request) -> Response:
    """The form for a new issue or merge request."""
    gitlab = Gitlab(request.company)
    project, kind = page_project(request, gitlab), request.parameters["kind"]
    fields = ""
    if kind == "merge_requests":
        names = [(name, name) for name in gitlab.repository(project).branches()]
        chosen = {one: request.text(f"merge_request[{one}_branch]") for one in ("source", "target")}
        sources = [one for one in names if one[0] != project["default_branch"]] or names
        target = chosen["target"] or project["default_branch"]
        fields = choice("Source branch", "merge_request[source_branch]", sources, chosen["source"])
        fields += choice("Target branch", "merge_request[target_branch]", names, target)
    given = said(request, RECORDS[kind]) if request.form[0] else {}
    fields += work_fields(gitlab, project, kind, given)
    if kind == "merge_requests":
        label = "Delete source branch when merge request is accepted"
        fields += tick(label, "merge_request[remove_source_branch]")
    form = sent_form(
        request, below(project, kind), fields, f"Create {NAMES[kind]}", hidden=empty_lists(kind)
    )
    return shown(request, f"New {NAMES[kind]}", form, project)


@submitted(routes, KINDS)
def create_work(request: Request) -> Response:
    """A new issue or merge request, by the form."""
    project, kind = page_project(request, Gitlab(request.company)), request.parameters["kind"]
    made = call(request, "POST", f"projects/{project['id']}/{kind}", said(request, RECORDS[kind]))
    return Response.redirect(below(project, kind, made["iid"]))


def page_work(request: Request, gitlab: Gitlab) -> tuple[Document, str, Document]:
    """The project, the kind and the record of a page."""
    project, kind = page_project(request, gitlab), request.parameters["kind"]
    number = request.parameters["iid"]
    work = next((one for one in project[kind] if str(one["iid"]) == number), None)
    if work is None:
        raise Refused(404, GONE)
    return project, kind, work


@routes.route("GET", f"{WORK}/edit")
def edit_work_page(request: Request) -> Response:
    """The form to change an issue or merge request."""
    gitlab = Gitlab(request.company)
    project, kind, work = page_work(request, gitlab)
    fields = work_fields(gitlab, project, kind, work)
    if kind == "merge_requests":
        names = [(name, name) for name in gitlab.repository(project).branches()]
        name = "merge_request[target_branch]"
        fields += choice("Target branch", name, names, work["target_branch"])
    address = below(project, kind, work["iid"])
    form = sent_form(
        request, address, fields, "Save changes", method="patch", hidden=empty_lists(kind)
    )
    delete = sent_form(request, address, "", f"Delete {NAMES[kind]}", method="delete")
    return shown(request, f"Edit {work['title']} (#{work['iid']})", form + delete, project)


@submitted(routes, WORK)
def change_work(request: Request) -> Response:
    """Change, close, open again or delete an issue or merge request."""
    project, kind, work = page_work(request, Gitlab(request.company))
    place = f"projects/{project['id']}/{kind}/{work['iid']}"
    if request.text("_method").lower() == "delete":
        call(request, "DELETE", place)
        return Response.redirect(below(project, kind))
    call(request, "PUT", place, said(request, RECORDS[kind]))
    return Response.redirect(below(project, kind, work["iid"]))


# One issue or merge request.


@routes.route("GET", WORK, is_open=True)
def work_page(request: Request) -> Response:
    """One issue or merge request with its comments, and what one can do with it."""
    gitlab = Gitlab(request.company)
    project, kind, work = page_work(request, gitlab)
    milestone = (milestone_named(project, work["milestone"]) or {}).get("title", "none")
    facts = {
        "State": work["state"],
        "Labels": ", ".join(work["labels"]),
        "Assignees": ", ".join(names_of(gitlab, work["assignees"])),
        "Milestone": milestone,
        "Author": ", ".join(names_of(gitlab, [work["author"]])),
        "Created": work["created_at"],
        **({"Due date": work["due_date"] or "none"} if kind == "issues" else {}),
    }
    if kind == "merge_requests":
        facts["Branches"] = f"{work['source_branch']} into {work['target_branch']}"
        facts["Reviewers"] = ", ".join(names_of(gitlab, work["reviewers"]))
    notes = listed(note_line(gitlab, note) for note in work["notes"])
    line = "; ".join(f"{name}: {value}" for name, value in facts.items())
    body = f"<p>{escaped(line)}</p><pre>{escaped(work['description'])}</pre>{notes}"
    if kind == "merge_requests":
        places = (("Changes", "diffs"), ("Commits", "commits"))
        links = (link(below(project, kind, work["iid"], where), name) for name, where in places)
        body += f"<p>{' '.join(links)}</p>"
    if request.user is not None:
        body += work_forms(request, gitlab, project, kind, work)
    return shown(request, f"{work['title']} (#{work['iid']})", body, project)


def note_line(gitlab: Gitlab, note: Document) -> str:
    """A comment."""
    writer = ", ".join(names_of(gitlab, [note["author"]]))
    return f"<b>{escaped(writer)}</b> {escaped(note['body'])}"


def work_forms(
    request: Request, gitlab: Gitlab, project: Document, kind: str, work: Document
) -> str:
    """What one can do with an issue or merge request: comment, close, react, merge."""
    address, name = below(project, kind, work["iid"]), NAMES[kind]
    comment = area("Write a comment", "note[note]")
    parts = [sent_form(request, f"{address}/notes", comment, "Comment")]
    if work["state"] != "merged":
        event = "reopen" if work["state"] == "closed" else "close"
        hidden = {f"{RECORDS[kind]}[state_event]": event}
        button = f"{event.capitalize()} {name}"
        parts.append(sent_form(request, address, "", button, method="patch", hidden=hidden))
    parts.append(f"<p>{link(f'{address}/edit', f'Edit {name}')}</p>")
    for emoji, votes in (("thumbsup", work["upvotes"]), ("thumbsdown", work["downvotes"])):
        hidden = {"name": emoji}
        words = f"React with {emoji} ({votes})"
        parts.append(sent_form(request, f"{address}/toggle_award_emoji", "", words, hidden=hidden))
    parts.append(sent_form(request, f"{address}/todo", "", "Add a to-do item"))
    if kind == "merge_requests" and work["state"] == "opened":
        parts += merging_forms(request, gitlab, project, work)
    return "".join(parts)


def merging_forms(request: Request, gitlab: Gitlab, project: Document, work: Document) -> list[str]:
    """To approve and to merge, for those who may."""
    address = below(project, "merge_requests", work["iid"])
    has = request.user["id"] in work["approved_by"]
    names = ", ".join(names_of(gitlab, work["approved_by"])) or "nobody"
    word = ("unapprove", "Revoke approval") if has else ("approve", "Approve")
    parts = [f"<p>Approved by {escaped(names)}</p>"]
    parts.append(sent_form(request, f"{address}/{word[0]}", "", word[1]))
    level = level_of(gitlab, request.user, project)
    if merge_request_view(gitlab, project, work)["draft"]:
        parts.append("<p>Merge blocked: merge request must not be draft.</p>")
    elif may_merge(level, project, work["target_branch"]):
        is_on = work["force_remove_source_branch"]
        delete = tick("Delete source branch", "should_remove_source_branch", is_on=is_on)
        parts.append(sent_form(request, f"{address}/merge", delete, "Merge"))
    else:
        parts.append("<p>Ready to merge by members who can write to the target branch.</p>")
    return parts


@submitted(routes, f"{WORK}/notes")
def comment(request: Request) -> Response:
    """A new comment."""
    project, kind, work = page_work(request, Gitlab(request.company))
    text = said(request, "note").get("note", "")
    place = f"projects/{project['id']}/{kind}/{work['iid']}/notes"
    call(request, "POST", place, {"body": text})
    return Response.redirect(below(project, kind, work["iid"]))


@submitted(routes, f"{WORK}/{{act:todo|approve|unapprove}}")
def act_on_work(request: Request) -> Response:
    """Put it on one's own list; approve a merge request, or take that back."""
    project, kind, work = page_work(request, Gitlab(request.company))
    act = request.parameters["act"]
    call(request, "POST", f"projects/{project['id']}/{kind}/{work['iid']}/{act}")
    return Response.redirect(below(project, kind, work["iid"]))


@submitted(routes, f"{WORK}/toggle_award_emoji")
def toggle_award(request: Request) -> Response:
    """React, or take a reaction back."""
    project, kind, work = page_work(request, Gitlab(request.company))
    place = f"projects/{project['id']}/{kind}/{work['iid']}/award_emoji"
    mine = (request.text("name"), request.user["id"])
    own = [one for one in work.get("awards", []) if (one["name"], one["user"]) == mine]
    if own:
        call(request, "DELETE", f"{place}/{own[0]['id']}")
    else:
        call(request, "POST", place, {"name": request.text("name")})
    return Response.redirect(below(project, kind, work["iid"]))


@submitted(routes, f"{PLACE}/-/{{kind:merge_requests}}/{{iid:[0-9]+}}/merge")
def merge(request: Request) -> Response:
    """Merge a merge request."""
    project, kind, work = page_work(request, Gitlab(request.company))
    given = {"should_remove_source_branch": request.flag("should_remove_source_branch")}
    call(request, "PUT", f"projects/{project['id']}/{kind}/{work['iid']}/merge", given)
    return Response.redirect(below(project, kind, work["iid"]))


@routes.route(
    "GET",
    f"{PLACE}/-/{{kind:merge_requests}}/{{iid:[0-9]+}}/{{what:diffs|commits}}",
    is_open=True,
)
def changes_page(request: Request) -> Response:
    """What a merge request changes, or the commits that it brings."""
    gitlab = Gitlab(request.company)
    project, kind, work = page_work(request, gitlab)
    merge_request_view(gitlab, project, work)  # its source branch may have moved
    if request.parameters["what"] == "diffs":
        body = diff_text(changes_of(gitlab, project, work))
    else:
        place = f"projects/{project['id']}/{kind}/{work['iid']}/commits"
        found = call(request, "GET", place, {"per_page": 100})
        body = listed(
            f"{link(below(project, 'commit', one['id']), one['short_id'])} {escaped(one['title'])}"
            for one in found
        )
    back = link(below(project, kind, work["iid"]), f"Back to !{work['iid']}")
    return shown(request, f"{work['title']} (!{work['iid']})", f"{body}<p>{back}</p>", project)


def diff_text(diffs: list[Document]) -> str:
    """Changes of files, as git shows them."""
    return "".join(
        f"<h2>{escaped(one['new_path'])}</h2><pre>{escaped(one['diff'])}</pre>" for one in diffs
    )
