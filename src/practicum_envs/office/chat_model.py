"""`Chat`: the state of RocketChat, and what may happen to it.

The routes, the seed and the colleagues all act through it. Records have RocketChat's own fields;
`members`, `owners`, `moderators` and `leaders` of a room are lists of usernames.
"""

from collections.abc import Callable, Iterable
from typing import Any

from practicum_envs.office.company_state import Company, Document
from practicum_envs.office.services.web import Refused

MESSAGE_LIMIT = 5000
"""Characters of a message, RocketChat's own default."""
ROLES = {"owner": "owners", "moderator": "moderators", "leader": "leaders"}


class Chat:
    """RocketChat's state in a company."""

    def __init__(self, company: Company) -> None:
        self.company = company
        self.data = company.part("rocketchat")
        self.users: dict[str, Document] = self.data["users"]
        self.rooms: dict[str, Document] = self.data["rooms"]
        self.messages: dict[str, list[Document]] = self.data["messages"]

    # People.

    def user(self, name_or_id: str) -> Document | None:
        """A user by id or by username."""
        found = self.users.get(name_or_id)
        if found is not None:
            return found
        return next((u for u in self.users.values() if u["username"] == name_or_id), None)

    def add_user(self, username: str, name: str, **more: Any) -> Document:
        """A new account."""
        user: Document = {
            "_id": self.company.chat_id("user"),
            "createdAt": self.company.timestamp(),
            "username": username,
            "name": name,
            "nameInsensitive": name.lower(),
            "emails": [{"address": more.get("email", ""), "verified": True}],
            "type": "user",
            "status": "online",
            "active": True,
            "roles": more.get("roles", ["user"]),
            "bio": more.get("bio", ""),
            "utcOffset": 0,
            "statusText": "",
            "password": more.get("password", ""),
        }
        self.users[user["_id"]] = user
        return user

    def remove_user(self, user: Document) -> None:
        """Delete an account; what it wrote in direct messages goes with it."""
        del self.users[user["_id"]]
        for room in list(self.rooms.values()):
            if user["username"] in room["members"]:
                if room["t"] == "d":
                    self.remove_room(room)
                else:
                    self._forget(room, user["username"])

    # Rooms.

    def room(self, name_or_id: str, kinds: str = "cpd") -> Document | None:
        """A room by id or by name."""
        found = self.rooms.get(name_or_id)
        if found is None:
            named = (r for r in self.rooms.values() if r.get("name") == name_or_id)
            found = next((r for r in named if r["t"] in kinds), None)
        return found if found is not None and found["t"] in kinds else None

    def rooms_of(self, kinds: str, username: str | None = None) -> list[Document]:
        """Rooms of some kinds, of a member where one is given, by name."""
        found = [
            room
            for room in self.rooms.values()
            if room["t"] in kinds and (username is None or username in room["members"])
        ]
        return sorted(found, key=lambda room: str(room.get("name", room["_id"])))

    def create_room(
        self, name: str, maker: Document, members: Iterable[str] = (), *, is_private: bool = False
    ) -> Document:
        """A new channel, or a private group; its maker owns it."""
        if self.room(name, "cp") is not None:
            raise Refused(
                400,
                f"A channel with name '{name}' exists [error-duplicate-channel-name]",
                errorType="error-duplicate-channel-name",
            )
        room: Document = {
            "_id": self.company.chat_id("room"),
            "name": name,
            "fname": name,
            "t": "p" if is_private else "c",
            "u": {"_id": maker["_id"], "username": maker["username"], "name": maker["name"]},
            "members": [maker["username"]],
            "owners": [maker["username"]],
            "moderators": [],
            "leaders": [],
            "ts": self.company.timestamp(),
            "ro": False,
            "default": name == "general",
            "topic": "",
            "description": "",
            "announcement": "",
            "archived": False,
        }
        self.rooms[room["_id"]] = room
        self.messages[room["_id"]] = []
        for username in members:
            if username != maker["username"] and self.user(username) is not None:
                self.join(room, username, maker)
        return room

    def direct_room(self, usernames: Iterable[str]) -> Document | None:
        """The room in which exactly these talk to each other, if they ever did."""
        wanted = sorted(set(usernames))
        direct = (room for room in self.rooms.values() if room["t"] == "d")
        return next((room for room in direct if sorted(room["members"]) == wanted), None)

    def open_direct(self, usernames: Iterable[str]) -> Document:
        """The room in which these talk to each other; a new one where there was none."""
        names = list(dict.fromkeys(usernames))
        found = self.direct_room(names)
        if found is not None:
            return found
        ids = sorted(user["_id"] for user in (self.user(name) for name in names) if user)
        room: Document = {
            "_id": "".join(ids) if len(ids) <= 2 else self.company.chat_id("room"),
            "t": "d",
            "usernames": names,
            "uids": ids,
            "members": names,
            "owners": [],
            "moderators": [],
            "leaders": [],
            "ts": self.company.timestamp(),
        }
        self.rooms[room["_id"]] = room
        self.messages[room["_id"]] = []
        return room

    def remove_room(self, room: Document) -> None:
        """Delete a room and all that was said in it."""
        del self.rooms[room["_id"]]
        del self.messages[room["_id"]]

    def join(self, room: Document, username: str, by: Document | None = None) -> None:
        """Make someone a member; `by` is who invited."""
        if username in room["members"]:
            return
        room["members"].append(username)
        if by is None:
            self.note(room, "uj", username, username)
        else:
            self.note(room, "au", username, by["username"])

    def leave(self, room: Document, username: str, by: Document | None = None) -> None:
        """End a membership; `by` is who removed them, where it was not themselves."""
        if username not in room["members"]:
            raise Refused(400, "User is not in this room [error-user-not-in-room]")
        if room["owners"] == [username] and len(room["members"]) > 1:
            raise Refused(
                400,
                "You are the last owner. Please set new owner before leaving the room. "
                "[error-you-are-last-owner]",
                errorType="error-you-are-last-owner",
            )
        self._forget(room, username)
        self.note(
            room, "ul" if by is None else "ru", username, (by or {}).get("username", username)
        )

    def set_role(self, room: Document, role: str, username: str, by: Document, has: bool) -> None:
        """Give or take a role in a room: `owner`, `moderator` or `leader`."""
        holders = room[ROLES[role]]
        if username not in room["members"]:
            raise Refused(400, "User is not in this room [error-user-not-in-room]")
        if (username in holders) == has:
            state = "already" if has else "not"
            kind = f"error-user-{state}-{role}"
            raise Refused(400, f"User is {state} an {role} [{kind}]", errorType=kind)
        if role == "owner" and not has and len(holders) == 1:
            kind = "error-remove-last-owner"
            raise Refused(400, f"This is the last owner. [{kind}]", errorType=kind)
        if has:
            holders.append(username)
        else:
            holders.remove(username)
        kind = "subscription-role-added" if has else "subscription-role-removed"
        self.note(room, kind, username, by["username"], role=role)

    def _forget(self, room: Document, username: str) -> None:
        for name in ("members", *ROLES.values()):
            if username in room[name]:
                room[name].remove(username)

    # Messages.

    def post(self, room: Document, sender: Document, text: str, **more: Any) -> Document:
        """Say something in a room."""
        if len(text) > MESSAGE_LIMIT:
            kind = "error-message-size-exceeded"
            raise Refused(
                400, f"Message size exceeds Message_MaxAllowedSize [{kind}]", errorType=kind
            )
        at = self.company.timestamp()
        message: Document = {
            "_id": self.company.chat_id("message"),
            "rid": room["_id"],
            "msg": text,
            "ts": at,
            "u": {"_id": sender["_id"], "username": sender["username"], "name": sender["name"]},
            "urls": [],
            "mentions": self._mentions(text),
            "channels": [],
            "md": [],
            "_updatedAt": at,
            **more,
        }
        self.messages[room["_id"]].append(message)
        if "tmid" in more:
            self._count_reply(room, message)
        self._tell(message)
        return message

    def changed(self, message: Document) -> None:
        """Note that a message is another one now."""
        message["_updatedAt"] = self.company.timestamp()
        self._tell(message)

    def remove_message(self, message: Document) -> None:
        """Delete a message."""
        self.messages[message["rid"]].remove(message)
        self._tell(message, is_gone=True)

    def _tell(self, message: Document, *, is_gone: bool = False) -> None:
        for listener in self.company.chat_listeners:
            listener(message, is_gone)

    def note(self, room: Document, kind: str, text: str, by: str, role: str | None = None) -> None:
        """A message of the system, such as that someone joined."""
        sender = self.user(by)
        if sender is not None:
            more = {} if role is None else {"role": role}
            self.post(room, sender, text, t=kind, groupable=False, **more)

    def message(self, message_id: str) -> Document | None:
        """A message by its id."""
        for said in self.messages.values():
            for message in said:
                if message["_id"] == message_id:
                    return message
        return None

    def newest_first(
        self, room: Document, keep: Callable[[Document], bool] = lambda _: True
    ) -> list[Document]:
        """What was said in a room."""
        return [message for message in reversed(self.messages[room["_id"]]) if keep(message)]

    def _mentions(self, text: str) -> list[Document]:
        words = {word.strip(".,:;!?()") for word in text.split() if word.startswith("@")}
        people = ((user["username"], user) for user in self.users.values())
        everyone = [{"_id": w, "username": w} for w in ("all", "here") if f"@{w}" in words]
        return everyone + [
            {"_id": user["_id"], "username": username, "name": user["name"], "type": "user"}
            for username, user in people
            if f"@{username}" in words
        ]

    def _count_reply(self, room: Document, reply: Document) -> None:
        parent = next((m for m in self.messages[room["_id"]] if m["_id"] == reply["tmid"]), None)
        if parent is None:
            self.messages[room["_id"]].remove(reply)
            raise Refused(400, "Invalid thread message [error-invalid-message]")
        parent["tcount"] = parent.get("tcount", 0) + 1
        parent["tlm"] = reply["ts"]
