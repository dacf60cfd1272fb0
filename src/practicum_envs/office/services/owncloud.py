"""ownCloud at port 8092: WebDAV; shares, accounts and pages are beside."""

import base64
import binascii
import re
from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from urllib.parse import quote, unquote, urlsplit
from xml.sax.saxutils import escape

from practicum_envs.office.cloud_model import (
    Cloud,
    Place,
    changed_at,
    file_id,
    kind_of,
    sums_of,
)
from practicum_envs.office.company_state import Document
from practicum_envs.office.services import owncloud_pages, owncloud_shares
from practicum_envs.office.services.absent import OWNCLOUD, absence, absent
from practicum_envs.office.services.web import Refused, Request, Response, Router, Service

PORT = 8092
VERSION = "10.0.10.4"
routes = Router()
METHODS = "OPTIONS GET HEAD PUT DELETE PROPFIND PROPPATCH MKCOL MOVE COPY LOCK UNLOCK REPORT"
DAV = "/remote.php/{root:webdav|dav/files/[^/]+}{path:(?:/.*)?}"
MOST_PROPERTIES = 1 << 14
"""Bytes of a request that are searched for properties."""
MOST_LISTED = 10_000
"""Entries of a listing of unlimited depth."""


@routes.route(METHODS, DAV)
def dav(request: Request) -> Response:
    """Files by WebDAV."""
    handlers = {
        "OPTIONS": options,
        "GET": get,
        "HEAD": get,
        "PUT": put,
        "DELETE": delete,
        "PROPFIND": propfind,
        "PROPPATCH": proppatch,
        "MKCOL": mkcol,
        "MOVE": carry,
        "COPY": carry,
        "LOCK": lock,
        "UNLOCK": unlock,
    }
    handler = handlers.get(request.method)
    if handler is None:
        raise Refused(501, "Not Implemented")
    root = request.parameters["root"]
    if root.startswith("dav/") and unquote(root.rpartition("/")[2]) != request.user["id"]:
        raise Refused(404, "File not found")
    return handler(request)


def wanted(request: Request) -> tuple[Cloud, Place]:
    """Where the path of a request leads."""
    cloud = Cloud(request.company)
    return cloud, cloud.place(request.user["id"], request.parameters["path"])


def options(request: Request) -> Response:
    """What may be asked."""
    headers = {"DAV": "1, 2, 3, extended-mkcol", "Allow": METHODS.replace(" ", ", ")}
    return Response(content_type="", headers={**headers, "MS-Author-Via": "DAV"})


def get(request: Request) -> Response:
    """A file's content."""
    cloud, place = wanted(request)
    if not place.file.exists():
        raise Refused(404, f"File with name {place.path} could not be located")
    if place.file.is_dir():
        if request.method == "HEAD":
            return Response(content_type="")
        raise Refused(
            501, "This is the WebDAV interface. It can only be accessed by WebDAV clients"
        )
    etag = f'"{cloud.etag(place)}"'
    headers = {"ETag": etag, "OC-ETag": etag, "Last-Modified": changed_at(place.file)}
    if etag in request.headers.get("if-none-match", ""):
        return Response(status=304, headers=headers)
    headers["OC-Checksum"] = f"SHA1:{sums_of(place.file.read_bytes())['SHA1']}"
    whole = place.file.stat().st_size
    span = request.headers.get("range", "").removeprefix("bytes=").split("-")
    if len(span) == 2 and span[0].isdigit() and int(span[0]) < whole:
        first = int(span[0])
        last = min(int(span[1]), whole - 1) if span[1].isdigit() else whole - 1
        content = place.file.read_bytes()[first : last + 1]
        headers["Content-Range"] = f"bytes {first}-{last}/{whole}"
        return Response(status=206, body=content, content_type=kind_of(place.file), headers=headers)
    return Response(file=place.file, content_type=kind_of(place.file), headers=headers)


