"""GitLab's pages of a repository: files and editing them, commits, branches, tags, releases."""

from urllib.parse import quote

from practicum_envs.office.branch_protection import rules_of
from practicum_envs.office.company_state import Document
from practicum_envs.office.gitlab_model import Gitlab
from practicum_envs.office.services.forms import area, choice, field
from practicum_envs.office.services.gitlab_layout import (
    GONE,
    PLACE,
    below,
    call,
    listed,
    named,
    page_project,
    part_of,
    plain,
    said,
    sent_form,
    shown,
    submitted,
)
from practicum_envs.office.services.gitlab_views import level_of
from practicum_envs.office.services.gitlab_work_pages import diff_text
from practicum_envs.office.services.pages import escaped, link, table
from practicum_envs.office.services.web import Refused, Request, Response, Router

routes = Router()
WHERE = "{ref:[^/]+}{path:(?:/.*)?}"
"""The end of an address: a branch, tag or commit, and a path in it."""
CI_FILE = ".gitlab-ci.yml"


# Files.


def ref_and_path(request: Request, gitlab: Gitlab, project: Document) -> tuple[str, str]:
    """What the end of an address names; a branch with a slash in its name is found too."""
    repository = gitlab.repository(project)
    whole = (request.parameters["ref"] + request.parameters["path"]).strip("/")
    names = sorted((*repository.branches(), *repository.tags()), key=len, reverse=True)
    ref = next(
        (n for n in names if whole == n or whole.startswith(n + "/")), request.parameters["ref"]
    )
    return ref, whole[len(ref) :].strip("/")


@routes.route("GET", f"{PLACE}/-/{{kind:tree|blob|raw}}/{WHERE}", is_open=True)
def files_page(request: Request) -> Response:
    """A folder or a file of a repository."""
    gitlab = Gitlab(request.company)
    project = page_project(request, gitlab)
    repository = gitlab.repository(project)
    ref, path = ref_and_path(request, gitlab, project)
    commit = repository.resolve(ref)
    if commit is None:
        raise Refused(404, "There is no such branch, tag or commit.")
    title = f"{path or project['name']} · {ref} · {project['path_with_namespace']}"
    found = repository.blob(commit, path) if path else None
    if found is None:
        entries = repository.tree(commit, path)
        if path and not entries:
            raise Refused(404, f"There is no file or folder {path} in {ref}.")
        new = link(below(project, "new", ref, path).rstrip("/"), "New file")
        return shown(request, title, tree_list(project, entries, ref) + f"<p>{new}</p>", project)
    if request.parameters["kind"] == "raw":
        return Response(body=found[1], content_type="text/plain; charset=utf-8")
    places = (("Edit", "edit"), ("Raw", "raw"), ("History", "commits"))
    links = " ".join(link(below(project, where, ref, path), name) for name, where in places)
    body = f"<pre>{escaped(found[1].decode(errors='replace'))}</pre><p>{links}</p>"
    if request.user is not None:
        message = field("Commit message", "commit_message", f"Delete {path.rpartition('/')[2]}")
        fields = message + field("Target branch", "branch_name", ref)
        address = below(project, "blob", ref, path)
        body += sent_form(request, address, fields, "Delete file", method="delete")
    return shown(request, title, body, project)


def tree_list(project: Document, entries: list[Document], ref: str) -> str:
    """The entries of a folder as links."""
    return listed(link(below(project, e["type"], ref, e["path"]), e["name"]) for e in entries)


def editor(request: Request, action: str, ref: str, text: str, **fields: str) -> str:
    """The form to write a file; `fields` are its other ones, the message and maybe the name."""
    inner = field("File name", "file_name", fields["name"]) if "name" in fields else ""
    inner += area("Content", "content", text)
    inner += field("Commit message", "commit_message", fields["message"])
    inner += field("Target branch", "branch_name", ref)
    return sent_form(request, action, inner, "Commit changes", method=fields.get("method", ""))


@routes.route("GET", f"{PLACE}/-/edit/{WHERE}")
def edit_page(request: Request) -> Response:
    """The form to change a file."""
    gitlab = Gitlab(request.company)
    project = page_project(request, gitlab)
    ref, path = ref_and_path(request, gitlab, project)
    return edit_form(request, gitlab, project, ref, path)


def edit_form(request: Request, gitlab: Gitlab, project: Document, ref: str, path: str) -> Response:
    """The page to change a file, or to make it where there is none."""
    repository = gitlab.repository(project)
    commit = repository.resolve(ref)
    found = repository.blob(commit, path) if commit and path else None
    if found is None and path != CI_FILE:
        raise Refused(404, f"There is no file {path} in {ref}.")
    if found is None:
        address = below(project, "create", ref)
        form = editor(request, address, ref, "", name=path, message=f"Add {path}")
        return shown(request, f"New {path}", form, project)
    try:
        text = found[1].decode()
    except UnicodeDecodeError:
        raise Refused(400, f"{path} is no text; it is changed with git") from None
    message = f"Edit {path.rpartition('/')[2]}"
    address = below(project, "update", ref, path)
    form = editor(request, address, ref, text, message=message, method="put")
    return shown(request, f"Edit {path} · {ref}", form, project)


