"""RocketChat's channels, private groups and direct messages: making, changing, reading them."""

from practicum_envs.office.chat_model import ROLES, Chat
from practicum_envs.office.company_state import Document
from practicum_envs.office.services.rocketchat_views import (
    KEYS,
    KINDS,
    is_admin,
    may_read,
    paged,
    require_manager,
    room_view,
    success,
    user_view,
    wanted_room,
    wanted_user,
)
from practicum_envs.office.services.web import Refused, Request, Response, Router

routes = Router()
KIND = "{kind:channels|groups|im|dm}"
NAMED = "{kind:channels|groups}"
SETTINGS = {
    "setTopic": ("topic", "topic", "room_changed_topic"),
    "setDescription": ("description", "description", "room_changed_description"),
    "setPurpose": ("purpose", "description", "room_changed_description"),
    "setAnnouncement": ("announcement", "announcement", "room_changed_announcement"),
}
"""Route, the field in the request, the field of the room, the kind of the note about it."""


def answer(request: Request, room: Document) -> Response:
    """A room under the name that its routes give it."""
    key = KEYS[request.parameters["kind"]]
    return success(**{key: room_view(Chat(request.company), room)})


@routes.route("GET", "/api/v1/channels.list")
def channels_list(request: Request) -> Response:
    """Every public channel."""
    chat = Chat(request.company)
    return paged(request, "channels", [room_view(chat, room) for room in chat.rooms_of("c")])


@routes.route("GET", "/api/v1/groups.listAll")
def groups_list_all(request: Request) -> Response:
    """Every private group, for administrators."""
    if not is_admin(request.user):
        raise Refused(403, "Not allowed [error-not-allowed]")
    chat = Chat(request.company)
    return paged(request, "groups", [room_view(chat, room) for room in chat.rooms_of("p")])


@routes.route("GET", "/api/v1/channels.list.joined")
@routes.route("GET", "/api/v1/{kind:groups|im|dm}.list")
def joined_list(request: Request) -> Response:
    """The rooms one is a member of."""
    chat = Chat(request.company)
    kind = request.parameters.get("kind", "channels")
    key = {"channels": "channels", "groups": "groups"}.get(kind, "ims")
    rooms = chat.rooms_of(KINDS[kind], request.user["username"])
    return paged(request, key, [room_view(chat, room) for room in rooms])


@routes.route("GET", "/api/v1/{kind:im|dm}.list.everyone")
def everyones_list(request: Request) -> Response:
    """Every direct room, for administrators."""
    if not is_admin(request.user):
        raise Refused(403, "Not allowed [error-not-allowed]")
    chat = Chat(request.company)
    return paged(request, "ims", [room_view(chat, room) for room in chat.rooms_of("d")])


@routes.route("GET", f"/api/v1/{NAMED}.info")
def room_info(request: Request) -> Response:
    """One room."""
    return answer(request, wanted_room(request, Chat(request.company)))


@routes.route("POST", f"/api/v1/{NAMED}.create")
def room_create(request: Request) -> Response:
    """A new channel or group."""
    chat = Chat(request.company)
    name = request.text("name")
    if not name.strip():
        raise Refused(400, 'Body param "name" is required [error-name-required]')
    if not all(letter.isalnum() or letter in "-_." for letter in name):
        kind = "error-invalid-room-name"
        raise Refused(400, f"{name} is not a valid room name [{kind}]", errorType=kind)
    given = request.fields.get("members") or []
    members = given.split(",") if isinstance(given, str) else [str(one) for one in given]
    unknown = [one for one in members if chat.user(one) is None]
    if unknown:
        raise Refused(400, f"Invalid user {unknown[0]} [error-invalid-user]")
    is_private = request.parameters["kind"] == "groups"
    room = chat.create_room(name, request.user, members, is_private=is_private)
    room["ro"] = request.flag("readOnly")
    return answer(request, room)


@routes.route("POST", "/api/v1/{kind:im|dm}.create")
@routes.route("POST", "/api/v1/{kind:im|dm}.open")
def direct_create(request: Request) -> Response:
    """Open direct messages with one or several people."""
    chat = Chat(request.company)
    named = request.text("username", "usernames", "roomId")
    if named in chat.rooms and may_read(request.user, chat.rooms[named]):
        return answer(request, chat.rooms[named])
    users = [chat.user(one.strip().lstrip("@")) for one in named.split(",") if one.strip()]
    names = [user["username"] for user in users if user is not None]
    if not users or len(names) < len(users):
        raise Refused(400, "Invalid user [error-invalid-user]", errorType="error-invalid-user")
    room = chat.open_direct([request.user["username"], *names])
    shown = {**room_view(chat, room), "rid": room["_id"]}
    return success(room=shown)


