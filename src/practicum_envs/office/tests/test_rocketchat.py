"""RocketChat's API, by requests as its clients make them."""

import json
import socket
import urllib.error
import urllib.request

import pytest

from practicum_envs.office.office_client import PORTS, Office, OfficeError
from practicum_envs.office.tests.serving_companies import Served


def test_without_a_login_nothing_is_answered(office: Office) -> None:
    status, body, _ = office.request("rocketchat", "GET", "/api/v1/channels.list")
    assert status == 401
    assert json.loads(body) == {"status": "error", "message": "You must be logged in to do this."}


def test_a_wrong_password_is_refused(office: Office) -> None:
    with pytest.raises(OfficeError, match="401"):
        office.call("rocketchat", "POST", "/api/v1/login", {"user": "ann_lee", "password": "wrong"})


def test_history_is_newest_first_and_limited(office: Office) -> None:
    for number in range(30):
        office.rocketchat("POST", "chat.postMessage", {"channel": "#sales", "text": str(number)})
    room = office.rocketchat("GET", "channels.info", {"roomName": "sales"})["channel"]["_id"]
    found = office.rocketchat("GET", "channels.history", {"roomId": room})["messages"]
    assert [message["msg"] for message in found[:2]] == ["29", "28"]
    assert len(found) == 20
    later = {"roomId": room, "oldest": found[1]["ts"], "count": 50}
    newest = office.rocketchat("GET", "channels.history", later)["messages"]
    assert [message["msg"] for message in newest] == ["29"]


def test_direct_history_is_found_by_the_other_users_id(office: Office) -> None:
    office.rocketchat("POST", "chat.postMessage", {"channel": "@ann_lee", "text": "Hello"})
    user = office.rocketchat("GET", "users.info", {"username": "ann_lee"})["user"]["_id"]
    found = office.rocketchat("GET", "im.history", {"roomId": user})["messages"]
    assert [message["msg"] for message in found] == ["Hello"]
    other = office.rocketchat("GET", "users.info", {"username": "bo_cruz"})["user"]["_id"]
    assert office.rocketchat("GET", "im.history", {"roomId": other})["messages"] == []


def test_private_groups_and_others_direct_messages_stay_private(served: Served) -> None:
    ann = Office(door=served.company.office._door, user="ann_lee")
    bo = Office(door=served.company.office._door, user="bo_cruz")
    ann.rocketchat("POST", "chat.postMessage", {"channel": "@theagentcompany", "text": "secret"})
    room = ann.rocketchat("GET", "im.list")["ims"][0]["_id"]
    with pytest.raises(OfficeError, match="error-room-not-found"):
        bo.rocketchat("GET", "im.history", {"roomId": room})
    with pytest.raises(OfficeError, match="error-room-not-found"):
        bo.rocketchat("GET", "groups.info", {"roomName": "board"})
    with pytest.raises(OfficeError, match="invalid-channel"):
        bo.rocketchat("POST", "chat.postMessage", {"roomId": room, "text": "hi"})


def test_the_owner_needs_no_password_and_nobody_else_can_be_the_owner(served: Served) -> None:
    office = served.company.office
    chat = {"data": {"newPassword": "other"}}
    office.rocketchat("POST", "users.updateOwnBasicInfo", chat)
    assert office.rocketchat("GET", "me")["username"] == "theagentcompany"
    assert office.as_user("ann_lee").rocketchat("GET", "me")["username"] == "ann_lee"
    with pytest.raises(OfficeError, match="401"):
        Office(door=office._door).rocketchat("GET", "me")
    claimed = urllib.request.Request(
        f"{served.url(3000)}/api/v1/me", headers={"X-Office-User": "theagentcompany"}
    )
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(claimed)
    refused.value.close()
    assert refused.value.code == 401


def test_roles_in_a_room_are_given_and_taken(office: Office) -> None:
    for route in ("addModerator", "addOwner", "addLeader"):
        office.rocketchat("POST", f"channels.{route}", {"roomName": "sales", "username": "ann_lee"})
    roles = office.rocketchat("GET", "channels.roles", {"roomName": "sales"})["roles"]
    held = {one["u"]["username"]: one["roles"] for one in roles}
    assert held["ann_lee"] == ["owner", "moderator", "leader"]
    with pytest.raises(OfficeError, match="error-user-already-owner"):
        office.rocketchat("POST", "channels.addOwner", {"roomName": "sales", "username": "ann_lee"})
    gone = {"roomName": "sales", "username": "theagentcompany"}
    office.rocketchat("POST", "channels.removeOwner", gone)
    with pytest.raises(OfficeError, match="error-remove-last-owner"):
        office.rocketchat("POST", "channels.removeOwner", {**gone, "username": "ann_lee"})


