"""RocketChat's searches: the directory, spotlight, autocompletion, messages of a room."""

from collections.abc import Callable

from practicum_envs.office.chat_model import Chat
from practicum_envs.office.company_state import Document
from practicum_envs.office.services.absent import ROCKETCHAT, absent
from practicum_envs.office.services.rocketchat_views import (
    asked,
    has,
    in_order,
    listed,
    may_read,
    paged,
    room_view,
    success,
    user_view,
    wanted_room,
)
from practicum_envs.office.services.web import Refused, Request, Response, Router

routes = Router()
MOST_FOUND = 5
"""People that spotlight shows."""


@routes.route("GET", "/api/v1/directory")
def directory(request: Request) -> Response:
    """Channels or people by a part of their name: `query={"text": "gen", "type": "channels"}`.

    Later servers take `text` and `type` as parameters of their own.
    """
    chat = Chat(request.company)
    query = asked(request, "query")
    text = str(query.get("text") or request.text("text"))
    kind = str(query.get("type") or request.text("type", default="channels"))
    if kind == "teams":
        raise absent("RocketChat", ROCKETCHAT["teams"])
    if kind not in ("channels", "users"):
        raise Refused(400, f"There is no directory of {kind} [error-invalid-type]")
    found = channels(chat, text) if kind == "channels" else people(chat, text)
    page, facts = listed(in_order(request, found, "name"), request)
    return success(result=page, **facts)


def channels(chat: Chat, text: str) -> list[Document]:
    """Public channels with a text in their name or topic."""
    word = text.lstrip("#")
    rooms = [one for one in chat.rooms_of("c") if has(word, one["name"], one["topic"])]
    return [{**room_view(chat, one), "createdAt": one["ts"]} for one in rooms]


def people(chat: Chat, text: str) -> list[Document]:
    """Accounts with a text in their names, address or words about them."""
    word = text.lstrip("@")
    found = [
        one
        for one in chat.users.values()
        if one["active"]
        and has(word, one["username"], one["name"], one["bio"], one["emails"][0]["address"])
    ]
    return [user_view(one) for one in found]


@routes.route("GET", "/api/v1/spotlight")
def spotlight(request: Request) -> Response:
    """People and channels by a part of their name; `@` and `#` narrow it to either."""
    chat = Chat(request.company)
    text = request.text("query")
    if not text and "query" not in request.fields:
        raise Refused(400, "The 'query' query param is required [error-invalid-params]")
    word = text.lstrip("#@")
    users: list[Document] = []
    rooms: list[Document] = []
    if not text.startswith("#"):
        shown = ("_id", "username", "name", "status", "statusText")
        found = (
            u for u in chat.users.values() if u["active"] and has(word, u["username"], u["name"])
        )
        ordered = sorted(found, key=lambda one: str(one["username"]))[:MOST_FOUND]
        users = [{name: one[name] for name in shown} for one in ordered]
    if not text.startswith("@"):
        seen = [
            r for r in chat.rooms_of("cp") if may_read(request.user, r) and has(word, r["name"])
        ]
        rooms = [{n: r[n] for n in ("_id", "name", "fname", "t")} for r in seen]
    return success(users=users, rooms=rooms)


@routes.route("GET", "/api/v1/users.autocomplete")
def users_autocomplete(request: Request) -> Response:
    """People for a field to fill: `selector={"term": "ann", "exceptions": []}`."""
    selector = asked(request, "selector")
    left_out = selector.get("exceptions") or []
    term = str(selector.get("term") or "")
    found = [
        {name: one[name] for name in ("_id", "username", "name", "status")}
        for one in sorted(Chat(request.company).users.values(), key=lambda u: str(u["username"]))
        if has(term, one["username"], one["name"]) and one["username"] not in left_out
    ]
    return success(items=found)


@routes.route("GET", "/api/v1/rooms.autocomplete.{what:channelAndPrivate|adminRooms}")
def rooms_autocomplete(request: Request) -> Response:
    """Rooms for a field to fill: `selector={"name": "gen"}`."""
    name = str(asked(request, "selector").get("name") or "")
    return success(items=rooms_named(request, Chat(request.company), name))


def rooms_named(request: Request, chat: Chat, word: str) -> list[Document]:
    """Channels, and groups that one may read, by a part of their name."""
    return [
        {key: room[key] for key in ("_id", "name", "fname", "t")}
        for room in chat.rooms_of("cp")
        if may_read(request.user, room) and has(word, room["name"])
    ]


Test = Callable[[Document], bool]


@routes.route("GET", "/api/v1/chat.search")
def search_messages(request: Request) -> Response:
    """The messages of a room with some text; `from:`, `mention:`, `has:` and `is:` narrow it."""
    chat = Chat(request.company)
    text = request.text("searchText")
    if not text:
        raise Refused(400, "The required 'searchText' param is missing [error-searchText-param]")
    room = wanted_room(request, chat)
    tests, words = [], []
    for word in text.split():
        test = narrowing(word, request.user)
        if test is None:
            words.append(word)
        else:
            tests.append(test)
    rest = " ".join(words)
    if rest.startswith("/") and rest.rstrip("i").endswith("/") and len(rest) > 2:
        raise absent("RocketChat", "search by regular expression")

    def is_found(message: Document) -> bool:
        return "t" not in message and has(rest, message["msg"]) and all(t(message) for t in tests)

    return paged(request, "messages", chat.newest_first(room, is_found))


def narrowing(word: str, user: Document) -> Test | None:
    """What a word such as `from:ann_lee` or `has:star` asks of a message; None for a plain word."""
    kind, _, value = word.partition(":")
    name = user["username"] if value == "me" else value.lstrip("@")
    own = user["_id"]
    simple: dict[str, Test] = {
        "has:star": lambda m: any(one["_id"] == own for one in m.get("starred", ())),
        "is:starred": lambda m: any(one["_id"] == own for one in m.get("starred", ())),
        "has:pin": lambda m: bool(m.get("pinned")),
        "is:pinned": lambda m: bool(m.get("pinned")),
        "has:url": lambda m: "http://" in m["msg"] or "https://" in m["msg"],
        "has:link": lambda m: "http://" in m["msg"] or "https://" in m["msg"],
        "has:file": lambda m: bool(m.get("file")),
    }
    if kind == "from" and value:
        return lambda m: bool(m["u"]["username"] == name)
    if kind in ("mention", "mentions") and value:
        return lambda m: any(one["username"] == name for one in m["mentions"])
    return simple.get(word)