def put(request: Request) -> Response:
    """Put a file in place."""
    cloud, place = wanted(request)
    require_unchanged(request, cloud, place)
    if "oc-chunked" in request.headers:
        raise absent("ownCloud", OWNCLOUD["uploads"])
    require_sum(request)
    changed = moment(request.headers.get("x-oc-mtime"))
    is_new = cloud.write(place, request.body, changed)
    etag = f'"{cloud.etag(place)}"'
    headers = {"ETag": etag, "OC-ETag": etag, "OC-FileId": f"{file_id(place):08d}oc"}
    if changed is not None:
        headers["X-OC-MTime"] = "accepted"
    return Response(status=201 if is_new else 204, content_type="text/html", headers=headers)


def require_unchanged(request: Request, cloud: Cloud, place: Place) -> None:
    """Refuse to change what is not as the client last saw it, where it says how that was."""
    etag = f'"{cloud.etag(place)}"' if place.file.exists() else ""
    wanted, unwanted = (request.headers.get(name, "") for name in ("if-match", "if-none-match"))
    is_other = wanted and not (etag and (wanted.strip() == "*" or etag in wanted))
    is_there = etag and (unwanted.strip() == "*" or etag in unwanted)
    if is_other or is_there:
        header = "If-Match" if is_other else "If-None-Match"
        raise Refused(412, f"{header}: the file is not as its client last saw it")


def require_sum(request: Request) -> None:
    """Refuse a file that is not what its client sent."""
    kind, _, given = request.headers.get("oc-checksum", "").strip().partition(":")
    sums = sums_of(request.body) if given else {}
    if given and sums.get(kind.upper(), "") != given.lower():
        known = kind.upper() in sums
        said = (
            "The computed checksum does not match the one received from the client."
            if known
            else f"ownCloud knows {', '.join(sums)} and not {kind[:50]}"
        )
        raise Refused(400, said)


def moment(given: str | None) -> float | None:
    """Seconds since 1970 that a client gives; None where it gives none."""
    if given is None:
        return None
    if not re.fullmatch(r"\d{1,10}(?:\.\d+)?", given.strip()):
        raise Refused(400, "X-OC-MTime header must be an integer (unix timestamp).")
    return float(int(float(given)))


def delete(request: Request) -> Response:
    """Delete a file or folder."""
    cloud, place = wanted(request)
    require_unchanged(request, cloud, place)
    cloud.delete(place)
    return Response(status=204)


def mkcol(request: Request) -> Response:
    """A new folder."""
    if request.body:
        raise Refused(415, "The request body must be empty")
    cloud, place = wanted(request)
    cloud.make_folder(place)
    return Response(status=201, content_type="text/html")


def carry(request: Request) -> Response:
    """Move or copy."""
    cloud, source = wanted(request)
    given = request.headers.get("destination", "")
    path = urlsplit(given).path
    for root in ("/remote.php/webdav", f"/remote.php/dav/files/{quote(request.user['id'])}"):
        if path.startswith(root + "/"):
            target = cloud.place(request.user["id"], unquote(path.removeprefix(root)))
            break
    else:
        raise Refused(
            502 if given else 400, "The destination header was not supplied or is elsewhere"
        )
    is_new = cloud.carry(
        source,
        target,
        is_move=request.method == "MOVE",
        overwrites=request.headers.get("overwrite", "T") != "F",
    )
    return Response(status=201 if is_new else 204, content_type="text/html")


def propfind(request: Request) -> Response:
    """What there is, with its properties; 0, 1 or all levels down."""
    cloud, place = wanted(request)
    if not place.file.exists():
        raise Refused(404, f"File with name {place.path} could not be located")
    depth = {"0": 0, "1": 1}.get(request.headers.get("depth", "infinity"), MOST_LISTED)
    base = f"/remote.php/{request.parameters['root']}"
    shown = request.parameters["path"].strip("/")
    sums = b"checksums" in request.body
    parts = [
        response_xml(cloud, base, path, found) if not sums else with_sums(cloud, base, path, found)
        for path, found in walk(cloud, request.user["id"], shown, place, depth)
    ]
    return multistatus("".join(parts))