def test_only_who_manages_a_room_changes_it(served: Served) -> None:
    bo = Office(door=served.company.office._door, user="bo_cruz")
    bo.rocketchat("POST", "channels.join", {"roomName": "sales"})
    with pytest.raises(OfficeError, match="error-not-allowed"):
        bo.rocketchat("POST", "channels.setTopic", {"roomName": "sales", "topic": "x"})
    with pytest.raises(OfficeError, match="error-unauthorized"):
        bo.rocketchat("POST", "users.delete", {"username": "ann_lee"})


def test_a_message_of_a_megabyte_is_refused_and_the_company_goes_on(office: Office) -> None:
    huge = {"channel": "#sales", "text": "x" * (1 << 20)}
    with pytest.raises(OfficeError, match="error-message-size-exceeded"):
        office.rocketchat("POST", "chat.postMessage", huge)
    assert [message["msg"] for message in office.messages("sales")] == ["Good morning"]


def test_bodies_that_are_no_json_or_too_large_are_refused(served: Served) -> None:
    office = served.company.office
    status, _, _ = office.request(
        "rocketchat", "POST", "/api/v1/login", b"{", {"Content-Type": "application/json"}
    )
    assert status == 400
    huge = {"Content-Length": str(1 << 40)}
    status, _, _ = office.request("rocketchat", "POST", "/api/v1/login", b"x", huge)
    assert status == 413


def test_a_client_that_is_refused_may_send_the_rest_of_its_body(served: Served) -> None:
    head = f"POST /api/v1/login HTTP/1.1\r\nHost: x\r\nContent-Length: {1 << 40}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", served.ports[PORTS["rocketchat"]])) as client:
        client.sendall(head.encode())
        with client.makefile("rb") as answer:
            assert b" 413 " in answer.readline()
            answer.read()
        for _ in range(3):
            client.sendall(bytes(1 << 20))  # whoever sends before reading meets no broken pipe


def test_reactions_threads_and_pins_are_kept(office: Office) -> None:
    said = office.rocketchat("POST", "chat.postMessage", {"channel": "#sales", "text": "Plan?"})
    number = said["message"]["_id"]
    office.rocketchat("POST", "chat.react", {"messageId": number, "emoji": "tada"})
    office.rocketchat("POST", "chat.pinMessage", {"messageId": number})
    reply = {"rid": said["message"]["rid"], "msg": "Yes", "tmid": number}
    office.rocketchat("POST", "chat.sendMessage", {"message": reply})
    found = office.rocketchat("GET", "chat.getMessage", {"msgId": number})["message"]
    assert found["reactions"] == {":tada:": {"usernames": ["theagentcompany"]}}
    assert found["pinned"]
    assert found["tcount"] == 1
    replies = office.rocketchat("GET", "chat.getThreadMessages", {"tmid": number})["messages"]
    assert [message["msg"] for message in replies] == ["Yes"]


def test_lists_come_in_pages(office: Office) -> None:
    for number in range(5):
        office.rocketchat("POST", "channels.create", {"name": f"c{number}"})
    page = office.rocketchat("GET", "channels.list", {"count": 2, "offset": 1})
    assert (page["count"], page["offset"], page["total"]) == (2, 1, 7)
    assert len(page["channels"]) == 2


def test_pages_log_in_and_write(office: Office) -> None:
    status, body, _ = office.request("rocketchat", "GET", "/channel/sales")
    assert status == 401
    assert b'name="password"' in body
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    given = b"username=theagentcompany&password=theagentcompany"
    status, _, headers = office.request("rocketchat", "POST", "/login", given, form)
    cookie = {"Cookie": headers["set-cookie"].partition(";")[0]}
    assert status == 303
    office.request("rocketchat", "POST", "/channel/sales", b"text=%3Cb%3Ehi", {**form, **cookie})
    _, body, _ = office.request("rocketchat", "GET", "/channel/sales", headers=cookie)
    assert b"Good morning" in body
    assert b"&lt;b&gt;hi" in body
