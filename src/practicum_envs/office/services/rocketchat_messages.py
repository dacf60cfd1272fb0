"""RocketChat's messages: history, posting, changing, reactions, threads, files."""

import re
from datetime import datetime
from pathlib import Path

from practicum_envs.office.chat_model import Chat
from practicum_envs.office.company_state import UPLOADS, Document, written_time
from practicum_envs.office.folders import in_blocks
from practicum_envs.office.services.rocketchat_views import (
    is_admin,
    listed,
    may_read,
    paged,
    require_manager,
    success,
    wanted_room,
)
from practicum_envs.office.services.web import Refused, Request, Response, Router

routes = Router()
KIND = "{kind:channels|groups|im|dm}"
OWN_ID = re.compile("[0-9A-Za-z]{8,40}")
"""An id that a client may give its message."""
HISTORY = 20
"""Messages of a history where no `count` is given."""


@routes.route("GET", f"/api/v1/{KIND}.history")
def history(request: Request) -> Response:
    """What was said in a room, newest first, between `oldest` and `latest`."""
    chat = Chat(request.company)
    room = wanted_room(request, chat)
    oldest, latest = moment(request.text("oldest")), moment(request.text("latest"))
    inclusive = request.flag("inclusive")

    def is_within(message: Document) -> bool:
        at = str(message["ts"])
        if inclusive and at in (oldest, latest):
            return True
        return at > oldest and (not latest or at < latest) and "tmid" not in message

    found = chat.newest_first(room, is_within)
    offset, count = request.number("offset", 0), request.number("count", HISTORY)
    return success(messages=found[offset : offset + count] if count else found[offset:])


def moment(text: str) -> str:
    """A time in the form of messages, to compare with theirs; empty where none is given."""
    if not text:
        return ""
    try:
        return written_time(datetime.fromisoformat(text.replace("Z", "+00:00")).astimezone())
    except ValueError:
        raise Refused(400, f"{text} is no date [error-invalid-date]") from None


@routes.route("GET", f"/api/v1/{KIND}.messages")
@routes.route("GET", f"/api/v1/{KIND}.messages.others")
def messages(request: Request) -> Response:
    """What was said in a room, newest first, page by page."""
    chat = Chat(request.company)
    return paged(request, "messages", chat.newest_first(wanted_room(request, chat)))


@routes.route("POST", "/api/v1/chat.postMessage")
def post_message(request: Request) -> Response:
    """Say something to `#channel`, `@person`, or the room of an id."""
    chat = Chat(request.company)
    named = request.fields.get("roomId") or request.fields.get("channel")
    if not named:
        kind = "error-roomid-param-not-provided"
        raise Refused(
            400, f"The parameter 'roomId' or 'channel' is required [{kind}]", errorType=kind
        )
    several = named if isinstance(named, list) else [named]
    said: Document = {}
    for one in several:
        said = say(request, chat, target(request, chat, str(one)), request.text("text", "msg"))
    return success(ts=said["ts"], channel=str(named), message=said)


def target(request: Request, chat: Chat, named: str) -> Document:
    """The room that a message is for; direct messages begin by themselves."""
    if named.startswith("@"):
        user = chat.user(named[1:])
        if user is None:
            raise Refused(400, "The channel name provided is invalid [invalid-channel]")
        return chat.open_direct([request.user["username"], user["username"]])
    room = chat.room(named.lstrip("#"))
    if room is None:
        user = chat.user(named)
        if user is not None:
            return chat.open_direct([request.user["username"], user["username"]])
    if room is None or not may_read(request.user, room):
        raise Refused(400, "The channel name provided is invalid [invalid-channel]")
    return room


@routes.route("POST", "/api/v1/chat.sendMessage")
def send_message(request: Request) -> Response:
    """Say something in the room that the message names."""
    chat = Chat(request.company)
    given = request.fields.get("message")
    if not isinstance(given, dict) or not given.get("rid"):
        raise Refused(400, "The 'rid' property on the message object is missing.")
    room = chat.rooms.get(str(given["rid"]))
    if room is None or not may_read(request.user, room):
        raise Refused(400, "The room does not exist [error-invalid-room]")
    more = {name: given[name] for name in ("tmid", "attachments", "alias") if given.get(name)}
    own_id = given.get("_id")
    if isinstance(own_id, str) and OWN_ID.fullmatch(own_id):
        if chat.message(own_id) is not None:
            raise Refused(400, f"There is a message {own_id} already [error-duplicate-id]")
        more["_id"] = own_id
    return success(message=say(request, chat, room, str(given.get("msg", "")), **more))


