"""The methods of RocketChat's web socket, each a call of the REST API."""

from collections.abc import Callable, Mapping
from typing import Any

from practicum_envs.office.company_state import Document
from practicum_envs.office.services.web import Refused

Call = Callable[[str, str, Document], Document]
"""Calls the REST API: an HTTP method, a route, fields."""
Method = Callable[[Call, list[Any]], Any]
ROUTES = {"c": "channels", "p": "groups", "d": "im"}
"""The word of a room's routes by the room's type."""
ROOM_SETTINGS = {
    "roomTopic": ("setTopic", "topic"),
    "roomDescription": ("setDescription", "description"),
    "roomAnnouncement": ("setAnnouncement", "announcement"),
    "roomName": ("rename", "name"),
    "roomType": ("setType", "type"),
    "readOnly": ("setReadOnly", "readOnly"),
}
HISTORY = 50
"""Messages of a history where no number is said."""


def text(params: list[Any], at: int, name: str = "") -> str:
    """A parameter as text, or a field of it where it is an object."""
    value = params[at] if at < len(params) else None
    if isinstance(value, dict) and name:
        value = value.get(name)
    if value is None or isinstance(value, dict | list):
        raise Refused(400, f"Match error: parameter {at + 1} {name} is missing".replace("  ", " "))
    return str(value)


def given(params: list[Any], at: int) -> Document:
    """A parameter that is an object."""
    value = params[at] if at < len(params) else None
    if not isinstance(value, dict):
        raise Refused(400, f"Match error: parameter {at + 1} must be an object")
    return value


def room_of(call: Call, named: str) -> Document:
    """A room by its id or name."""
    found: Document = call("GET", "rooms.info", {"roomId": named})["room"]
    return found


def log_in(call: Call, params: list[Any]) -> Any:
    """By a password, its digest or a token."""
    asked = given(params, 0)
    if "resume" not in asked and not ("user" in asked and "password" in asked):
        raise Refused(403, "Unrecognized options for login request [400]")
    try:
        found = call("POST", "login", asked)["data"]
    except Refused:
        raise Refused(403, "User not found or incorrect password") from None
    kind = "resume" if "resume" in asked else "password"
    own = {"authToken": found["authToken"], "username": found["me"]["username"]}
    return {**own, "id": found["userId"], "token": found["authToken"], "type": kind}


def log_out(call: Call, params: list[Any]) -> Any:
    """The token is worth nothing afterwards."""
    call("POST", "logout", {})
    return {}


def rooms_get(call: Call, params: list[Any]) -> Any:
    """One's rooms; with a time, in the form that says what is new."""
    found = call("GET", "rooms.get", {})
    return {"update": found["update"], "remove": []} if params and params[0] else found["update"]


def load_history(call: Call, params: list[Any]) -> Any:
    """The last messages of a room, newest first."""
    room = room_of(call, text(params, 0))
    limit = params[2] if len(params) > 2 and isinstance(params[2], int) else HISTORY
    fields: Document = {"roomId": room["_id"], "count": limit}
    found = call("GET", f"{ROUTES[room['t']]}.history", fields)
    return {"messages": found["messages"], "unreadNotLoaded": 0}


def in_room(route: str, *names: str) -> Method:
    """A call of a route of the room's kind, with the first parameter as its id."""

    def method(call: Call, params: list[Any]) -> Any:
        room = room_of(call, text(params, 0, "rid"))
        fields = {name: text(params, at) for at, name in enumerate(names, 1)}
        call("POST", f"{ROUTES[room['t']]}.{route}", {"roomId": room["_id"], **fields})
        return True

    return method


def save_setting(call: Call, params: list[Any]) -> Any:
    """A setting of a room, such as its topic."""
    name = text(params, 1)
    if name not in ROOM_SETTINGS:
        raise Refused(404, f"RocketChat's room setting '{name}' is not part of this company")
    room = room_of(call, text(params, 0))
    route, field = ROOM_SETTINGS[name]
    call(
        *("POST", f"{ROUTES[room['t']]}.{route}"),
        {"roomId": room["_id"], field: text(params, 2)},
    )
    return {"result": True, "rid": room["_id"]}


def add_people(call: Call, params: list[Any]) -> Any:
    """Add people to a room by their usernames."""
    asked = given(params, 0)
    room = room_of(call, text(params, 0, "rid"))
    fields = {"roomId": room["_id"], "usernames": asked.get("users")}
    call("POST", f"{ROUTES[room['t']]}.invite", fields)
    return True


def remove_person(call: Call, params: list[Any]) -> Any:
    """Remove someone from a room by the username."""
    room = room_of(call, text(params, 0, "rid"))
    fields = {"roomId": room["_id"], "username": text(params, 0, "username")}
    call("POST", f"{ROUTES[room['t']]}.kick", fields)
    return True


def room_people(call: Call, params: list[Any]) -> Any:
    """Who is in a room."""
    room = room_of(call, text(params, 0))
    fields = {"roomId": room["_id"], "count": 0}
    found = call("GET", f"{ROUTES[room['t']]}.members", fields)
    return {"total": found["total"], "records": found["members"]}


