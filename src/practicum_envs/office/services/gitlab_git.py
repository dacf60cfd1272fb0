"""GitLab's repositories for git itself over HTTP (`git http-backend`)."""

import gzip
import io
import os
import subprocess
import zlib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from practicum_envs.office.branch_protection import (
    DEVELOPER,
    FORCED,
    must_fast_forward,
    why_not_pushed,
)
from practicum_envs.office.company_state import Document
from practicum_envs.office.git_repository import PUSH_BYTES, git_environment
from practicum_envs.office.gitlab_model import Gitlab
from practicum_envs.office.services.absent import absent
from practicum_envs.office.services.gitlab_views import level_of, may_see
from practicum_envs.office.services.web import Refused, Request, Response, Router

routes = Router()
MOST_REFS = 1000
"""Branches and tags that one push may change."""
REF_BYTES = 512
BACKEND_S = 30.0
"""Seconds for git to answer a clone or a push."""
RESERVED = "api oauth users groups projects dashboard explore uploads"
"""First parts of addresses that are no namespace, as in GitLab."""
SPACE = (
    "{space:(?!" + "|".join(f"{word}/" for word in RESERVED.split()) + ")"
    "[A-Za-z0-9_.][^/]*(?:/(?!-/)[^/]+)*?}"
)
"""The namespace in the address of a page or a repository."""
GIT = "{suffix:(?:[.]git)?}/{rest:info/refs|git-upload-pack|git-receive-pack}"
Change = tuple[str, str, str]
"""What a push wants of one reference: its old commit, its new one, and its full name."""
HOOK = f"""#!/bin/sh
while read -r old new ref; do
    case "$OFFICE_FAST_FORWARD" in *" $ref "*)
        git merge-base --is-ancestor "$old" "$new" || {{ echo "GitLab: {FORCED}" >&2; exit 1; }} ;;
    esac
done
[ -z "$OFFICE_REFUSAL" ] || {{ echo "GitLab: $OFFICE_REFUSAL" >&2; exit 1; }}
"""
"""Run by git when the objects of a push are there and before any branch moves, as by GitLab."""


@routes.route("GET POST", f"/{SPACE}/{{project:[^/]+?}}{GIT}", is_open=True)
def git_over_http(request: Request) -> Response:
    """Clone, fetch and push."""
    gitlab = Gitlab(request.company)
    named = f"{request.parameters['space']}/{request.parameters['project']}"
    project = gitlab.project(named)
    service = request.query.get("service", request.parameters["rest"])
    is_push = service == "git-receive-pack"
    if request.user is None and (is_push or project is None or not may_see(gitlab, None, project)):
        raise Refused(401, "HTTP Basic: Access denied.")
    if project is None and named.endswith(".wiki"):
        raise absent("GitLab", "wiki repositories")
    if project is None or not may_see(gitlab, request.user, project):
        raise Refused(404, "The project you were looking for could not be found.")
    level = level_of(gitlab, request.user, project)
    if is_push and (level < DEVELOPER or project["archived"]):
        raise Refused(403, "You are not allowed to push code to this project.")
    if not (is_push and request.method == "POST"):
        return run_backend(request, gitlab.path(project), {})
    request.company.require_room(len(request.body))
    response = run_backend(request, gitlab.path(project), told_hook(request, gitlab, project))
    gitlab.after_push(project)
    return response


@routes.route(
    "GET POST PUT",
    f"/{SPACE}/{{project:[^/]+?}}{{suffix:(?:[.]git)?}}/info/lfs/{{rest:.+}}",
    is_open=True,
)
def large_files(request: Request) -> Response:
    """Refused; git-lfs shows the message."""
    refused = absent("GitLab", "LFS (large files in git)")
    said = {"message": refused.message}
    answer = Response.json(said, refused.status)
    answer.content_type = "application/vnd.git-lfs+json"
    return answer