@routes.route("GET", f"{PLACE}/-/ci/editor")
def pipeline_editor(request: Request) -> Response:
    """The form for the file that says what a pipeline would do."""
    gitlab = Gitlab(request.company)
    project = page_project(request, gitlab)
    ref = request.text("branch_name") or project["default_branch"]
    return edit_form(request, gitlab, project, ref, CI_FILE)


@routes.route("GET", f"{PLACE}/-/new/{WHERE}")
def new_file_page(request: Request) -> Response:
    """The form for a new file in a folder."""
    gitlab = Gitlab(request.company)
    project = page_project(request, gitlab)
    ref, folder = ref_and_path(request, gitlab, project)
    address = below(project, "create", ref, folder).rstrip("/")
    form = editor(request, address, ref, "", name="", message="Add new file")
    return shown(request, f"New file in {folder or '/'} · {ref}", form, project)


@submitted(routes, f"{PLACE}/-/{{act:create|update|blob}}/{WHERE}")
def change_file(request: Request) -> Response:
    """Make, change or delete a file, in a commit on a branch that may be a new one."""
    gitlab = Gitlab(request.company)
    project = page_project(request, gitlab)
    ref, path = ref_and_path(request, gitlab, project)
    act = request.parameters["act"]
    if act == "create":
        path = f"{path}/{request.text('file_name')}".strip("/")
    branch = request.text("branch_name") or ref
    given = {"branch": branch, "commit_message": request.text("commit_message")}
    repository = gitlab.repository(project)
    if branch not in repository.branches() and repository.resolve(ref):
        given["start_branch"] = ref
    if act != "blob":
        given["content"] = file_text(request, gitlab, project, ref, path)
    method = {"create": "POST", "update": "PUT", "blob": "DELETE"}[act]
    call(request, method, f"projects/{project['id']}/repository/files/{named(path)}", given)
    kind, end = ("tree", "") if act == "blob" else ("blob", path)
    return Response.redirect(quote(below(project, kind, branch, end).rstrip("/"), safe="/-_.~"))


def file_text(request: Request, gitlab: Gitlab, project: Document, ref: str, path: str) -> str:
    """The text of a form, with lines that end as they did: browsers send CR LF for every end."""
    text = request.text("content")
    repository = gitlab.repository(project)
    commit = repository.resolve(ref)
    old = repository.blob(commit, path) if commit and path else None
    return text if old is not None and b"\r\n" in old[1] else str(plain(text))


# Commits.


@routes.route("GET", f"{PLACE}/-/commits", is_open=True)
@routes.route("GET", f"{PLACE}/-/commits/{WHERE}", is_open=True)
def commits_page(request: Request) -> Response:
    """The history of a branch, or of a file in it."""
    gitlab = Gitlab(request.company)
    project = page_project(request, gitlab)
    ref, path = project["default_branch"], ""
    if "ref" in request.parameters:
        ref, path = ref_and_path(request, gitlab, project)
    repository = gitlab.repository(project)
    head = repository.resolve(ref)
    found, others = part_of(request, repository.commits(head, path=path) if head else [])
    rows = [
        (
            link(below(project, "commit", one["id"]), one["short_id"]),
            escaped(one["title"]),
            escaped(one["author_name"]),
            one["created_at"],
        )
        for one in found
    ]
    body = table(("Commit", "Message", "Author", "Date"), rows) + others
    return shown(request, f"Commits · {ref} {path}".rstrip(), body, project)


@routes.route("GET", f"{PLACE}/-/commit/{{sha}}", is_open=True)
def commit_page(request: Request) -> Response:
    """A commit, and what it changed."""
    gitlab = Gitlab(request.company)
    project = page_project(request, gitlab)
    repository = gitlab.repository(project)
    commit = repository.resolve(request.parameters["sha"])
    if commit is None:
        raise Refused(404, GONE)
    [one] = repository.commits(commit, "-1")
    facts = f"{one['author_name']} <{one['author_email']}> {one['created_at']}"
    body = f"<p>{escaped(facts)}</p><pre>{escaped(one['message'])}</pre>"
    return shown(
        request,
        f"{one['title']} ({one['short_id']})",
        body + diffs_of(gitlab, project, commit),
        project,
    )


