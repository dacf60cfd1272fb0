"""ownCloud's own API (OCS): shares and accounts, as XML or, with `format=json`, as JSON."""

from typing import Any
from xml.sax.saxutils import escape

from practicum_envs.office.cloud_model import (
    GROUP_SHARE,
    LINK_SHARE,
    USER_SHARE,
    Cloud,
    file_id,
    kind_of,
)
from practicum_envs.office.company_state import Document
from practicum_envs.office.services.absent import OWNCLOUD, absent
from practicum_envs.office.services.web import Refused, Request, Response, Router

routes = Router()
REMOTE_SHARE = 6
OCS = "/ocs/{version:v1|v2}.php"
SHARES = f"{OCS}/apps/files_sharing/api/v1/shares"


def answer(request: Request, data: Any, code: int = 100, message: str = "") -> Response:
    """An answer in OCS's envelope."""
    is_second = request.parameters.get("version", "v1") == "v2"
    status = "ok" if code in (100, 200) else "failure"
    shown = 200 if code == 100 and is_second else code
    meta = {"status": status, "statuscode": shown, "message": message or None}
    http = 200
    if is_second and code not in (100, 200):
        http = code if code >= 400 else 400
    if request.query.get("format") == "json":
        return Response.json({"ocs": {"meta": meta, "data": data}}, http)
    inner = f"<meta>{as_xml(meta)}</meta><data>{as_xml(data)}</data>"
    body = f'<?xml version="1.0"?>\n<ocs>{inner}</ocs>\n'.encode()
    return Response(status=http, body=body, content_type="text/xml; charset=utf-8")


def as_xml(value: Any) -> str:
    """A value as OCS writes it; entries of a list are called element."""
    if isinstance(value, dict):
        return "".join(f"<{name}>{as_xml(one)}</{name}>" for name, one in value.items())
    if isinstance(value, list):
        return "".join(f"<element>{as_xml(one)}</element>" for one in value)
    return "" if value is None else escape(str(value))


def refused(request: Request, error: Refused) -> Response:
    """An error in OCS's envelope."""
    request.parameters.setdefault("version", "v2" if "/v2.php" in request.path else "v1")
    if error.status == 401:
        shown = answer(request, [], 997, "Unauthorised")
        shown.status = 401
        return shown
    return answer(request, [], error.status, error.message)


def share_view(request: Request, cloud: Cloud, share: Document) -> Document:
    """A share as its owner sees it."""
    place = cloud.place(share["owner"], share["path"])
    shown = {name: value for name, value in share.items() if name not in ("owner", "password")}
    who = cloud.users.get(str(share["share_with"]), {})
    shown |= {
        "uid_file_owner": share["owner"],
        "mimetype": "httpd/unix-directory" if place.file.is_dir() else kind_of(place.file),
        "item_source": file_id(place),
        "file_source": file_id(place),
        "storage": 1,
        "mail_send": 0,
        "share_with_displayname": who.get("display-name", share["share_with"]),
    }
    if share["share_type"] == LINK_SHARE:
        shown["url"] = f"{request.base_url}/index.php/s/{share['token']}"
        shown["share_with"] = "***redacted***" if share["password"] else None
    return shown


@routes.route("GET", SHARES)
def shares(request: Request) -> Response:
    """One's own shares, those of a path, or those one received."""
    cloud = Cloud(request.company)
    name = request.user["id"]
    if request.flag("shared_with_me"):
        found = cloud.received(name)
    else:
        found = [one for one in cloud.shares.values() if one["uid_owner"] == name]
    path = request.text("path").strip("/")
    if path:
        cloud.place(name, path)
        found = [one for one in found if one["path"].strip("/") == path]
    return answer(request, [share_view(request, cloud, one) for one in found])


