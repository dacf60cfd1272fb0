"""GitLab at port 8929: logins, people, groups; projects and all in them are beside."""

import base64
import binascii

from practicum_envs.office.company_state import Document
from practicum_envs.office.gitlab_model import ADDRESS, Gitlab
from practicum_envs.office.services import (
    gitlab_code_pages,
    gitlab_git,
    gitlab_layout,
    gitlab_pages,
    gitlab_plan_pages,
    gitlab_settings_pages,
    gitlab_work_pages,
)
from practicum_envs.office.services.gitlab_views import (
    may_see,
    paged,
    person,
    project_view,
    required,
    user_view,
)
from practicum_envs.office.services.web import Refused, Request, Response, Router, Service

PORT = 8929
VERSION = "17.5.1"
routes = Router()


@routes.route("POST", "/oauth/token", is_open=True)
def oauth_token(request: Request) -> Response:
    """A token for a name and a password."""
    gitlab = Gitlab(request.company)
    user = gitlab.user(request.text("username"))
    if user is None or user["password"] != request.text("password"):
        said = "The provided authorization grant is invalid, expired or revoked."
        return Response.json({"error": "invalid_grant", "error_description": said}, 400)
    token = request.company.secret("random")
    gitlab.data["tokens"][token] = user["id"]
    at = int(request.company.now().timestamp())
    kind = {"token_type": "Bearer", "expires_in": 7200, "scope": "api", "created_at": at}
    return Response.json({"access_token": token, "refresh_token": token, **kind})


@routes.route("GET", "/api/v4/{what:version|metadata}", is_open=True)
def version(request: Request) -> Response:
    """The version."""
    return Response.json({"version": VERSION, "revision": "office", "enterprise": False})


@routes.route("GET", "/api/v4/user")
def own_user(request: Request) -> Response:
    """The account of the token."""
    return Response.json(account_view(request.user))


def account_view(user: Document) -> Document:
    """All that an account shows its owner."""
    return {name: value for name, value in user.items() if name != "password"}


@routes.route("GET", "/api/v4/users")
def users(request: Request) -> Response:
    """Everyone, or who has a name."""
    found = list(Gitlab(request.company).users.values())
    if request.text("username"):
        found = [user for user in found if user["username"] == request.text("username")]
    wanted = request.text("search").lower()
    found = [u for u in found if wanted in f"{u['username']} {u['name']} {u['email']}".lower()]
    shows_all = request.user["is_admin"]
    return paged(request, [account_view(u) if shows_all else user_view(u) for u in found])


@routes.route("GET", "/api/v4/users/{user}")
def one_user(request: Request) -> Response:
    """One user."""
    return Response.json(account_view(wanted_user(request)))


def wanted_user(request: Request) -> Document:
    """The user of a route."""
    user = Gitlab(request.company).users.get(request.parameters["user"])
    if user is None:
        raise Refused(404, "404 User Not Found")
    return user


@routes.route("POST", "/api/v4/users")
def create_user(request: Request) -> Response:
    """A new account."""
    require_admin(request)
    required(request, "email", "name", "username")
    gitlab = Gitlab(request.company)
    if gitlab.user(request.text("username")) is not None:
        raise Refused(409, "Username has already been taken")
    user = gitlab.add_user(
        request.text("username"),
        request.text("name"),
        email=request.text("email"),
        password=request.text("password"),
        is_admin=request.flag("admin"),
    )
    return Response.json(account_view(user), 201)


@routes.route("PUT", "/api/v4/users/{user}")
def change_user(request: Request) -> Response:
    """Change an account."""
    require_admin(request)
    user = wanted_user(request)
    for name in ("name", "username", "email", "bio", "password", "public_email"):
        if name in request.fields:
            user[name] = request.text(name)
    if "admin" in request.fields:
        user["is_admin"] = request.flag("admin")
    return Response.json(account_view(user))


@routes.route("DELETE", "/api/v4/users/{user}")
def delete_user(request: Request) -> Response:
    """Delete an account."""
    require_admin(request)
    gitlab = Gitlab(request.company)
    del gitlab.users[str(wanted_user(request)["id"])]
    return Response(status=204)


