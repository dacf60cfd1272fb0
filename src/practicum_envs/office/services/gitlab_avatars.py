"""Pictures of GitLab's projects: setting, showing and removing them."""

import mimetypes
import re
from pathlib import Path
from urllib.parse import quote

from practicum_envs.office.company_state import REPOSITORIES, Document
from practicum_envs.office.gitlab_model import Gitlab
from practicum_envs.office.services.gitlab_views import wanted_project
from practicum_envs.office.services.web import Refused, Request, Response, Router, Upload

routes = Router()
FORMATS = ("png", "jpg", "jpeg", "gif", "bmp", "tiff", "ico", "webp")
MOST_BYTES = 200 << 10
PLACE = "/uploads/-/system/project/avatar"


def picture(gitlab: Gitlab, project: Document) -> Path:
    """Where a project's picture lies, beside its repository."""
    return Path(gitlab.company.folder / REPOSITORIES / "avatars" / str(project["id"]))


def take_avatar(gitlab: Gitlab, project: Document, given: Upload | None) -> None:
    """Take over the picture that a request brings, where it brings one."""
    if given is None or not given.name:
        return
    if given.name.rpartition(".")[2].lower() not in FORMATS:
        formats = ", ".join(FORMATS)
        said = f"file format is not supported. Please try one of the following: {formats}"
        raise Refused(400, "", detail={"avatar": [said]})
    if len(given.content) > MOST_BYTES:
        raise Refused(400, "", detail={"avatar": ["is too big (should be at most 200 KiB)"]})
    gitlab.company.require_room(len(given.content))
    place = picture(gitlab, project)
    place.parent.mkdir(exist_ok=True)
    place.unlink(missing_ok=True)  # a reset still needs the old content
    place.write_bytes(given.content)
    name = re.sub(r"[^\w.-]", "_", given.name.replace("\\", "/").rpartition("/")[2])
    project["avatar_path"] = f"{PLACE}/{project['id']}/{quote(name)}"


def remove_avatar(gitlab: Gitlab, project: Document) -> None:
    """Leave a project without a picture."""
    picture(gitlab, project).unlink(missing_ok=True)
    project.pop("avatar_path", None)


@routes.route("GET", f"{PLACE}/{{id}}/{{name}}", is_open=True)
@routes.route("GET", "/api/v4/projects/{id}/avatar", is_open=True)
def avatar(request: Request) -> Response:
    """A project's picture."""
    gitlab = Gitlab(request.company)
    project = wanted_project(request, gitlab)
    place = picture(gitlab, project)
    if "avatar_path" not in project:
        raise Refused(404, "404 Avatar Not Found")
    kind = mimetypes.guess_type(project["avatar_path"])[0] or "application/octet-stream"
    return Response(file=place, content_type=kind)
