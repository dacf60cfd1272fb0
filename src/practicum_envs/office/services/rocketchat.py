"""RocketChat at port 3000: logins, people and the server itself; rooms and messages are beside."""

import hashlib
from typing import Any

from practicum_envs.office.chat_model import Chat
from practicum_envs.office.company_state import Document
from practicum_envs.office.services import (
    rocketchat_ddp,
    rocketchat_messages,
    rocketchat_pages,
    rocketchat_rooms,
    rocketchat_search,
)
from practicum_envs.office.services.absent import ROCKETCHAT, absence
from practicum_envs.office.services.rocketchat_views import (
    is_admin,
    paged,
    success,
    user_view,
    wanted_user,
)
from practicum_envs.office.services.web import Refused, Request, Response, Router, Service

PORT = 3000
VERSION = "5.3.0"
routes = Router()
EDITABLE = ("name", "username", "bio", "statusText", "nickname", "roles", "active", "password")


@routes.route("POST", "/api/v1/login", is_open=True)
def log_in(request: Request) -> Response:
    """A token for a name and a password, or the user of a token."""
    chat = Chat(request.company)
    tokens = chat.data["tokens"]
    if request.text("resume"):
        user = chat.users.get(tokens.get(request.text("resume"), ""))
        token = request.text("resume")
    else:
        given = request.fields.get("user")
        named = given.get("username", given.get("email")) if isinstance(given, dict) else given
        user = find_login(chat, str(named or request.text("username", "email")))
        if user is not None and not is_password(user, request.fields.get("password")):
            user = None
        token = request.company.secret("random")
    if user is None or not user["active"]:
        return Response.json(
            {"status": "error", "error": "Unauthorized", "message": "Unauthorized"}, 401
        )
    tokens[token] = user["_id"]
    data = {"userId": user["_id"], "authToken": token, "me": me_view(user)}
    return Response.json({"status": "success", "data": data})


def is_password(user: Document, given: Any) -> bool:
    """Whether a client knows the password, which it may send as its SHA-256."""
    if isinstance(given, dict):
        digest = hashlib.sha256(str(user["password"]).encode("utf-8", "replace")).hexdigest()
        return bool(given.get("digest") == digest)
    return bool(given == user["password"])


def find_login(chat: Chat, named: str) -> Document | None:
    """A user by username or address."""
    for user in chat.users.values():
        if named and named in (user["username"], user["emails"][0]["address"]):
            return user
    return None


@routes.route("POST GET", "/api/v1/logout")
def log_out(request: Request) -> Response:
    """The token is worth nothing afterwards."""
    Chat(request.company).data["tokens"].pop(request.headers.get("x-auth-token", ""), None)
    data = {"message": "You've been logged out!"}
    return Response.json({"status": "success", "data": data})


def me_view(user: Document) -> Document:
    """What a user sees of their own account."""
    return {**user_view(user), "email": user["emails"][0]["address"], "settings": {}}


@routes.route("GET", "/api/v1/me")
def me(request: Request) -> Response:
    """The account of the token."""
    return Response.json({**me_view(request.user), "success": True})


@routes.route("GET", "/api/info", is_open=True)
@routes.route("GET", "/api/v1/info", is_open=True)
def info(request: Request) -> Response:
    """The version."""
    return success(version=VERSION, info={"version": VERSION})


@routes.route("GET", "/websocket", is_open=True)
def web_socket(request: Request) -> Response:
    """For a request that asks for no web socket."""
    raise Refused(426, "RocketChat speaks DDP over a web socket here; ask for one by Upgrade")


@routes.route("GET", "/api/v1/settings.public", is_open=True)
def settings(request: Request) -> Response:
    """The settings everyone may see."""
    found = [{"_id": "Site_Name", "value": "the agent company"}]
    return paged(request, "settings", found)


@routes.route("GET", "/api/v1/users.list")
def users_list(request: Request) -> Response:
    """Everyone."""
    users = sorted(Chat(request.company).users.values(), key=lambda user: str(user["username"]))
    return paged(request, "users", [user_view(user) for user in users])


@routes.route("GET", "/api/v1/users.info")
def users_info(request: Request) -> Response:
    """One user by `userId` or `username`."""
    return success(user=user_view(wanted_user(request)))