def told_hook(request: Request, gitlab: Gitlab, project: Document) -> dict[str, str]:
    """What the hook of a push has to know; empty where it has nothing to refuse."""
    changes = pushed_changes(request)
    forced = [one[2] for one in changes if must_fast_forward(project, one)]
    level = level_of(gitlab, request.user, project)
    is_empty = not gitlab.repository(project).branches()
    refusals = (why_not_pushed(level, project, one, is_empty=is_empty) for one in changes)
    told = {
        "OFFICE_REFUSAL": next(filter(None, refusals), ""),
        "OFFICE_FAST_FORWARD": f" {' '.join(forced)} " if forced else "",
    }
    return told if any(told.values()) else {}


def pushed_changes(request: Request) -> list[Change]:
    """The references that a push wants to change; a push of more than anyone has is refused.

    They stand before its objects, a line of hexadecimal length each.
    """
    body, at = request.body, 0
    if request.headers.get("content-encoding", "") in ("gzip", "x-gzip"):
        with suppress(OSError, EOFError, zlib.error):
            body = gzip.GzipFile(fileobj=io.BytesIO(request.body)).read(MOST_REFS * REF_BYTES)
    found: list[Change] = []
    for _ in range(MOST_REFS):
        try:
            size = int(body[at : at + 4], 16)
        except ValueError:
            return found  # git refuses it
        if size < 4:
            return found
        line = body[at + 4 : at + size].decode(errors="replace").partition("\0")[0].strip("\n")
        old, _, rest = line.partition(" ")
        new, _, ref = rest.partition(" ")
        if old.startswith("push-cert"):
            raise absent("GitLab", "signed pushes")
        if old != "shallow":
            found.append((old, new, ref))
        at += size
    raise Refused(413, f"a push may change {MOST_REFS} references")


def hooks_folder(request: Request) -> Path:
    """The folder of the one hook there is; made with the first push that needs it."""
    folder = request.company.folder / "hooks"
    hook = folder / "pre-receive"
    if not hook.exists():
        folder.mkdir(exist_ok=True)
        hook.write_text(HOOK)
        hook.chmod(0o555)
    if not os.access(hook, os.X_OK):  # git would leave it out without a word
        raise RuntimeError(f"{hook} cannot be run: its file system allows no programs")
    return folder


def run_backend(request: Request, repository: Path, told: Mapping[str, str]) -> Response:
    """Let git answer; `told` is what the hook has to know."""
    room = max(1, request.company.room_bytes)  # for git, 0 is no limit
    settings = {"receive.maxInputSize": str(min(PUSH_BYTES, room))}
    if told:
        settings["core.hooksPath"] = str(hooks_folder(request))
    environment = {
        **git_environment(settings),
        **told,
        "GIT_PROJECT_ROOT": str(repository.parent),
        "GIT_HTTP_EXPORT_ALL": "1",
        "PATH_INFO": f"/{repository.name}/{request.parameters['rest']}",
        "REQUEST_METHOD": request.method,
        "QUERY_STRING": "&".join(f"{name}={value}" for name, value in request.query.items()),
        "CONTENT_TYPE": request.headers.get("content-type", ""),
        "CONTENT_LENGTH": str(len(request.body)),
        "REMOTE_USER": request.user["username"] if request.user else "",
        "REMOTE_ADDR": "127.0.0.1",
        "GIT_PROTOCOL": request.headers.get("git-protocol", ""),
        "HTTP_CONTENT_ENCODING": request.headers.get("content-encoding", ""),
    }
    done = subprocess.run(
        ["git", "http-backend"],
        input=request.body,
        capture_output=True,
        check=False,
        env={name: value for name, value in environment.items() if value},
        timeout=BACKEND_S,
    )
    head, gap, body = done.stdout.partition(b"\r\n\r\n")
    if not gap:
        raise Refused(500, "git did not answer")
    headers: dict[str, str] = {}
    for line in head.decode(errors="replace").split("\r\n"):
        name, _, value = line.partition(":")
        headers[name.strip()] = value.strip()
    status = int(headers.pop("Status", "200").split()[0])
    kind = headers.pop("Content-Type", "text/plain")
    return Response(status=status, body=body, content_type=kind, headers=headers)
