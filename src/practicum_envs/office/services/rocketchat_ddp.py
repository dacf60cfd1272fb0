"""RocketChat's web socket at /websocket: DDP, as its own clients speak it.

A method is a call of the REST API by the account that logged in, so that both know the same and
refuse the same. A subscription is told what happens in the rooms that its account may read.
"""

import json
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from typing import Any

from practicum_envs.office.chat_model import Chat
from practicum_envs.office.company_state import Document
from practicum_envs.office.services.rocketchat_methods import METHODS
from practicum_envs.office.services.rocketchat_views import may_read, room_view
from practicum_envs.office.services.web import Refused, Request, Response

SILENT = frozenset(
    [
        *("meteor.loginServiceConfiguration", "meteor_autoupdate_clientVersions", "userData"),
        *("activeUsers", "stream-notify-all", "stream-notify-logged", "stream-user-presence"),
        *("stream-roles", "stream-importers", "stream-apps"),
    ]
)
"""Subscriptions that clients make and about which nothing happens here."""
ROOM_EVENTS = frozenset(["deleteMessage", "typing", "user-activity"])
USER_EVENTS = frozenset(
    [
        *("rooms-changed", "subscriptions-changed", "message", "notification", "otr", "webrtc"),
        *("userData", "force_logout", "banners", "video-conference", "calendar", "uiInteraction"),
    ]
)
TIMES = frozenset(["ts", "_updatedAt", "editedAt", "tlm", "lm", "createdAt", "lastLogin"])
"""Fields with a time, which DDP writes as milliseconds."""
MY_MESSAGES = "__my_messages__"