def diffs_of(gitlab: Gitlab, project: Document, commit: str) -> str:
    """What a commit changed."""
    return diff_text(gitlab.repository(project).diffs_of(commit))


# Branches, tags, releases.


@routes.route("GET", f"{PLACE}/-/branches", is_open=True)
@routes.route("GET", f"{PLACE}/-/branches/new", is_open=True)
@routes.route("GET", f"{PLACE}/-/branches/{{state:all|active|stale}}", is_open=True)
def branches_page(request: Request) -> Response:
    """The branches of a repository."""
    gitlab = Gitlab(request.company)
    project = page_project(request, gitlab)
    rows = []
    for name in gitlab.repository(project).branches():
        marks = ["default"] * (name == project["default_branch"])
        marks += ["protected"] * bool(rules_of(project, name))
        delete = link(below(project, "branches", named(name), "delete"), f"Delete {name}")
        can = request.user is not None and "default" not in marks
        rows.append((link(below(project, "tree", name), name), ", ".join(marks), delete * can))
    body = table(("Branch", "", ""), rows)
    if request.user is not None:
        fields = field("Branch name", "branch_name")
        fields += field("Create from", "ref", project["default_branch"])
        body += sent_form(request, below(project, "branches"), fields, "Create branch")
    return shown(request, f"Branches · {project['path_with_namespace']}", body, project)


@routes.route("GET", f"{PLACE}/-/branches/{{branch}}/delete")
def delete_branch_page(request: Request) -> Response:
    """What it means to delete a branch, and the form that does it."""
    project, name = page_project(request, Gitlab(request.company)), request.parameters["branch"]
    words = f"You're about to permanently delete the branch {name}. This cannot be undone."
    address = below(project, "branches", named(name))
    form = sent_form(request, address, "", "Yes, delete branch", method="delete")
    return shown(request, f"Delete branch {name}", f"<p>{escaped(words)}</p>{form}", project)


@submitted(routes, f"{PLACE}/-/branches")
@submitted(routes, f"{PLACE}/-/branches/{{branch}}")
def change_branches(request: Request) -> Response:
    """A new branch, or one less."""
    project = page_project(request, Gitlab(request.company))
    place = f"projects/{project['id']}/repository/branches"
    if "branch" in request.parameters:
        call(request, "DELETE", f"{place}/{named(request.parameters['branch'])}")
    else:
        name = request.text("branch_name")
        call(request, "POST", place, {"branch": name, "ref": request.text("ref")})
    return Response.redirect(below(project, "branches"))


@routes.route("GET", f"{PLACE}/-/tags", is_open=True)
@routes.route("GET", f"{PLACE}/-/tags/new", is_open=True)
def tags_page(request: Request) -> Response:
    """The tags of a repository."""
    gitlab = Gitlab(request.company)
    project = page_project(request, gitlab)
    lines = []
    for name in gitlab.repository(project).tags():
        address = below(project, "tags", named(name))
        delete = ""
        if request.user is not None:
            delete = sent_form(request, address, "", f"Delete {name}", method="delete")
        lines.append(link(below(project, "tree", name), name) + delete)
    body = listed(lines)
    if request.user is not None:
        fields = field("Tag name", "tag_name")
        fields += field("Create from", "ref", project["default_branch"])
        body += sent_form(request, below(project, "tags"), fields, "Create tag")
    return shown(request, f"Tags · {project['path_with_namespace']}", body, project)


@submitted(routes, f"{PLACE}/-/tags")
@submitted(routes, f"{PLACE}/-/tags/{{tag}}")
def change_tags(request: Request) -> Response:
    """A new tag, or one less."""
    project = page_project(request, Gitlab(request.company))
    place = f"projects/{project['id']}/repository/tags"
    if "tag" in request.parameters:
        call(request, "DELETE", f"{place}/{named(request.parameters['tag'])}")
    else:
        given = {"tag_name": request.text("tag_name"), "ref": request.text("ref")}
        call(request, "POST", place, given)
    return Response.redirect(below(project, "tags"))


@routes.route("GET", f"{PLACE}/-/releases", is_open=True)
def releases_page(request: Request) -> Response:
    """The releases of a project, newest first."""
    gitlab = Gitlab(request.company)
    project = page_project(request, gitlab)
    body = ""
    for one in reversed(project["releases"]):
        body += f"<h2>{escaped(one['name'])}</h2><p>{escaped(one['tag_name'])}</p>"
        body += f"<pre>{escaped(one['description'])}</pre>"
        if request.user is not None:
            address = below(project, "releases", named(one["tag_name"]))
            body += sent_form(request, address, "", f"Delete {one['name']}", method="delete")
    if level_of(gitlab, request.user, project) >= 30:
        body += f"<p>{link(below(project, 'releases', 'new'), 'New release')}</p>"
    return shown(request, f"Releases · {project['path_with_namespace']}", body, project)