@routes.route("POST", "/api/v4/users/{user}/{what:block|unblock|deactivate|activate}")
def block_user(request: Request) -> Response:
    """Let an account in, or not."""
    require_admin(request)
    what = request.parameters["what"]
    wanted_user(request)["state"] = {"block": "blocked", "deactivate": "deactivated"}.get(
        what, "active"
    )
    return Response.json(True, 201)


@routes.route("POST", "/api/v4/users/{user}/personal_access_tokens")
@routes.route("POST", "/api/v4/user/personal_access_tokens")
def create_token(request: Request) -> Response:
    """A personal access token."""
    required(request, "name")
    user = request.user
    if "user" in request.parameters:
        require_admin(request)
        user = wanted_user(request)
    token = request.company.secret("glpat")
    gitlab = Gitlab(request.company)
    gitlab.data["tokens"][token] = user["id"]
    number = request.company.number("gitlab token")
    facts = {"id": number, "name": request.text("name"), "revoked": False, "active": True}
    return Response.json({**facts, "user_id": user["id"], "scopes": ["api"], "token": token}, 201)


@routes.route("GET", "/api/v4/personal_access_tokens/self")
def own_token(request: Request) -> Response:
    """What the token is worth."""
    facts = {"id": 1, "name": "token", "revoked": False, "active": True, "scopes": ["api"]}
    return Response.json({**facts, "user_id": request.user["id"]})


@routes.route("GET", "/api/v4/groups")
def groups(request: Request) -> Response:
    """Every group."""
    wanted = request.text("search").lower()
    found = [g for g in Gitlab(request.company).groups.values() if wanted in g["full_path"].lower()]
    return paged(request, [group_view(group) for group in found])


def group_view(group: Document) -> Document:
    """A group as everyone sees it."""
    return {name: value for name, value in group.items() if name != "members"}


def wanted_group(request: Request) -> Document:
    """The group of a route."""
    group = Gitlab(request.company).group(request.parameters["group"])
    if group is None:
        raise Refused(404, "404 Group Not Found")
    return group


@routes.route("POST", "/api/v4/groups")
def create_group(request: Request) -> Response:
    """A new group; its maker owns it."""
    required(request, "name", "path")
    group = Gitlab(request.company).add_group(
        request.text("path"),
        request.text("name"),
        description=request.text("description"),
        visibility=request.text("visibility", default="private"),
        members={str(request.user["id"]): 50},
    )
    return Response.json(group_view(group), 201)


@routes.route("GET", "/api/v4/groups/{group}")
def one_group(request: Request) -> Response:
    """One group with its projects."""
    gitlab, group = Gitlab(request.company), wanted_group(request)
    inside = [p for p in gitlab.projects.values() if p["namespace_path"] == group["full_path"]]
    return Response.json(
        {**group_view(group), "projects": [project_view(gitlab, p) for p in inside]}
    )


@routes.route("DELETE", "/api/v4/groups/{group}")
def delete_group(request: Request) -> Response:
    """Delete a group."""
    group = wanted_group(request)
    require_group_owner(request, group)
    del Gitlab(request.company).groups[str(group["id"])]
    return Response.json({"message": "202 Accepted"}, 202)


@routes.route("GET", "/api/v4/groups/{group}/members")
@routes.route("GET", "/api/v4/groups/{group}/members/all")
def group_members(request: Request) -> Response:
    """Who is in a group."""
    gitlab, group = Gitlab(request.company), wanted_group(request)
    pairs = ((person(gitlab, number), level) for number, level in group["members"].items())
    return paged(request, [{**who, "access_level": level} for who, level in pairs if who])


@routes.route("POST", "/api/v4/groups/{group}/members")
def add_group_member(request: Request) -> Response:
    """Add someone to a group."""
    required(request, "user_id", "access_level")
    gitlab, group = Gitlab(request.company), wanted_group(request)
    require_group_owner(request, group)
    user = gitlab.user(request.text("user_id"))
    if user is None:
        raise Refused(404, "404 User Not Found")
    group["members"][str(user["id"])] = request.number("access_level", 30)
    who = user_view(user) or {}
    return Response.json({**who, "access_level": request.number("access_level", 30)}, 201)