def walk(
    cloud: Cloud, username: str, path: str, place: Place, depth: int
) -> Iterator[tuple[str, Place]]:
    """A path and what is below it, so many levels down."""
    left = MOST_LISTED
    waiting = [(path, place, depth)]
    while waiting and left:
        path, place, depth = waiting.pop(0)
        yield path, place
        left -= 1
        if depth and place.file.is_dir():
            for name in cloud.entries(username, place):
                inner = f"{path}/{name}".strip("/")
                waiting.append((inner, cloud.place(username, inner), depth - 1))


def with_sums(cloud: Cloud, base: str, path: str, place: Place) -> str:
    """One entry of a listing with its checksums, which take a look at its content."""
    if place.file.is_dir():
        return response_xml(cloud, base, path, place)
    sums = sums_of(place.file.read_bytes())
    words = " ".join(f"{kind}:{value}" for kind, value in sums.items())
    inner = f"<oc:checksums><oc:checksum>{words}</oc:checksum></oc:checksums>"
    return response_xml(cloud, base, path, place, inner)


def response_xml(cloud: Cloud, base: str, path: str, place: Place, more: str = "") -> str:
    """One entry of a listing."""
    is_folder = place.file.is_dir()
    href = quote(f"{base}/{path}".rstrip("/") + ("/" if is_folder else ""))
    size = 0 if is_folder else place.file.stat().st_size
    own = (
        "<d:resourcetype><d:collection/></d:resourcetype>"
        "<d:quota-used-bytes>0</d:quota-used-bytes>"
        "<d:quota-available-bytes>-3</d:quota-available-bytes>"
        if is_folder
        else f"<d:resourcetype/><d:getcontentlength>{size}</d:getcontentlength>"
        f"<d:getcontenttype>{kind_of(place.file)}</d:getcontenttype>"
    )
    return (
        f"<d:response><d:href>{escape(href)}</d:href><d:propstat><d:prop>"
        f"<d:getlastmodified>{changed_at(place.file)}</d:getlastmodified>{own}"
        f"<d:getetag>&quot;{cloud.etag(place)}&quot;</d:getetag>"
        f"<d:displayname>{escape(place.name)}</d:displayname>"
        f"<oc:fileid>{file_id(place)}</oc:fileid><oc:id>{file_id(place):08d}oc</oc:id>"
        f"<oc:permissions>{'RDNVCK' if is_folder else 'RDNVW'}</oc:permissions>"
        f"<oc:size>{size}</oc:size>{more}</d:prop><d:status>HTTP/1.1 200 OK</d:status></d:propstat>"
        "</d:response>"
    )


def multistatus(inner: str) -> Response:
    """A listing."""
    names = 'xmlns:d="DAV:" xmlns:s="http://sabredav.org/ns" xmlns:oc="http://owncloud.org/ns"'
    body = f'<?xml version="1.0"?>\n<d:multistatus {names}>{inner}</d:multistatus>'
    return Response(status=207, body=body.encode(), content_type="application/xml; charset=utf-8")


def proppatch(request: Request) -> Response:
    """When a file was changed; other properties are refused by their names."""
    cloud, place = wanted(request)
    if not place.file.exists():
        raise Refused(404, "File not found")
    changes = properties_in(request.body)
    for name in ("lastmodified", "getlastmodified"):
        if name in changes:
            cloud.date(place, instant(changes.pop(name)))
    href = escape(quote(f"/remote.php/{request.parameters['root']}/{place.path}"))
    done = "<d:propstat><d:prop/><d:status>HTTP/1.1 200 OK</d:status></d:propstat>"
    names = ", ".join(sorted(changes))[:200]
    refusal = (
        "<d:propstat><d:prop/><d:status>HTTP/1.1 403 Forbidden</d:status><d:responsedescription>"
        f"ownCloud's properties of one's own ({escape(names)}) are not part of this company"
        "</d:responsedescription></d:propstat>"
    )
    inner = refusal if changes else done
    return multistatus(f"<d:response><d:href>{href}</d:href>{inner}</d:response>")


