"""GitLab's search by its API, in all that one can see or in a project."""

from collections.abc import Callable, Iterable

from practicum_envs.office.company_state import Document
from practicum_envs.office.git_repository import GitError
from practicum_envs.office.gitlab_model import Gitlab
from practicum_envs.office.services.gitlab_projects import wiki_view
from practicum_envs.office.services.gitlab_repository import commit_view
from practicum_envs.office.services.gitlab_views import (
    may_see,
    note_view,
    paged,
    project_view,
    required,
    user_view,
    wanted_project,
    work_view,
)
from practicum_envs.office.services.web import Refused, Request, Response, Router

routes = Router()
MOST_MATCHES = "100"
"""Lines that a search in files finds at most, in a file."""
Projects = list[Document]


@routes.route("GET", "/api/v4/search")
def search(request: Request) -> Response:
    """Search in all projects that one can see."""
    gitlab = Gitlab(request.company)
    seen = [one for one in gitlab.projects.values() if may_see(gitlab, request.user, one)]
    return paged(request, searched(request, gitlab, seen))


@routes.route("GET", "/api/v4/projects/{id}/search")
@routes.route("GET", "/api/v4/projects/{id}/-/search")
def search_project(request: Request) -> Response:
    """Search in one project."""
    gitlab = Gitlab(request.company)
    return paged(request, searched(request, gitlab, [wanted_project(request, gitlab)]))


def searched(request: Request, gitlab: Gitlab, projects: Projects) -> list[Document]:
    """What a search of some projects finds."""
    required(request, "scope", "search")
    scope, words = request.text("scope"), request.text("search").lower()
    if scope not in SCOPES:
        raise Refused(400, "scope does not have a valid value", key="error")
    return list(SCOPES[scope](request, gitlab, projects, words))


def has(record: Document, words: str, *names: str) -> bool:
    """Whether words are in some fields of a record."""
    return any(words in str(record.get(name) or "").lower() for name in names)


def _projects(request: Request, gitlab: Gitlab, projects: Projects, words: str) -> list[Document]:
    names = ("name", "path_with_namespace", "description")
    return [project_view(gitlab, p, request.user) for p in projects if has(p, words, *names)]


def _works(kind: str) -> Callable[[Request, Gitlab, Projects, str], Iterable[Document]]:
    def found(
        request: Request, gitlab: Gitlab, projects: Projects, words: str
    ) -> Iterable[Document]:
        for project in projects:
            for work in reversed(project[kind]):
                is_wanted = request.text("state") in ("", "all", work["state"])
                if is_wanted and has(work, words, "title", "description"):
                    yield work_view(gitlab, project, work, kind)

    return found


def _milestones(request: Request, gitlab: Gitlab, projects: Projects, words: str) -> list[Document]:
    names = ("title", "description")
    return [one for p in projects for one in p["milestones"] if has(one, words, *names)]


def _users(request: Request, gitlab: Gitlab, projects: Projects, words: str) -> list[Document]:
    users = (one for one in gitlab.users.values() if has(one, words, "name", "username"))
    return [user_view(one) or {} for one in users]


def _notes(request: Request, gitlab: Gitlab, projects: Projects, words: str) -> Iterable[Document]:
    for project in projects:
        for kind in ("issues", "merge_requests"):
            for work in project[kind]:
                for note in work["notes"]:
                    if not note["system"] and has(note, words, "body"):
                        yield note_view(gitlab, note, work, kind)


def _wikis(request: Request, gitlab: Gitlab, projects: Projects, words: str) -> Iterable[Document]:
    for project in projects:
        for slug, wiki in sorted(project["wikis"].items()):
            if has(wiki, words, "title", "content"):
                yield {**wiki_view(slug, wiki), "project_id": project["id"]}


def _commits(
    request: Request, gitlab: Gitlab, projects: Projects, words: str
) -> Iterable[Document]:
    for project in projects:
        repository = gitlab.repository(project)
        head = repository.resolve(request.text("ref") or project["default_branch"])
        options = ("--regexp-ignore-case", "--fixed-strings", f"--grep={words}")
        for one in repository.commits(head, *options) if head else []:
            yield {**commit_view(project, one), "project_id": project["id"]}


def _blobs(request: Request, gitlab: Gitlab, projects: Projects, words: str) -> Iterable[Document]:
    for project in projects:
        ref = request.text("ref") or project["default_branch"]
        for path, line, text in lines_with(gitlab, project, ref, words):
            yield {
                "basename": path.rpartition(".")[0] or path,
                "data": f"{text}\n",
                "path": path,
                "filename": path,
                "id": None,
                "ref": ref,
                "startline": line,
                "project_id": project["id"],
            }


def lines_with(
    gitlab: Gitlab, project: Document, ref: str, words: str
) -> list[tuple[str, int, str]]:
    """Lines of a project's files that have some words: path, number, text."""
    repository = gitlab.repository(project)
    head = repository.resolve(ref)
    options = ("-I", "-i", "-n", "-z", "-F", "--full-name", "--max-count", MOST_MATCHES)
    try:
        shown = repository.text("grep", *options, "-e", words, head) if head else ""
    except GitError:
        return []  # nothing is found
    found = []
    for row in shown.split("\n"):
        place, number, text = (*row.split("\0", 2), "", "")[:3]
        if number.isdigit():
            found.append((place.partition(":")[2], int(number), text))
    return found


SCOPES: dict[str, Callable[[Request, Gitlab, Projects, str], Iterable[Document]]] = {
    "projects": _projects,
    "issues": _works("issues"),
    "merge_requests": _works("merge_requests"),
    "milestones": _milestones,
    "users": _users,
    "notes": _notes,
    "wiki_blobs": _wikis,
    "commits": _commits,
    "blobs": _blobs,
}
"""What can be searched for."""