@routes.route("GET", "/api/v1/users.presence")
def users_presence(request: Request) -> Response:
    """Who is there: everyone, or those with these `ids`."""
    wanted = request.lists.get("ids[]") or request.lists.get("ids") or []
    users = Chat(request.company).users.values()
    found = [user_view(one) for one in users if not wanted or one["_id"] in wanted]
    return success(users=found, full=not wanted)


@routes.route("GET", "/api/v1/users.getPresence")
@routes.route("GET", "/api/v1/users.getStatus")
def users_status(request: Request) -> Response:
    """Whether a user is there."""
    user = wanted_user(request) if request.text("userId", "username", "user") else request.user
    return success(
        presence=user["status"],
        status=user["status"],
        message=user["statusText"],
        connectionStatus=user["status"],
        _id=user["_id"],
    )


@routes.route("POST", "/api/v1/users.setStatus")
def users_set_status(request: Request) -> Response:
    """Set one's own status."""
    request.user["status"] = request.text("status", default=request.user["status"])
    request.user["statusText"] = request.text("message", default=request.user["statusText"])
    return success()


@routes.route("POST", "/api/v1/users.create")
@routes.route("POST", "/api/v1/users.register", is_open=True)
def users_create(request: Request) -> Response:
    """A new account."""
    chat = Chat(request.company)
    if request.path.endswith("create"):
        require_admin(request)
    username, email = request.text("username"), request.text("email")
    missing = [
        name for name in ("username", "email", "name", "password") if not request.text(name, "pass")
    ]
    if missing:
        raise Refused(400, f"Match error: Missing key '{missing[0]}'")
    if chat.user(username) is not None:
        kind = "error-field-unavailable"
        raise Refused(400, f"{username} is already in use :( [{kind}]", errorType=kind)
    more: Document = {"email": email, "password": request.text("password", "pass")}
    if isinstance(request.fields.get("roles"), list):
        more["roles"] = list(request.fields["roles"])
    user = chat.add_user(username, request.text("name"), **more)
    general = chat.room("general", "c")
    if general is not None and request.flag("joinDefaultChannels", True):
        chat.join(general, username)
    return success(user=user_view(user))


@routes.route("POST", "/api/v1/users.update")
def users_update(request: Request) -> Response:
    """Change an account."""
    require_admin(request)
    user = wanted_user(request)
    change_user(user, request.fields.get("data") or {})
    return success(user=user_view(user))


@routes.route("POST", "/api/v1/users.updateOwnBasicInfo")
def users_update_own(request: Request) -> Response:
    """Change one's own account."""
    given = request.fields.get("data")
    allowed = {k: v for k, v in given.items() if k != "roles"} if isinstance(given, dict) else {}
    if "newPassword" in allowed:
        allowed["password"] = allowed["newPassword"]
    else:
        allowed.pop("password", None)
    change_user(request.user, allowed)
    return success(user=user_view(request.user))


def change_user(user: Document, changes: Any) -> None:
    """Take over what may be changed."""
    if not isinstance(changes, dict):
        raise Refused(400, "Match error: Expected object")
    for name in EDITABLE:
        if name in changes:
            kind = {"roles": list, "active": bool}.get(name, str)
            if not isinstance(changes[name], kind):
                raise Refused(400, f"Match error: Expected {kind.__name__} in field data.{name}")
            user[name] = changes[name]
    if "email" in changes:
        user["emails"] = [{"address": str(changes["email"]), "verified": True}]
    user["nameInsensitive"] = str(user["name"]).lower()


@routes.route("POST", "/api/v1/users.delete")
def users_delete(request: Request) -> Response:
    """Delete an account."""
    require_admin(request)
    Chat(request.company).remove_user(wanted_user(request))
    return success()


@routes.route("POST", "/api/v1/users.setActiveStatus")
def users_set_active(request: Request) -> Response:
    """Let an account log in, or not."""
    require_admin(request)
    user = wanted_user(request)
    user["active"] = request.flag("activeStatus")
    return success(user=user_view(user))