@routes.route("GET", "/api/v4/groups/{group}/projects")
def group_projects(request: Request) -> Response:
    """The projects of a group."""
    gitlab, group = Gitlab(request.company), wanted_group(request)
    found = [p for p in gitlab.projects.values() if p["namespace_path"] == group["full_path"]]
    seen = [p for p in found if may_see(gitlab, request.user, p)]
    return paged(request, [project_view(gitlab, p, request.user) for p in seen])


@routes.route("GET", "/api/v4/namespaces")
def namespaces(request: Request) -> Response:
    """Where one may make projects."""
    gitlab = Gitlab(request.company)
    own = [{"id": request.user["id"], "path": request.user["username"], "kind": "user"}]
    shared = [
        {"id": g["id"], "path": g["full_path"], "kind": "group"} for g in gitlab.groups.values()
    ]
    return paged(
        request, [{**one, "full_path": one["path"], "name": one["path"]} for one in own + shared]
    )


def require_admin(request: Request) -> None:
    """Refuse everyone but administrators."""
    if not request.user["is_admin"]:
        raise Refused(403, "403 Forbidden")


def require_group_owner(request: Request, group: Document) -> None:
    """Refuse whoever does not own a group."""
    if not request.user["is_admin"] and group["members"].get(str(request.user["id"]), 0) < 50:
        raise Refused(403, "403 Forbidden")


def authenticate(request: Request) -> Document | None:
    """The user of a token, of a page's cookie, or of basic authentication."""
    gitlab = Gitlab(request.company)
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    token = request.headers.get("private-token") or request.query.get("private_token")
    token = token or request.query.get("access_token") or request.cookie("_gitlab_session")
    if scheme.lower() == "bearer":
        token = given.strip()
    user: Document | None = None
    if scheme.lower() == "basic":
        user = basic_user(gitlab, given)
        if user is None:
            raise Refused(401, "401 Unauthorized")
    elif token:
        user = gitlab.users.get(str(gitlab.data["tokens"].get(token)))
        if user is None and request.path.startswith("/api"):
            raise Refused(401, "401 Unauthorized")
    return user if user is not None and user["state"] == "active" else None


def basic_user(gitlab: Gitlab, given: str) -> Document | None:
    """The user of basic authentication; the password may be a token."""
    try:
        name, _, password = base64.b64decode(given, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return None
    for token in (password, name):
        if token in gitlab.data["tokens"]:
            return gitlab.users.get(str(gitlab.data["tokens"][token]))
    user = gitlab.user(name)
    return user if user is not None and password and user["password"] == password else None


def refuse(request: Request, refused: Refused) -> Response:
    """GitLab's error shapes."""
    if not request.path.startswith(("/api", "/oauth")):
        return gitlab_pages.refused_page(request, refused)
    if "detail" in refused.extra:
        return Response.json({"message": refused.extra["detail"]}, refused.status)
    if refused.extra.get("key") == "error":
        return Response.json({"error": refused.message}, refused.status)
    said = refused.message
    if refused.status == 401:
        said = "401 Unauthorized"
    return Response.json({"message": said}, refused.status)


SERVICE = Service(
    name="gitlab",
    port=PORT,
    router=Router()
    .add(routes)
    .add(gitlab_layout.API)
    .add(gitlab_git.routes)
    .add(gitlab_code_pages.routes)
    .add(gitlab_work_pages.routes)
    .add(gitlab_plan_pages.routes)
    .add(gitlab_settings_pages.routes)
    .add(gitlab_pages.routes),
    authenticate=authenticate,
    find_user=lambda company, name: Gitlab(company).user(name),
    refuse=refuse,
    absence=gitlab_pages.ABSENCE,
)
__all__ = ["ADDRESS", "SERVICE"]
