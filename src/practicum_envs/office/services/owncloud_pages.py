"""ownCloud's pages: log in, look into folders, upload, and what a public link leads to."""

import io
import zipfile
from pathlib import Path
from urllib.parse import quote

from practicum_envs.office.cloud_model import Cloud, kind_of, parts_of
from practicum_envs.office.company_state import Document
from practicum_envs.office.services.pages import escaped, link, page, sign_in_form, table
from practicum_envs.office.services.web import Refused, Request, Response, Router

routes = Router()
FILES = "/index.php/apps/files"
PUBLIC = "/{index:(?:index.php/)?}s/{token}"


@routes.route("GET", "/", is_open=True)
@routes.route("GET", "/index.php", is_open=True)
@routes.route("GET", "/{index:index.php/|}login", is_open=True)
def home(request: Request) -> Response:
    """The form to log in, or one's files."""
    return Response.html(login_form()) if request.user is None else Response.redirect(FILES)


FIELDS = (("Username or email", "user"), ("Password", "password"))


def login_form(said: str = "") -> str:
    """The page to log in."""
    return sign_in_form("ownCloud", "/index.php/login", FIELDS, "Log in", said)


@routes.route("POST", "/{index:index.php/|}login", is_open=True)
def log_in(request: Request) -> Response:
    """Log in by the form."""
    cloud = Cloud(request.company)
    user = cloud.users.get(request.text("user"))
    if user is None or user["password"] != request.text("password"):
        return Response.html(login_form("Wrong password."), 401)
    token = request.company.secret("random")
    cloud.data["sessions"][token] = user["id"]
    return Response.redirect(FILES, {"Set-Cookie": f"oc_session={token}; Path=/; HttpOnly"})


@routes.route("GET", FILES)
@routes.route("GET", f"{FILES}/files")
def folder_page(request: Request) -> Response:
    """The entries of the folder `dir`, and a form to upload."""
    cloud = Cloud(request.company)
    folder = request.text("dir", default="/").strip("/")
    place = cloud.place(request.user["id"], folder)
    if not place.file.is_dir():
        raise Refused(404, "There is no such folder")
    rows = []
    for name in cloud.entries(request.user["id"], place):
        path = f"{folder}/{name}".strip("/")
        file = cloud.place(request.user["id"], path).file
        inner = (
            f"{FILES}/?dir=/{quote(path)}" if file.is_dir() else f"/remote.php/webdav/{quote(path)}"
        )
        size = "folder" if file.is_dir() else f"{file.stat().st_size} bytes"
        rows.append((f'<a href="{escaped(inner)}">{escaped(name)}</a>', size))
    form = (
        f'<form method="post" enctype="multipart/form-data"><input type="hidden" name="dir" '
        f'value="/{escaped(folder)}"><input type="file" name="file"> <button>Upload</button></form>'
    )
    return Response.html(page(f"Files · /{folder}", table(("Name", "Size"), rows) + form))


@routes.route("POST", FILES)
def upload(request: Request) -> Response:
    """Upload a file by the form."""
    cloud = Cloud(request.company)
    fields, files = request.form
    sent = files.get("file")
    if sent is None:
        raise Refused(400, "No file was uploaded")
    folder = str(fields.get("dir", "/")).strip("/")
    path = f"{folder}/{Path(sent.name).name}"
    cloud.write(cloud.place(request.user["id"], path), sent.content)
    return Response.redirect(f"{FILES}/?dir=/{quote(folder)}")


# What a public link leads to.


def shared(request: Request) -> tuple[Cloud, Document, Path, str]:
    """The share of a link, the file it leads to, and the path below it."""
    cloud = Cloud(request.company)
    token = request.parameters["token"]
    share = next((one for one in cloud.shares.values() if one["token"] == token), None)
    if share is None:
        raise Refused(404, "The link does not work any more")
    given = request.text("password") or request.headers.get("x-share-password", "")
    if share["password"] and given != share["password"]:
        raise Refused(403, "This share is password-protected")
    inner = "/".join(parts_of(request.text("path")))
    place = cloud.place(share["owner"], f"{share['path']}/{inner}")
    name = request.text("files")
    file = place.file / "/".join(parts_of(name)) if name else place.file
    if not file.exists():
        raise Refused(404, "The file does not exist any more")
    return cloud, share, file, inner


@routes.route("GET POST", PUBLIC, is_open=True)
def public_page(request: Request) -> Response:
    """The page of a public link, with the address of the download."""
    _, share, file, inner = shared(request)
    where = f"{request.base_url}/index.php/s/{share['token']}/download"
    more = f"?path=/{quote(inner)}" if inner else ""
    body = f'<p><a href="{escaped(where + more)}">Download {escaped(file.name)}</a></p>'
    if file.is_dir():
        base = f"/index.php/s/{share['token']}"
        rows = []
        for one in sorted(file.iterdir()):
            path = f"{inner}/{one.name}".strip("/")
            to = (
                f"{base}?path=/{quote(path)}"
                if one.is_dir()
                else f"{base}/download?path=/{quote(inner)}&files={quote(one.name)}"
            )
            rows.append((f'<a href="{escaped(request.base_url + to)}">{escaped(one.name)}</a>',))
        body += table(("Name",), rows)
    return Response.html(page(f"{file.name} · ownCloud", body))


@routes.route("GET HEAD", f"{PUBLIC}/download", is_open=True)
def public_download(request: Request) -> Response:
    """The file of a public link; a folder comes as a zip archive."""
    _, _, file, _ = shared(request)
    name = file.name
    if file.is_dir():
        held = io.BytesIO()
        with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as archive:
            for one in sorted(file.rglob("*")):
                if one.is_file():
                    archive.write(one, f"{name}/{one.relative_to(file)}")
        content, kind, name = held.getvalue(), "application/zip", f"{name}.zip"
        headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{quote(name)}"}
        return Response(body=content, content_type=kind, headers=headers)
    headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{quote(name)}"}
    return Response(file=file, content_type=kind_of(file), headers=headers)


@routes.route("GET", "/index.php/f/{number}")
def by_number(request: Request) -> Response:
    """Files by number lead to the list of files."""
    return Response.redirect(FILES)


def refused_page(request: Request, refused: Refused) -> Response:
    """An error as a page."""
    if refused.status == 401:
        return Response.html(login_form("Log in to see this page"), 401)
    body = f"<p>{escaped(refused.message)}</p><p>{link('/', 'ownCloud')}</p>"
    return Response.html(page("ownCloud", body), refused.status)