@routes.route("POST", "/api/v1/users.createToken")
def users_create_token(request: Request) -> Response:
    """A token for someone else."""
    require_admin(request)
    user = wanted_user(request)
    token = request.company.secret("random")
    Chat(request.company).data["tokens"][token] = user["_id"]
    return success(data={"userId": user["_id"], "authToken": token})


@routes.route("GET", "/api/v1/users.getPreferences")
def users_preferences(request: Request) -> Response:
    """The user's own settings."""
    return success(preferences={})


@routes.route("GET", "/api/v1/roles.list")
def roles_list(request: Request) -> Response:
    """The roles there are."""
    names = {"admin": "Users", "user": "Users", "bot": "Users", "guest": "Users"}
    names |= {"owner": "Subscriptions", "moderator": "Subscriptions", "leader": "Subscriptions"}
    return success(
        roles=[{"_id": n, "name": n, "scope": s, "protected": True} for n, s in names.items()]
    )


@routes.route("GET", "/api/v1/roles.getUsersInRole")
def roles_users(request: Request) -> Response:
    """Who has a role, in a room where one is given."""
    chat = Chat(request.company)
    role = request.text("role")
    if not role:
        raise Refused(400, "Param 'role' is required [error-param-not-provided]")
    room = chat.room(request.text("roomId"), "cp") if request.text("roomId") else None
    holders = {"owner": "owners", "moderator": "moderators", "leader": "leaders"}.get(role)
    rooms = [room] if room is not None else chat.rooms_of("cp")
    names = {name for one in rooms for name in one[holders]} if holders else set()
    users = [
        user_view(user)
        for user in chat.users.values()
        if user["username"] in names or (holders is None and role in user["roles"])
    ]
    return paged(request, "users", sorted(users, key=lambda user: str(user["username"])))


@routes.route("POST", "/api/v1/roles.addUserToRole")
def roles_add_user(request: Request) -> Response:
    """Give someone a role on the server, or in a room."""
    require_admin(request)
    chat = Chat(request.company)
    user, role = wanted_user(request), request.text("roleName", "roleId")
    room = chat.room(request.text("roomId"), "cp") if request.text("roomId") else None
    if room is not None:
        chat.set_role(room, role, user["username"], request.user, True)
    elif role not in user["roles"]:
        user["roles"].append(role)
    return success(role={"_id": role, "name": role})


@routes.route("POST", "/api/v1/roles.removeUserFromRole")
def roles_remove_user(request: Request) -> Response:
    """Take a role on the server away."""
    require_admin(request)
    user, role = wanted_user(request), request.text("roleName", "roleId")
    if role in user["roles"]:
        user["roles"].remove(role)
    return success(role={"_id": role, "name": role})


def require_admin(request: Request) -> None:
    """Refuse users without the role `admin`."""
    if not is_admin(request.user):
        raise Refused(
            403, "User does not have the permissions required for this action [error-unauthorized]"
        )


def authenticate(request: Request) -> Document | None:
    """The user of the token headers, or of the cookie that the pages use."""
    chat = Chat(request.company)
    token, asked = request.headers.get("x-auth-token"), request.headers.get("x-user-id")
    if token is None:
        return chat.users.get(chat.data["tokens"].get(request.cookie("rc_token"), ""))
    user_id = chat.data["tokens"].get(token, "")
    return chat.users.get(user_id) if user_id == asked else None


def refuse(request: Request, refused: Refused) -> Response:
    """RocketChat's error shapes."""
    if not request.path.startswith("/api"):
        return rocketchat_pages.refused_page(request, refused)
    if refused.status == 401:
        message = "You must be logged in to do this."
        return Response.json({"status": "error", "message": message}, 401)
    more = {name: value for name, value in refused.extra.items() if name != "key"}
    return Response.json({"success": False, "error": refused.message, **more}, refused.status)


SERVICE = Service(
    name="rocketchat",
    port=PORT,
    router=Router()
    .add(routes)
    .add(rocketchat_rooms.routes)
    .add(rocketchat_messages.routes)
    .add(rocketchat_search.routes)
    .add(rocketchat_pages.routes),
    authenticate=authenticate,
    find_user=lambda company, name: Chat(company).user(name),
    refuse=refuse,
    absence=absence("RocketChat", ROCKETCHAT),
    converse=rocketchat_ddp.Conversation,
)