@routes.route("POST", SHARES)
def create_share(request: Request) -> Response:
    """Share a file or folder with a user (`shareType` 0) or by a link (3)."""
    cloud = Cloud(request.company)
    if not request.text("path"):
        raise Refused(404, "please specify a file or folder path")
    kind = request.number("shareType", -1)
    if kind not in (USER_SHARE, LINK_SHARE):
        kinds = {GROUP_SHARE: "groups", REMOTE_SHARE: "remote_shares"}
        if kind in kinds:
            raise absent("ownCloud", OWNCLOUD[kinds[kind]])
        raise Refused(400, "unknown share type")
    target = request.text("shareWith")
    if kind == USER_SHARE and target not in cloud.users:
        raise Refused(404, "please specify a valid user")
    share = cloud.share(
        request.user["id"],
        cloud.place(request.user["id"], request.text("path")),
        kind,
        share_with=target or None,
        permissions=request.text("permissions"),
        password=request.text("password") or None,
        expiration=request.text("expireDate") or None,
        name=request.text("name"),
    )
    return answer(request, share_view(request, cloud, share))


@routes.route("GET PUT DELETE", f"{SHARES}/{{share}}")
def one_share(request: Request) -> Response:
    """One share: show, change, delete."""
    cloud = Cloud(request.company)
    share = cloud.shares.get(request.parameters["share"])
    if share is None or request.user["id"] not in (share["uid_owner"], share["share_with"]):
        raise Refused(404, "Wrong share ID, share doesn't exist")
    if request.method == "DELETE":
        del cloud.shares[share["id"]]
        return answer(request, [])
    if request.method == "PUT":
        if "permissions" in request.fields:
            share["permissions"] = request.number("permissions", 1, 31)
        for given, stored in (
            ("password", "password"),
            ("expireDate", "expiration"),
            ("name", "name"),
        ):
            if given in request.fields:
                share[stored] = request.text(given) or None
    shown = share_view(request, cloud, share)
    return answer(request, shown if request.method == "PUT" else [shown])


@routes.route("GET", f"{OCS}/cloud/user")
def own_user(request: Request) -> Response:
    """The account one is logged in with."""
    shown = {name: request.user[name] for name in ("id", "display-name", "email")}
    return answer(request, shown)


@routes.route("GET", f"{OCS}/cloud/users")
def users(request: Request) -> Response:
    """Names of all accounts with some text in them."""
    wanted = request.text("search").lower()
    names = sorted(name for name in Cloud(request.company).users if wanted in name.lower())
    return answer(request, {"users": names})


@routes.route("GET", f"{OCS}/cloud/users/{{user}}")
def one_user(request: Request) -> Response:
    """One account."""
    user = Cloud(request.company).users.get(request.parameters["user"])
    if user is None:
        raise Refused(404, "The requested user could not be found")
    names = ("id", "display-name", "email", "enabled")
    return answer(
        request, {name: user[name] for name in names} | {"displayname": user["display-name"]}
    )


@routes.route("GET", f"{OCS}/apps/files_sharing/api/v1/sharees")
def sharees(request: Request) -> Response:
    """With whom one may share."""
    cloud, wanted = Cloud(request.company), request.text("search").lower()
    found: list[Document] = [
        {"label": user["display-name"], "value": {"shareType": USER_SHARE, "shareWith": name}}
        for name, user in sorted(cloud.users.items())
        if wanted in name.lower() or wanted in user["display-name"].lower()
    ]
    exact: Document = {"users": [], "groups": [], "remotes": []}
    return answer(request, {"exact": exact, "users": found, "groups": [], "remotes": []})


@routes.route("GET", f"{OCS}/cloud/capabilities", is_open=True)
def capabilities(request: Request) -> Response:
    """What this ownCloud can do."""
    sharing = {"api_enabled": 1, "public": {"enabled": 1}, "resharing": 1}
    facts = {"version": {"major": 10, "minor": 0, "micro": 10, "string": "10.0.10"}}
    return answer(request, {**facts, "capabilities": {"files_sharing": sharing}})