@routes.route("POST", f"/api/v1/{KIND}.delete")
def room_delete(request: Request) -> Response:
    """Delete a room."""
    chat = Chat(request.company)
    room = wanted_room(request, chat)
    if room["t"] != "d":
        require_manager(request, room)
    chat.remove_room(room)
    return success()


@routes.route("POST", f"/api/v1/{NAMED}.{{what:archive|unarchive}}")
def room_archive(request: Request) -> Response:
    """Archive a room, or take it back."""
    room = wanted_room(request, Chat(request.company))
    require_manager(request, room)
    room["archived"] = request.parameters["what"] == "archive"
    return success()


@routes.route("POST", f"/api/v1/{NAMED}.invite")
def room_invite(request: Request) -> Response:
    """Add one person or several."""
    chat = Chat(request.company)
    room = wanted_room(request, chat)
    several = request.fields.get("userIds") or request.fields.get("usernames")
    if isinstance(several, list):
        users = [chat.user(str(one)) for one in several]
    else:
        users = [wanted_user(request)]
    if any(user is None for user in users):
        raise Refused(400, "Invalid user [error-invalid-user]", errorType="error-invalid-user")
    for user in users:
        if user is not None:
            chat.join(room, user["username"], request.user)
    return answer(request, room)


@routes.route("POST", "/api/v1/{kind:channels}.addAll")
def room_add_all(request: Request) -> Response:
    """Add everyone."""
    chat = Chat(request.company)
    room = wanted_room(request, chat)
    require_manager(request, room)
    for user in chat.users.values():
        chat.join(room, user["username"], request.user)
    return answer(request, room)


@routes.route("POST", f"/api/v1/{NAMED}.kick")
def room_kick(request: Request) -> Response:
    """Remove someone."""
    chat = Chat(request.company)
    room = wanted_room(request, chat)
    require_manager(request, room)
    chat.leave(room, wanted_user(request)["username"], request.user)
    return answer(request, room)


@routes.route("POST", "/api/v1/{kind:channels}.join")
def room_join(request: Request) -> Response:
    """Join a public channel."""
    chat = Chat(request.company)
    room = wanted_room(request, chat)
    chat.join(room, request.user["username"])
    return answer(request, room)


@routes.route("POST", f"/api/v1/{NAMED}.leave")
@routes.route("POST", "/api/v1/{kind:rooms}.leave")
def room_leave(request: Request) -> Response:
    """Leave a room."""
    chat = Chat(request.company)
    room = wanted_room(request, chat)
    chat.leave(room, request.user["username"])
    return success() if request.parameters["kind"] == "rooms" else answer(request, room)


@routes.route("POST", f"/api/v1/{KIND}.{{what:open|close}}")
def room_open(request: Request) -> Response:
    """Show a room in one's list, or not."""
    wanted_room(request, Chat(request.company))
    return success()


@routes.route("POST", f"/api/v1/{NAMED}.rename")
def room_rename(request: Request) -> Response:
    """Give a room another name."""
    chat = Chat(request.company)
    room = wanted_room(request, chat)
    require_manager(request, room)
    name = request.text("name")
    if not name or chat.room(name, "cp") is not None:
        kind = "error-duplicate-channel-name"
        raise Refused(400, f"A channel with name '{name}' exists [{kind}]", errorType=kind)
    room["name"] = room["fname"] = name
    chat.note(room, "r", name, request.user["username"])
    return answer(request, room)


@routes.route("POST", f"/api/v1/{KIND}.{{what:setTopic|setDescription|setPurpose|setAnnouncement}}")
def room_setting(request: Request) -> Response:
    """Set the topic, description or announcement."""
    chat = Chat(request.company)
    room = wanted_room(request, chat)
    if room["t"] != "d":
        require_manager(request, room)
    given, stored, note = SETTINGS[request.parameters["what"]]
    if given not in request.fields:
        raise Refused(400, f'The bodyParam "{given}" is required [error-{given}-required]')
    room[stored] = request.text(given)
    chat.note(room, note, room[stored], request.user["username"])
    return success(**{given: room[stored]})


@routes.route(
    "POST", f"/api/v1/{NAMED}.{{what:setReadOnly|setDefault|setJoinCode|setCustomFields}}"
)
def room_option(request: Request) -> Response:
    """Whether only managers may write, and options that change nothing here."""
    room = wanted_room(request, Chat(request.company))
    require_manager(request, room)
    if request.parameters["what"] == "setReadOnly":
        room["ro"] = request.flag("readOnly")
    elif request.parameters["what"] == "setDefault":
        room["default"] = request.flag("default")
    return answer(request, room)


