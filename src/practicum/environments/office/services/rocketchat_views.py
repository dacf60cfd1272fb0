"""How RocketChat shows its records, and finds those that a request names."""

from typing import Any

from practicum.environments.office.chat_model import Chat
from practicum.environments.office.company_state import Document
from practicum.environments.office.services.web import Refused, Request, Response

HIDDEN = ("members", "owners", "moderators", "leaders", "password")
PAGE = 50
"""Entries of a list where no `count` is given."""
KEYS = {"channels": "channel", "groups": "group", "im": "room", "dm": "room"}
"""The name of a room in an answer, by the name of its routes."""
KINDS = {"channels": "c", "groups": "p", "im": "d", "dm": "d"}


def success(**values: Any) -> Response:
    """An answer that says `success`."""
    return Response.json({**values, "success": True})


def is_admin(user: Document) -> bool:
    """Whether a user may do everything."""
    return "admin" in user["roles"]


def user_view(user: Document) -> Document:
    """A user as everyone sees it."""
    return {name: value for name, value in user.items() if name not in HIDDEN}


def room_view(chat: Chat, room: Document) -> Document:
    """A room as everyone sees it."""
    said = chat.messages[room["_id"]]
    shown = {name: value for name, value in room.items() if name not in HIDDEN}
    shown |= {"msgs": len(said), "usersCount": len(room["members"]), "sysMes": True}
    shown["_updatedAt"] = said[-1]["ts"] if said else room["ts"]
    if said:
        shown |= {"lm": said[-1]["ts"], "lastMessage": said[-1]}
    return shown


def listed(found: list[Any], request: Request) -> tuple[list[Any], Document]:
    """A page of a list, by `offset` and `count`, and what says so. A count of 0 means all."""
    offset = request.number("offset", 0)
    count = request.number("count", PAGE)
    page = found[offset:] if count == 0 else found[offset : offset + count]
    return page, {"count": len(page), "offset": offset, "total": len(found)}


def paged(request: Request, key: str, found: list[Any]) -> Response:
    """An answer with a page of a list."""
    page, facts = listed(found, request)
    return success(**{key: page}, **facts)


def wanted_user(request: Request) -> Document:
    """The user that a request names by `userId`, `username` or `user`."""
    named = request.text("userId", "username", "user")
    if not named:
        raise Refused(
            400,
            'The required "userId" or "username" param was not provided '
            "[error-user-param-not-provided]",
            errorType="error-user-param-not-provided",
        )
    user = Chat(request.company).user(named)
    if user is None:
        kind = "error-invalid-user"
        raise Refused(
            400,
            f'The required "userId" or "username" param provided does not match any users [{kind}]',
            errorType=kind,
        )
    return user


def wanted_room(request: Request, chat: Chat, kinds: str = "") -> Document:
    """The room that a request names by `roomId`, `roomName` or `username`.

    Direct messages may be asked for by the other user's id or name, as TheAgentCompany's graders
    do.
    """
    kinds = kinds or KINDS.get(request.parameters.get("kind", ""), "cpd")
    named = request.text("roomId", "roomName", "rid", "room_id")
    if kinds == "d":
        named = named or request.text("username")
    if not named:
        kind = "error-roomid-param-not-provided"
        raise Refused(
            400, f'The parameter "roomId" or "roomName" is required [{kind}]', errorType=kind
        )
    room = chat.room(named.lstrip("#") if "d" not in kinds else named, kinds)
    if room is None and "d" in kinds:
        other = chat.user(named.lstrip("@"))
        names = {request.user["username"], other["username"]} if other is not None else set()
        room = chat.direct_room(names) if names else None
        if room is None and other is not None:
            room = chat.open_direct([request.user["username"], other["username"]])
    if room is None or not may_read(request.user, room):
        kind = "error-room-not-found"
        raise Refused(
            400,
            'The required "roomId" or "roomName" param provided does not match any channel '
            f"[{kind}]",
            errorType=kind,
        )
    return room


def may_read(user: Document, room: Document) -> bool:
    """Whether a user sees what is said in a room; direct messages are for those in them."""
    if user["username"] in room["members"] or room["t"] == "c":
        return True
    return room["t"] == "p" and is_admin(user)


def require_manager(request: Request, room: Document) -> None:
    """Refuse whoever neither owns nor moderates a room."""
    name = request.user["username"]
    if not (is_admin(request.user) or name in room["owners"] or name in room["moderators"]):
        raise Refused(403, "Not allowed [error-not-allowed]", errorType="error-not-allowed")
