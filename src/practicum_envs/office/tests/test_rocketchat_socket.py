"""RocketChat's web socket: DDP as its clients speak it, and the frames below it."""

import hashlib
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from practicum_envs.office.office_client import Office
from practicum_envs.office.services.web_socket import (
    BINARY,
    CLOSE,
    MESSAGE_LIMIT,
    TEXT,
    TOO_BIG,
    WAITING_BYTES,
    FrameReader,
    SocketEnds,
    WebSocket,
    frame,
    unmasked,
)
from practicum_envs.office.tests.serving_companies import Served

WAIT_S = 120.0


class Client:
    """A DDP client over a library's web socket."""

    def __init__(self, served: Served) -> None:
        sockets = pytest.importorskip("websockets.sync.client", reason="needs the extra serve")
        address = served.url(3000).replace("http:", "ws:") + "/websocket"
        self._open = ExitStack()
        self.line = self._open.enter_context(sockets.connect(address))
        self.told: list[dict[str, Any]] = []
        self._number = 0
        self.send({"msg": "connect", "version": "1", "support": ["1"]})
        self.wait(lambda one: one.get("msg") == "connected")

    def close(self) -> None:
        self._open.close()

    def send(self, message: dict[str, Any]) -> None:
        self.line.send(json.dumps(message))

    def wait(self, is_it: Any) -> dict[str, Any]:
        """The next message of a kind; changes that come before are kept in `told`."""
        while True:
            found: dict[str, Any] = json.loads(self.line.recv(WAIT_S))
            if is_it(found):
                return found
            if found.get("msg") == "changed":
                self.told.append(found)

    def call(self, method: str, *params: Any) -> dict[str, Any]:
        self._number += 1
        number = str(self._number)
        self.send({"msg": "method", "method": method, "id": number, "params": list(params)})
        return self.wait(lambda one: one.get("id") == number and one["msg"] == "result")

    def log_in(self, name: str, password: str = "theagentcompany") -> dict[str, Any]:
        digest = hashlib.sha256(password.encode()).hexdigest()
        secret = {"digest": digest, "algorithm": "sha-256"}
        return self.call("login", {"user": {"username": name}, "password": secret})

    def subscribe(self, name: str, event: str) -> dict[str, Any]:
        self._number += 1
        number = f"s{self._number}"
        self.send({"msg": "sub", "id": number, "name": name, "params": [event, False]})
        return self.wait(lambda one: number in one.get("subs", ()) or (one.get("id") == number))

    def next_change(self, stream: str) -> Any:
        kept = [one for one in self.told if one["collection"] == stream]
        if kept:
            self.told.remove(kept[0])
            return kept[0]["fields"]["args"]
        found = self.wait(lambda one: one.get("collection") == stream and one["msg"] == "changed")
        return found["fields"]["args"]


@pytest.fixture
def client(served: Served) -> Iterator[Client]:
    made = Client(served)
    made.log_in("theagentcompany")
    yield made
    made.close()


def test_messages_are_told_as_they_are_written_changed_and_deleted(
    client: Client, office: Office
) -> None:
    room = client.call("getRoomIdByNameOrId", "sales")["result"]
    assert client.subscribe("stream-room-messages", room)["msg"] == "ready"
    client.subscribe("stream-notify-room", f"{room}/deleteMessage")
    ann = office.as_user("ann_lee")
    said = ann.rocketchat("POST", "chat.postMessage", {"channel": "#sales", "text": "Hello ü"})
    [message] = client.next_change("stream-room-messages")
    assert (message["msg"], message["u"]["username"]) == ("Hello ü", "ann_lee")
    assert message["ts"]["$date"] > 10**12
    number = said["message"]["_id"]
    client.call("setReaction", "tada", number)
    [message] = client.next_change("stream-room-messages")
    assert message["reactions"] == {":tada:": {"usernames": ["theagentcompany"]}}
    ann.rocketchat("POST", "chat.delete", {"msgId": number})
    assert client.next_change("stream-notify-room") == [{"_id": number}]
    office.rocketchat("POST", "chat.postMessage", {"channel": "#general", "text": "elsewhere"})
    own = {"rid": room, "msg": "Mine", "_id": "abcdefgh12345678"}
    assert client.call("sendMessage", own)["result"]["_id"] == "abcdefgh12345678"
    assert [m["msg"] for m in client.next_change("stream-room-messages")] == ["Mine"]
    assert "error" in client.call("sendMessage", own)


def test_what_others_do_not_see_is_not_told(served: Served, office: Office) -> None:
    bo = Client(served)
    assert bo.log_in("bo_cruz", "wrong")["error"]["error"] == 403
    assert bo.subscribe("stream-room-messages", "x")["msg"] == "nosub"
    bo.log_in("bo_cruz")
    group = office.as_user("ann_lee").rocketchat("GET", "groups.info", {"roomName": "board"})
    room = group["group"]["_id"]
    assert bo.subscribe("stream-room-messages", room)["msg"] == "nosub"
    bo.subscribe("stream-room-messages", "__my_messages__")
    ann = office.as_user("ann_lee")
    ann.rocketchat("POST", "chat.postMessage", {"channel": "board", "text": "secret"})
    ann.rocketchat("POST", "chat.postMessage", {"channel": "@bo_cruz", "text": "for you"})
    message, more = bo.next_change("stream-room-messages")
    assert (message["msg"], more["roomType"]) == ("for you", "d")
    me = bo.call("rooms/get")["result"]
    assert "board" not in [one.get("name") for one in me]
    bo.close()