@routes.route("POST", f"/api/v1/{NAMED}.setType")
def room_type(request: Request) -> Response:
    """Make a channel private, or a group public."""
    room = wanted_room(request, Chat(request.company), "cp")
    require_manager(request, room)
    if request.text("type") not in ("c", "p"):
        raise Refused(400, 'The bodyParam "type" is required [error-type-required]')
    room["t"] = request.text("type")
    return answer(request, room)


@routes.route("POST", f"/api/v1/{NAMED}.{{what:add|remove}}{{role:Moderator|Owner|Leader}}")
def room_role(request: Request) -> Response:
    """Give a role in a room, or take it."""
    chat = Chat(request.company)
    room = wanted_room(request, chat)
    require_manager(request, room)
    role, has = request.parameters["role"].lower(), request.parameters["what"] == "add"
    chat.set_role(room, role, wanted_user(request)["username"], request.user, has)
    return success()


@routes.route("GET", f"/api/v1/{NAMED}.moderators")
def room_moderators(request: Request) -> Response:
    """Who moderates a room."""
    chat = Chat(request.company)
    room = wanted_room(request, chat)
    users = [user for user in (chat.user(name) for name in room["moderators"]) if user]
    return success(
        moderators=[{"_id": u["_id"], "username": u["username"], "name": u["name"]} for u in users]
    )


@routes.route("GET", f"/api/v1/{NAMED}.roles")
def room_roles(request: Request) -> Response:
    """Who has a role in a room."""
    chat = Chat(request.company)
    room = wanted_room(request, chat)
    found = []
    for name in room["members"]:
        roles = [role for role, holders in ROLES.items() if name in room[holders]]
        user = chat.user(name)
        if roles and user is not None:
            shown = {"_id": user["_id"], "username": name, "name": user["name"]}
            found.append({"rid": room["_id"], "u": shown, "roles": roles, "_id": user["_id"]})
    return success(roles=found)


@routes.route("GET", f"/api/v1/{KIND}.members")
@routes.route("GET", f"/api/v1/{NAMED}.online")
def room_members(request: Request) -> Response:
    """Who is in a room."""
    chat = Chat(request.company)
    room = wanted_room(request, chat)
    users = [user for user in (chat.user(name) for name in sorted(room["members"])) if user]
    views = [user_view(user) for user in users]
    if request.path.endswith("online"):
        return success(online=views)
    return paged(request, "members", views)


@routes.route("GET", f"/api/v1/{KIND}.counters")
def room_counters(request: Request) -> Response:
    """How many people and messages a room has."""
    chat = Chat(request.company)
    room = wanted_room(request, chat)
    said = chat.messages[room["_id"]]
    return success(
        joined=request.user["username"] in room["members"],
        members=len(room["members"]),
        msgs=len(said),
        unreads=0,
        latest=said[-1]["ts"] if said else room["ts"],
        userMentions=0,
    )


@routes.route("GET", "/api/v1/rooms.get")
@routes.route("GET", "/api/v1/subscriptions.get")
def rooms_get(request: Request) -> Response:
    """The rooms one is in."""
    chat = Chat(request.company)
    rooms = [room_view(chat, room) for room in chat.rooms_of("cpd", request.user["username"])]
    return success(update=[{**room, "rid": room["_id"]} for room in rooms], remove=[])


@routes.route("GET", "/api/v1/subscriptions.getOne")
@routes.route("GET", "/api/v1/rooms.info")
def rooms_info(request: Request) -> Response:
    """A room of any kind."""
    chat = Chat(request.company)
    room = wanted_room(request, chat)
    shown = room_view(chat, room)
    return success(room=shown, subscription={**shown, "rid": room["_id"]})


@routes.route("POST", "/api/v1/subscriptions.{what:read|unread}")
@routes.route("POST", "/api/v1/rooms.favorite")
def rooms_mark(request: Request) -> Response:
    """Marks of one's own, which nobody else sees."""
    return success()


@routes.route("GET", "/api/v1/rooms.adminRooms")
def rooms_admin(request: Request) -> Response:
    """Every room, for administrators."""
    if not is_admin(request.user):
        raise Refused(403, "Not allowed [error-not-allowed]")
    chat = Chat(request.company)
    rooms = [room_view(chat, room) for room in chat.rooms_of("cpd")]
    return paged(
        request,
        "rooms",
        [room for room in rooms if may_read(request.user, chat.rooms[room["_id"]])],
    )