def properties_in(body: bytes) -> dict[str, str]:
    """The properties that a request sets or removes, by their names without a namespace.

    By a pattern: XML of a policy's own could keep a reader of XML busy.
    """
    text = body[:MOST_PROPERTIES].decode(errors="replace")
    found = re.findall(r"<(?:\w+:)?prop(?:\s[^>]*)?>(.*?)</(?:\w+:)?prop>", text, re.DOTALL)
    entry = r"<(?:\w+:)?([\w-]+)(?:\s[^>]*?)?(?:/>|>([^<]*)</)"
    return {name.lower(): value.strip() for one in found for name, value in re.findall(entry, one)}


def instant(text: str) -> float:
    """A time as WebDAV writes it, or seconds since 1970."""
    if re.fullmatch(r"\d{1,10}", text):
        return float(text)
    try:
        found = parsedate_to_datetime(text).timestamp()
    except (ValueError, OverflowError):
        found = -1.0
    if found < 0:
        raise Refused(400, f"{text[:100]} is no date since 1970")
    return found


def lock(request: Request) -> Response:
    """A lock that locks nothing: there is one user at work."""
    token = f"opaquelocktoken:{request.company.uuid()}"
    body = (
        '<?xml version="1.0"?><d:prop xmlns:d="DAV:"><d:lockdiscovery><d:activelock>'
        "<d:locktype><d:write/></d:locktype><d:lockscope><d:exclusive/></d:lockscope>"
        f"<d:depth>0</d:depth><d:timeout>Second-1800</d:timeout><d:locktoken><d:href>{token}"
        "</d:href></d:locktoken></d:activelock></d:lockdiscovery></d:prop>"
    )
    headers = {"Lock-Token": f"<{token}>"}
    return Response(body=body.encode(), content_type="application/xml", headers=headers)


def unlock(request: Request) -> Response:
    """See `lock`."""
    return Response(status=204)


@routes.route("GET", "/status.php", is_open=True)
def status(request: Request) -> Response:
    """The version."""
    facts = {"installed": True, "maintenance": False, "needsDbUpgrade": False}
    return Response.json(
        {**facts, "version": VERSION, "versionstring": "10.0.10", "edition": "Community"}
    )


def authenticate(request: Request) -> Document | None:
    """The user of basic authentication, or of the cookie that the pages use."""
    cloud = Cloud(request.company)
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "basic":
        try:
            name, _, password = base64.b64decode(given, validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            return None
        user = cloud.users.get(name)
        return user if user is not None and user["password"] == password else None
    return cloud.users.get(cloud.data["sessions"].get(request.cookie("oc_session"), ""))


def refuse(request: Request, refused: Refused) -> Response:
    """OwnCloud's error shapes: XML for WebDAV, OCS for its API, pages otherwise."""
    if request.path.startswith("/ocs"):
        return owncloud_shares.refused(request, refused)
    if not request.path.startswith("/remote.php"):
        return owncloud_pages.refused_page(request, refused)
    names = {401: "NotAuthenticated", 403: "Forbidden", 404: "NotFound", 409: "Conflict"}
    body = (
        '<?xml version="1.0" encoding="utf-8"?>\n<d:error xmlns:d="DAV:" '
        'xmlns:s="http://sabredav.org/ns">'
        f"<s:exception>Sabre\\DAV\\Exception\\{names.get(refused.status, 'BadRequest')}"
        f"</s:exception><s:message>{escape(refused.message)}</s:message></d:error>"
    )
    headers = {"WWW-Authenticate": 'Basic realm="ownCloud"'} if refused.status == 401 else {}
    kind = "application/xml; charset=utf-8"
    return Response(status=refused.status, body=body.encode(), content_type=kind, headers=headers)


SERVICE = Service(
    name="owncloud",
    port=PORT,
    router=Router().add(routes).add(owncloud_shares.routes).add(owncloud_pages.routes),
    authenticate=authenticate,
    find_user=lambda company, name: Cloud(company).users.get(name),
    refuse=refuse,
    absence=absence("ownCloud", OWNCLOUD),
)