def test_colleagues_answer_over_the_socket(client: Client) -> None:
    room = client.call("createDirectMessage", "cy_holm")["result"]["rid"]
    client.subscribe("stream-room-messages", room)
    client.call("sendMessage", {"rid": room, "msg": "What is the budget?"})
    texts = [client.next_change("stream-room-messages")[0]["msg"] for _ in range(2)]
    assert texts == ["What is the budget?", "It is $500."]
    found = client.call("loadHistory", room, None, 10)["result"]["messages"]
    assert [one["msg"] for one in found] == texts[::-1]


def test_rooms_are_made_and_changed(client: Client, office: Office) -> None:
    room = client.call("createChannel", "plans", ["ann_lee"])["result"]["rid"]
    client.call("saveRoomSettings", room, "roomTopic", "Plans")
    ann = office.rocketchat("GET", "users.info", {"username": "ann_lee"})["user"]["_id"]
    assert client.call("addRoomModerator", room, ann)["result"] is True
    assert client.call("addUsersToRoom", {"rid": room, "users": ["bo_cruz"]})["result"] is True
    found = office.rocketchat("GET", "channels.info", {"roomName": "plans"})["channel"]
    assert found["topic"] == "Plans"
    people = client.call("getUsersOfRoom", room, True)["result"]
    assert [one["username"] for one in people["records"]] == [
        *("ann_lee", "bo_cruz", "theagentcompany"),
    ]
    assert client.call("spotlight", "pla")["result"]["rooms"][0]["name"] == "plans"


def test_what_is_not_there_is_refused_by_name(client: Client) -> None:
    said = client.call("livechat:getAgentData")["error"]["reason"]
    assert said == "RocketChat's method 'livechat:getAgentData' is not part of this company"
    refused = client.subscribe("stream-livechat-room", "x")
    assert "stream-livechat-room x" in refused["error"]["reason"]
    for odd in ("{", "[]", '{"msg": 1}', '{"msg": "method"}', '{"msg": "sub", "params": 3}', "x"):
        client.line.send(odd)
    client.send({"msg": "ping", "id": "7"})
    assert client.wait(lambda one: one.get("msg") == "pong")["id"] == "7"


def test_a_held_company_lets_every_client_go(client: Client, served: Served) -> None:
    exceptions = pytest.importorskip("websockets.exceptions")
    assert served.company.hold()
    with pytest.raises(exceptions.ConnectionClosed):
        client.wait(lambda _: False)


def test_a_plain_request_is_told_to_upgrade(office: Office) -> None:
    status, body, _ = office.request("rocketchat", "GET", "/websocket")
    assert status == 426
    assert b"Upgrade" in body
    asks = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "8"}
    status, _, headers = office.request("rocketchat", "GET", "/websocket", headers=asks)
    assert (status, headers["sec-websocket-version"]) == (426, "13")


# Frames.

MASK = b"\x01\x02\xf3\x04"


def client_frame(opcode: int, content: bytes, *, is_last: bool = True) -> bytes:
    """As a server's frame, masked."""
    plain = frame(opcode, content)
    head = bytearray(plain[: len(plain) - len(content)])
    head[0] = opcode | 0x80 * is_last
    head[1] |= 0x80
    return bytes(head) + MASK + unmasked(content, MASK)


@given(
    st.lists(st.tuples(st.sampled_from([TEXT, BINARY]), st.lists(st.binary(), min_size=1))),
    st.lists(st.integers(0, 2000)),
)
@settings(deadline=None)
def test_messages_are_whole_however_they_were_cut(
    messages: list[tuple[int, list[bytes]]], cuts: list[int]
) -> None:
    sent = b""
    for kind, parts in messages:
        for at, part in enumerate(parts):
            sent += client_frame(0 if at else kind, part, is_last=at == len(parts) - 1)
    reader, found, at = FrameReader(), [], 0
    for cut in [*sorted(cut for cut in cuts if cut < len(sent)), len(sent)]:
        found += reader.feed(sent[at:cut])
        at = cut
    assert found == [(kind, b"".join(parts)) for kind, parts in messages]


@given(st.binary(max_size=300))
def test_any_bytes_are_a_message_or_the_end(data: bytes) -> None:
    reader = FrameReader()
    try:
        for _, content in reader.feed(data):
            assert len(content) <= len(data)
    except SocketEnds:
        assert data


@pytest.mark.parametrize("size", [0, 125, 126, 65_535, 65_536])
def test_sizes_are_written_as_the_standard_says(size: int) -> None:
    frames = pytest.importorskip("websockets.frames", reason="needs the extra serve")
    content = bytes(size)
    assert frame(TEXT, content) == frames.Frame(frames.Opcode.TEXT, content).serialize(mask=False)
    sent = frames.Frame(frames.Opcode.TEXT, content).serialize(mask=True)
    assert FrameReader().feed(sent) == [(TEXT, content)]


def test_a_client_that_reads_nothing_keeps_nobody_waiting_and_is_let_go() -> None:
    ours, theirs = socket.socketpair()
    ours.settimeout(WAIT_S)
    line = WebSocket(ours, WAIT_S)
    thread = threading.Thread(target=line.run, args=(lambda text: None,))
    thread.start()
    for _ in range(64):
        line.put("x" * WAITING_BYTES)  # returns at once, though nobody reads
    with theirs:
        taken = b""
        while not taken.endswith(frame(CLOSE, TOO_BIG.to_bytes(2, "big"))):
            taken = (taken + theirs.recv(1 << 16))[-100:]
        thread.join(WAIT_S)
    ours.close()
    assert not thread.is_alive()


def test_a_message_too_long_is_not_waited_for() -> None:
    head = bytes([0x82, 0xFF]) + (MESSAGE_LIMIT + 1).to_bytes(8, "big")
    with pytest.raises(SocketEnds, match="1009"):
        FrameReader().feed(head)