def say(request: Request, chat: Chat, room: Document, text: str, **more: object) -> Document:
    """Post as the user of the request, and let colleagues answer."""
    name = request.user["username"]
    if room.get("archived"):
        raise Refused(400, "Room is archived [error-room-archived]")
    if room.get("ro") and not is_admin(request.user) and name not in room["owners"]:
        raise Refused(400, "You can't send messages because the room is readonly.")
    if name not in room["members"]:
        chat.join(room, name)
    for key in ("tmid", "attachments", "alias", "emoji", "avatar"):
        if request.fields.get(key) and key not in more:
            more[key] = request.fields[key]
    message = chat.post(room, request.user, text, **more)
    request.company.on_message(room, message)
    return message


def own_message(request: Request, chat: Chat) -> Document:
    """The message that a request names."""
    message = chat.message(request.text("msgId", "messageId"))
    if message is None or not may_read(request.user, chat.rooms[message["rid"]]):
        raise Refused(400, "No message found with that id [error-message-not-found]")
    return message


@routes.route("GET", "/api/v1/chat.getMessage")
def get_message(request: Request) -> Response:
    """One message."""
    return success(message=own_message(request, Chat(request.company)))


@routes.route("POST", "/api/v1/chat.update")
def update_message(request: Request) -> Response:
    """Change a message of one's own."""
    chat = Chat(request.company)
    message = own_message(request, chat)
    if message["u"]["_id"] != request.user["_id"] and not is_admin(request.user):
        raise Refused(400, "Message editing not allowed [error-action-not-allowed]")
    message["msg"] = request.text("text")
    message["editedBy"] = {"_id": request.user["_id"], "username": request.user["username"]}
    chat.changed(message)
    message["editedAt"] = message["_updatedAt"]
    return success(message=message)


@routes.route("POST", "/api/v1/chat.delete")
def delete_message(request: Request) -> Response:
    """Delete a message."""
    chat = Chat(request.company)
    message = own_message(request, chat)
    room = chat.rooms[message["rid"]]
    if message["u"]["_id"] != request.user["_id"]:
        require_manager(request, room)
    chat.remove_message(message)
    return success(_id=message["_id"], ts=request.company.timestamp(), message=message)


@routes.route("POST", "/api/v1/chat.react")
def react(request: Request) -> Response:
    """Add a reaction to a message, or take it back."""
    chat = Chat(request.company)
    message = own_message(request, chat)
    given = request.text("emoji", "reaction").strip(":")
    if not given:
        raise Refused(
            400, "The required 'emoji' param is missing. [error-emoji-param-not-provided]"
        )
    reactions = message.setdefault("reactions", {})
    names = reactions.setdefault(f":{given}:", {"usernames": []})["usernames"]
    name = request.user["username"]
    wanted = request.flag("shouldReact", name not in names)
    if wanted and name not in names:
        names.append(name)
    elif not wanted and name in names:
        names.remove(name)
    if not names:
        del reactions[f":{given}:"]
    chat.changed(message)
    return success()


@routes.route("POST", "/api/v1/chat.{what:pinMessage|unPinMessage|starMessage|unStarMessage}")
def mark_message(request: Request) -> Response:
    """Pin or star a message, or undo it."""
    chat = Chat(request.company)
    message = own_message(request, chat)
    what = request.parameters["what"].lower()
    if "pin" in what:
        message["pinned"] = not what.startswith("un")
        message["pinnedBy"] = {"_id": request.user["_id"], "username": request.user["username"]}
    else:
        stars = [one for one in message.get("starred", []) if one["_id"] != request.user["_id"]]
        own = [] if what.startswith("un") else [{"_id": request.user["_id"]}]
        message["starred"] = stars + own
    chat.changed(message)
    return success(message=message)


@routes.route(
    "GET", "/api/v1/chat.{what:getPinnedMessages|getStarredMessages|getMentionedMessages}"
)
def marked_messages(request: Request) -> Response:
    """The messages of a room that are pinned, starred by oneself, or mention oneself."""
    chat = Chat(request.company)
    own = request.user["_id"]
    tests = {
        "getPinnedMessages": lambda m: bool(m.get("pinned")),
        "getStarredMessages": lambda m: any(one["_id"] == own for one in m.get("starred", [])),
        "getMentionedMessages": lambda m: any(one["_id"] == own for one in m["mentions"]),
    }
    found = chat.newest_first(wanted_room(request, chat), tests[request.parameters["what"]])
    return paged(request, "messages", found)