class Conversation:
    """What one client said so far: who it is, and what it wants to be told."""

    def __init__(
        self,
        opening: Request,
        answer: Callable[[Request], Response],
        put: Callable[[str], None],
    ) -> None:
        self._opening = opening
        self._answer = answer
        self._put = put
        self._chat = Chat(opening.company)
        self._token = self._user_id = ""
        self._wanted: dict[str, tuple[str, str]] = {}
        """Stream and event by the id of the subscription."""
        self.say({"server_id": "0"})
        with opening.company.lock:
            opening.company.chat_listeners.append(self._happened)

    def close(self) -> None:
        """Be told nothing any more."""
        with self._opening.company.lock:
            self._opening.company.chat_listeners.remove(self._happened)

    def say(self, message: Document) -> None:
        """Send a message."""
        self._put(json.dumps(message))

    def hear(self, text: str) -> None:
        """Answer a message."""
        try:
            heard = json.loads(text)
        except (ValueError, RecursionError):
            heard = None
        if not isinstance(heard, dict):
            self.say({"msg": "error", "reason": "Bad request"})
            return
        kinds = {
            "connect": self._connect,
            "ping": self._ping,
            "method": self._method,
            "sub": self._subscribe,
            "unsub": self._unsubscribe,
        }
        kind = heard.get("msg")
        if kind in ("pong", None):
            return
        answer = kinds.get(kind) if isinstance(kind, str) else None
        if answer is None:
            self.say({"msg": "error", "reason": "Bad request", "offendingMessage": heard})
        else:
            answer(heard)

    def _connect(self, heard: Document) -> None:
        if heard.get("version") in ("1", "pre2", "pre1"):
            self.say({"msg": "connected", "session": self._opening.company.secret("random")[:17]})
        else:
            self.say({"msg": "failed", "version": "1"})

    def _ping(self, heard: Document) -> None:
        self.say({"msg": "pong", **({"id": heard["id"]} if "id" in heard else {})})

    # Methods.

    def _method(self, heard: Document) -> None:
        number, params = heard.get("id"), heard.get("params")
        answer: Document = {"msg": "result", "id": number}
        try:
            name = str(heard.get("method"))
            method = METHODS.get(name)
            if method is None:
                said = f"RocketChat's method '{name[:100]}' is not part of this company"
                raise Refused(404, said)
            found = method(self._call, params if isinstance(params, list) else [])
            if name in ("login", "logout"):
                self._token, self._user_id = found.pop("authToken", ""), found.get("id", "")
                if self._user_id:
                    fields = {"username": found.pop("username")}
                    added = {"collection": "users", "id": self._user_id, "fields": fields}
                    self.say({"msg": "added", **added})
            answer["result"] = as_ejson(found)
        except Refused as refused:
            answer["error"] = error_of(refused)
        except RecursionError:
            answer["error"] = error_of(Refused(400, "The message is nested too deeply"))
        self.say(answer)
        self.say({"msg": "updated", "methods": [number]})

    def _call(self, method: str, route: str, fields: Document) -> Document:
        """A call of the REST API; raises what it refuses."""
        opening = self._opening
        headers = {"content-type": "application/json"}
        if self._token:
            headers |= {"x-auth-token": self._token, "x-user-id": self._user_id}
        is_query = method == "GET"
        response = self._answer(
            Request(
                method=method,
                path=f"/api/v1/{route}",
                query={name: str(value) for name, value in fields.items()} if is_query else {},
                lists={},
                headers=headers,
                body=b"" if is_query else json.dumps(fields).encode(),
                company=opening.company,
                base_url=opening.base_url,
            )
        )
        found: Document = json.loads(response.body or b"{}")
        if response.status >= 400 or found.get("success") is False:
            said = str(found.get("error") or found.get("message") or "Error")
            raise Refused(response.status, said, kind=found.get("errorType"))
        return found

    # Subscriptions.

    def _subscribe(self, heard: Document) -> None:
        number, name, params = str(heard.get("id")), str(heard.get("name")), heard.get("params")
        event = str(params[0]) if isinstance(params, list) and params else ""
        try:
            with self._opening.company.lock:
                self._opening.company.grow(len(number) + len(name) + len(event))
            self._require_stream(name, event)
        except Refused as refused:
            self.say({"msg": "nosub", "id": number, "error": error_of(refused)})
            return
        with self._opening.company.lock:
            self._wanted[number] = (name, event)
        self.say({"msg": "ready", "subs": [number]})

    def _require_stream(self, name: str, event: str) -> None:
        """Refuse what nobody here tells of, and what this account may not know."""
        if name in SILENT:
            return
        place, _, kind = event.rpartition("/")
        is_room = name == "stream-room-messages" or (
            name == "stream-notify-room" and kind in ROOM_EVENTS
        )
        if not is_room and not (name == "stream-notify-user" and kind in USER_EVENTS):
            said = f"RocketChat's subscription '{name} {event}'"[:200]
            raise Refused(404, f"{said} is not part of this company")
        if not self._user_id:
            raise Refused(401, "You must be logged in to do this.")
        if name == "stream-notify-user" and place != self._user_id:
            raise Refused(403, "Not allowed")
        if is_room and event != MY_MESSAGES:
            self._call("GET", "rooms.info", {"roomId": place or event})

    def _unsubscribe(self, heard: Document) -> None:
        number = str(heard.get("id"))
        with self._opening.company.lock:
            self._wanted.pop(number, None)
        self.say({"msg": "nosub", "id": number})

    def _happened(self, message: Document, is_gone: bool) -> None:
        """A message was written, changed or deleted; called by whoever did it, with the lock."""
        with suppress(RecursionError):  # nobody's request fails because it cannot be told here
            self._tell(message, is_gone)

    def _tell(self, message: Document, is_gone: bool) -> None:
        room = self._chat.rooms.get(message["rid"])
        user = self._chat.users.get(self._user_id)
        if room is None or user is None or not may_read(user, room):
            return
        is_member = user["username"] in room["members"]
        for stream, event in dict.fromkeys(self._wanted.values()):
            place, _, kind = event.rpartition("/")
            args: list[Any] = []
            if stream == "stream-room-messages" and not is_gone:
                if event == room["_id"]:
                    args = [message]
                elif event == MY_MESSAGES and is_member:
                    more = {"roomParticipant": True, "roomType": room["t"]}
                    args = [message, {**more, "roomName": room.get("name", "")}]
            elif (stream, kind) == ("stream-notify-room", "deleteMessage"):
                args = [{"_id": message["_id"]}] if is_gone and place == room["_id"] else []
            elif stream == "stream-notify-user" and is_member and kind.endswith("s-changed"):
                args = ["updated", {**room_view(self._chat, room), "rid": room["_id"]}]
            if args:
                fields = {"eventName": event, "args": as_ejson(args)}
                self.say({"msg": "changed", "collection": stream, "id": "id", "fields": fields})


def error_of(refused: Refused) -> Document:
    """An error in Meteor's shape."""
    kind = refused.extra.get("kind") or refused.status
    said = refused.message
    return {
        "isClientSafe": True,
        "error": kind,
        "reason": said,
        "message": f"{said} [{kind}]",
        "errorType": "Meteor.Error",
    }


def as_ejson(value: Any) -> Any:
    """A record of the REST API as DDP writes it.

    >>> as_ejson([{"ts": "1970-01-01T00:00:01.000Z", "msg": "hi"}])
    [{'ts': {'$date': 1000}, 'msg': 'hi'}]
    """
    if isinstance(value, list):
        return [as_ejson(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {name: _as_time(one) if name in TIMES else as_ejson(one) for name, one in value.items()}


def _as_time(value: Any) -> Any:
    try:
        at = datetime.fromisoformat(str(value).replace("Z", "+00:00"))
    except ValueError:
        return as_ejson(value)
    return {"$date": round(at.timestamp() * 1000)}
