"""How RocketChat shows its records, and finds those that a request names."""

import json
import re
from typing import Any

from practicum_envs.office.chat_model import Chat
from practicum_envs.office.company_state import Document
from practicum_envs.office.services.absent import absent
from practicum_envs.office.services.web import Refused, Request, Response

HIDDEN = ("members", "owners", "moderators", "leaders", "password")
PAGE = 50
"""Entries of a list where no `count` is given."""
KEYS = {"channels": "channel", "groups": "group", "im": "room", "dm": "room"}
"""The name of a room in an answer, by the name of its routes."""
PLAIN = re.compile(r"\^?(?:[\w @-]|\\\.)*\$?")
"""Regular expressions that are a text, at the start or the end where they say so."""
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
    """An answer with a page of a list, narrowed by `query` and in the order of `sort`."""
    for name, wanted in asked(request, "query").items():
        if name.startswith("$"):
            raise absent("RocketChat", f"query by {name[:100]}")
        found = [one for one in found if is_like(values_at(one, name), wanted)]
    page, facts = listed(in_order(request, found), request)
    return success(**{key: page}, **facts)


def asked(request: Request, name: str) -> Document:
    """A field that has JSON; empty where it is not given."""
    said = request.text(name).strip()
    try:
        found = json.loads(said) if said else {}
    except (ValueError, RecursionError):
        raise Refused(400, f"{name} is not valid JSON [error-invalid-{name}]") from None
    if not isinstance(found, dict):
        raise Refused(400, f"{name} must be an object [error-invalid-{name}]")
    return found


def values_at(record: Any, name: str) -> list[Any]:
    """What a record has under a name such as `emails.address`; of a list, what each entry has."""
    found = [record]
    for part in name.split("."):
        inner = [one[part] for one in found if isinstance(one, dict) and part in one]
        found = [one for value in inner for one in (value if isinstance(value, list) else [value])]
    return found


def is_like(found: list[Any], wanted: Any) -> bool:
    """Whether one of some values is what a query wants, as MongoDB understands it."""
    if not isinstance(wanted, dict) or not any(str(one).startswith("$") for one in wanted):
        return wanted in found
    for operator, value in wanted.items():
        if operator == "$in" and isinstance(value, list):
            is_so = any(one in value for one in found)
        elif operator == "$nin" and isinstance(value, list):
            is_so = not any(one in value for one in found)
        elif operator == "$ne":
            is_so = value not in found
        elif operator == "$exists":
            is_so = bool(found) == bool(value)
        elif operator == "$regex" and PLAIN.fullmatch(str(value)):
            is_so = any(fits(str(value), str(one)) for one in found)
        elif operator != "$options":
            raise absent("RocketChat", f"query by {operator} {value}"[:200])
        else:
            is_so = True
        if not is_so:
            return False
    return True


def fits(pattern: str, text: str) -> bool:
    """Whether a text has what a plain pattern says, whatever the case.

    >>> fits("^ann", "Ann Lee"), fits("^lee", "Ann Lee"), fits("lee$", "Ann Lee")
    (True, False, True)
    """
    word = pattern.removeprefix("^").removesuffix("$").replace("\\", "").lower()
    at_start, at_end = pattern.startswith("^"), pattern.endswith("$")
    text = text.lower()
    if at_start and at_end:
        return text == word
    if at_start or at_end:
        return text.startswith(word) if at_start else text.endswith(word)
    return word in text


def has(text: str, *places: object) -> bool:
    """Whether a text is in one of these, whatever the case."""
    return any(text.lower() in str(place or "").lower() for place in places)


def in_order(request: Request, found: list[Any], default: str = "") -> list[Any]:
    """A list in the order of the field `sort`, such as `{"name": 1}`."""
    wanted = asked(request, "sort") or ({default: 1} if default else {})
    for name, way in reversed(wanted.items()):
        keyed = [(sort_key(one, name), one) for one in found]
        keyed.sort(key=lambda pair: pair[0], reverse=str(way) == "-1")
        found = [one for _, one in keyed]
    return found


def sort_key(record: Document, name: str) -> tuple[float, str]:
    """Numbers by their size, all else as text whatever the case."""
    value = next(iter(values_at(record, name)), "")
    return (value, "") if isinstance(value, int | float) else (0.0, str(value).lower())


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