@routes.route("GET", "/api/v1/{kind:channels}.getAllUserMentionsByChannel")
def mentions(request: Request) -> Response:
    """The messages of a channel that mention oneself."""
    chat = Chat(request.company)
    own = request.user["_id"]
    found = chat.newest_first(
        wanted_room(request, chat), lambda m: any(one["_id"] == own for one in m["mentions"])
    )
    return paged(request, "mentions", found)


@routes.route("GET", "/api/v1/chat.getThreadMessages")
def thread_messages(request: Request) -> Response:
    """The replies to a message, oldest first."""
    chat = Chat(request.company)
    parent = chat.message(request.text("tmid"))
    if parent is None or not may_read(request.user, chat.rooms[parent["rid"]]):
        raise Refused(400, "No thread found [error-invalid-message]")
    said = chat.messages[parent["rid"]]
    return paged(request, "messages", [m for m in said if m.get("tmid") == parent["_id"]])


@routes.route("GET", "/api/v1/chat.getThreadsList")
def threads_list(request: Request) -> Response:
    """The messages of a room that have replies."""
    chat = Chat(request.company)
    found = chat.newest_first(wanted_room(request, chat), lambda m: "tcount" in m)
    return paged(request, "threads", found)


@routes.route("GET", "/api/v1/chat.syncMessages")
def sync_messages(request: Request) -> Response:
    """What is new in a room since `lastUpdate`."""
    chat = Chat(request.company)
    since = moment(request.text("lastUpdate"))
    found = chat.newest_first(wanted_room(request, chat), lambda m: m["_updatedAt"] > since)
    return success(result={"updated": found, "deleted": []})


@routes.route("POST", "/api/v1/rooms.cleanHistory")
def clean_history(request: Request) -> Response:
    """Delete the messages between two times."""
    chat = Chat(request.company)
    room = wanted_room(request, chat)
    if room["t"] != "d":
        require_manager(request, room)
    oldest, latest = moment(request.text("oldest")), moment(request.text("latest"))
    said = chat.messages[room["_id"]]
    kept = [m for m in said if not oldest < m["ts"] < latest]
    chat.messages[room["_id"]] = kept
    return success(count=len(said) - len(kept))


@routes.route("POST", "/api/v1/rooms.upload/{rid}")
@routes.route("POST", "/api/v1/rooms.media/{rid}")
def upload(request: Request) -> Response:
    """Send a file into a room."""
    chat = Chat(request.company)
    room = chat.rooms.get(request.parameters["rid"])
    if room is None or not may_read(request.user, room):
        raise Refused(400, "Invalid room [error-invalid-room]")
    fields, files = request.form
    sent = files.get("file") or next(iter(files.values()), None)
    if sent is None:
        raise Refused(400, "File required [error-no-file]")
    request.company.require_room(in_blocks(len(sent.content)))
    file_id = request.company.chat_id("file")
    name = Path(sent.name).name or "file"
    (request.company.folder / UPLOADS / file_id).write_bytes(sent.content)
    file = {"_id": file_id, "name": name, "type": sent.content_type, "size": len(sent.content)}
    chat.data["files"][file_id] = {**file, "rid": room["_id"], "user": request.user["username"]}
    link = f"/file-upload/{file_id}/{name}"
    attachment = {
        "ts": request.company.timestamp(),
        "title": name,
        "title_link": link,
        "type": "file",
    }
    message = say(
        request,
        chat,
        room,
        str(fields.get("msg", "")),
        file=file,
        files=[file],
        attachments=[{**attachment, "description": str(fields.get("description", ""))}],
    )
    return success(message=message)


@routes.route("GET", "/file-upload/{id}/{name}")
def download(request: Request) -> Response:
    """A file that was sent into a room."""
    chat = Chat(request.company)
    file = chat.data["files"].get(request.parameters["id"])
    room = chat.rooms.get(file["rid"]) if file is not None else None
    if file is None or room is None or not may_read(request.user, room):
        raise Refused(404, "Not Found")
    path = request.company.folder / UPLOADS / file["_id"]
    return Response(file=path, content_type=file["type"])


@routes.route("GET", f"/api/v1/{KIND}.files")
def room_files(request: Request) -> Response:
    """The files that were sent into a room."""
    chat = Chat(request.company)
    room = wanted_room(request, chat)
    files = [file for file in chat.data["files"].values() if file["rid"] == room["_id"]]
    page, facts = listed(files, request)
    return success(files=page, **facts)