@routes.route("GET", f"{PLACE}/-/releases/new")
def new_release_page(request: Request) -> Response:
    """The form for a new release."""
    gitlab = Gitlab(request.company)
    project = page_project(request, gitlab)
    known = [("", "A new tag"), *((name, name) for name in gitlab.repository(project).tags())]
    fields = (
        choice("Tag", "release[tag]", known)
        + field("Name of a new tag", "release[tag_name]")
        + field("Create from", "release[ref]", project["default_branch"])
        + field("Release title", "release[name]")
        + area("Release notes", "release[description]")
    )
    form = sent_form(request, below(project, "releases"), fields, "Create release")
    return shown(request, "New release", form, project)


@submitted(routes, f"{PLACE}/-/releases")
@submitted(routes, f"{PLACE}/-/releases/{{tag}}")
def change_releases(request: Request) -> Response:
    """A new release, or one less."""
    project = page_project(request, Gitlab(request.company))
    place = f"projects/{project['id']}/releases"
    if "tag" in request.parameters:
        call(request, "DELETE", f"{place}/{named(request.parameters['tag'])}")
    else:
        given = said(request, "release")
        call(
            request, "POST", place, {**given, "tag_name": given.get("tag") or given.get("tag_name")}
        )
    return Response.redirect(below(project, "releases"))


# Wikis.


@routes.route("GET", f"{PLACE}/-/wikis", is_open=True)
@routes.route("GET", f"{PLACE}/-/wikis/{{slug:.+}}", is_open=True)
def wiki_page(request: Request) -> Response:
    """A page of the wiki, the form to write one, or the list of them."""
    project = page_project(request, Gitlab(request.company))
    slug = request.parameters.get("slug", "")
    if slug in project["wikis"]:
        return one_wiki_page(request, project, slug)
    begun = slug.removesuffix("/edit")
    if slug == "new" or (slug.endswith("/edit") and begun in project["wikis"]):
        return wiki_form(request, project, "" if slug == "new" else begun)
    if slug not in ("", "home", "pages"):
        raise Refused(404, "There is no such page of the wiki.")
    lines = (
        link(below(project, "wikis", one), wiki["title"])
        for one, wiki in sorted(project["wikis"].items())
    )
    new = link(below(project, "wikis", "new"), "New page")
    body = f"{listed(lines)}<p>{new}</p>"
    return shown(request, f"Wiki · {project['path_with_namespace']}", body, project)


def one_wiki_page(request: Request, project: Document, slug: str) -> Response:
    """A page of the wiki."""
    wiki = project["wikis"][slug]
    body = f"<pre>{escaped(wiki['content'])}</pre>"
    links = [
        (below(project, "wikis", slug, "edit"), "Edit"),
        (below(project, "wikis", "pages"), "All pages"),
    ]
    links.append((below(project, "wikis", "new"), "New page"))
    body += f"<p>{' '.join(link(address, name) for address, name in links)}</p>"
    if request.user is not None:
        address = below(project, "wikis", slug)
        body += sent_form(request, address, "", "Delete page", method="delete")
    return shown(request, wiki["title"], body, project)


def wiki_form(request: Request, project: Document, slug: str) -> Response:
    """The form for a page of the wiki, a new one where there is no slug."""
    if request.user is None:
        raise Refused(401, "Unauthorized")
    wiki = project["wikis"].get(slug, {"title": "", "content": ""})
    fields = field("Title", "wiki[title]", wiki["title"])
    fields += area("Content", "wiki[content]", wiki["content"])
    if slug:
        address = below(project, "wikis", slug)
        form = sent_form(request, address, fields, "Save changes", method="put")
    else:
        form = sent_form(request, below(project, "wikis"), fields, "Create page")
    return shown(request, f"Edit {wiki['title']}" if slug else "New page", form, project)


@submitted(routes, f"{PLACE}/-/wikis")
@submitted(routes, f"{PLACE}/-/wikis/{{slug:.+}}")
def change_wiki(request: Request) -> Response:
    """Make, change or delete a page of the wiki."""
    project = page_project(request, Gitlab(request.company))
    place, slug = f"projects/{project['id']}/wikis", request.parameters.get("slug")
    if slug is None:
        made = call(request, "POST", place, said(request, "wiki"))
        return Response.redirect(below(project, "wikis", quote(made["slug"])))
    if request.text("_method").lower() == "delete":
        call(request, "DELETE", f"{place}/{named(slug)}")
        return Response.redirect(below(project, "wikis", "pages"))
    made = call(request, "PUT", f"{place}/{named(slug)}", said(request, "wiki"))
    return Response.redirect(below(project, "wikis", quote(made["slug"])))