def create(route: str, key: str) -> Method:
    """A new channel or private group: its name, and usernames."""

    def method(call: Call, params: list[Any]) -> Any:
        members = params[1] if len(params) > 1 and isinstance(params[1], list) else []
        fields = {"name": text(params, 0), "members": members}
        made = call("POST", f"{route}.create", fields)[key]
        return {"rid": made["_id"], **made}

    return method


def create_direct(call: Call, params: list[Any]) -> Any:
    """Direct messages with someone."""
    names = ",".join(str(one) for one in params if isinstance(one, str))
    room = call("POST", "im.create", {"usernames": names})["room"]
    return {"rid": room["_id"], "t": "d"}


def update_message(call: Call, params: list[Any]) -> Any:
    """Change a message of one's own."""
    asked = given(params, 0)
    fields = {"roomId": asked.get("rid"), "msgId": asked.get("_id"), "text": asked.get("msg")}
    return call("POST", "chat.update", fields)["message"]


def search_messages(call: Call, params: list[Any]) -> Any:
    """Messages of a room with some text."""
    fields = {"searchText": text(params, 0), "roomId": text(params, 1)}
    found = call("GET", "chat.search", fields)["messages"]
    return {"message": {"docs": found}}


def react(call: Call, params: list[Any]) -> Any:
    """Add a reaction, or take it back; the third parameter says which."""
    fields: Document = {"emoji": text(params, 0), "messageId": text(params, 1)}
    if len(params) > 2 and isinstance(params[2], bool):
        fields["shouldReact"] = params[2]
    call("POST", "chat.react", fields)
    return None


def thread(call: Call, params: list[Any]) -> Any:
    """The replies to a message."""
    fields = {"tmid": text(params, 0, "tmid"), "count": 0}
    return call("GET", "chat.getThreadMessages", fields)["messages"]


def nothing(call: Call, params: list[Any]) -> Any:
    """What a client tells and nobody here keeps, such as that somebody is typing."""
    call("GET", "me", {})
    return None


METHODS: Mapping[str, Method] = {
    "login": log_in,
    "logout": log_out,
    "sendMessage": lambda call, params: call(
        "POST", "chat.sendMessage", {"message": given(params, 0)}
    )["message"],
    "updateMessage": update_message,
    "deleteMessage": lambda call, params: (
        call("POST", "chat.delete", {"msgId": text(params, 0, "_id")}) and None
    ),
    "setReaction": react,
    "starMessage": lambda call, params: call(
        "POST",
        "chat.starMessage" if given(params, 0).get("starred", True) else "chat.unStarMessage",
        {"messageId": text(params, 0, "_id")},
    )["message"],
    "pinMessage": lambda call, params: call(
        "POST", "chat.pinMessage", {"messageId": text(params, 0, "_id")}
    )["message"],
    "unpinMessage": lambda call, params: call(
        "POST", "chat.unPinMessage", {"messageId": text(params, 0, "_id")}
    )["message"],
    "getSingleMessage": lambda call, params: call(
        "GET", "chat.getMessage", {"msgId": text(params, 0)}
    )["message"],
    "getThreadMessages": thread,
    "messageSearch": search_messages,
    "loadHistory": load_history,
    "rooms/get": rooms_get,
    "getRooms": rooms_get,
    "subscriptions/get": rooms_get,
    "getRoomIdByNameOrId": lambda call, params: room_of(call, text(params, 0))["_id"],
    "getRoomNameById": lambda call, params: room_of(call, text(params, 0)).get("name", ""),
    "getUsersOfRoom": room_people,
    "joinRoom": in_room("join"),
    "leaveRoom": in_room("leave"),
    "eraseRoom": in_room("delete"),
    "archiveRoom": in_room("archive"),
    "unarchiveRoom": in_room("unarchive"),
    "hideRoom": in_room("close"),
    "openRoom": in_room("open"),
    **{
        f"{what}Room{role}": in_room(f"{what}{role}", "userId")
        for what in ("add", "remove")
        for role in ("Moderator", "Owner", "Leader")
    },
    "saveRoomSettings": save_setting,
    "addUsersToRoom": add_people,
    "addUserToRoom": lambda call, params: add_people(
        call, [{"rid": text(params, 0, "rid"), "users": [text(params, 0, "username")]}]
    ),
    "removeUserFromRoom": remove_person,
    "createChannel": create("channels", "channel"),
    "createPrivateGroup": create("groups", "group"),
    "createDirectMessage": create_direct,
    "spotlight": lambda call, params: call("GET", "spotlight", {"query": text(params, 0)}),
    "browseChannels": lambda call, params: call(
        "GET", "directory", {"text": "", "type": "channels", **given(params, 0)}
    ),
    "readMessages": nothing,
    "stream-notify-room": nothing,
    "setUserStatus": lambda call, params: (
        call("POST", "users.setStatus", {"status": text(params, 0)}) and None
    ),
    **{
        f"UserPresence:{name}": nothing
        for name in ("online", "away", "setDefaultStatus", "connect", "ping")
    },
}
"""By the name that DDP gives it."""
