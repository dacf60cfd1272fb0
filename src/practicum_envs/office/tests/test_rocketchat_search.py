"""How people find one another in RocketChat, and what was said."""

import json
import urllib.parse
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from practicum_envs.office.office_client import Office, OfficeError
from practicum_envs.office.services.rocketchat_views import is_like, values_at
from practicum_envs.office.tests.form_browser import FormBrowser
from practicum_envs.office.tests.serving_companies import Served


def names(found: Any, key: str = "result", name: str = "name") -> list[str]:
    return [str(one[name]) for one in found[key]]


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"query": json.dumps({"text": "gen", "type": "channels", "workspace": "local"})}, "c"),
        ({"text": "GEN", "type": "channels"}, "c"),
        ({"query": json.dumps({"text": "lee", "type": "users"})}, "u"),
        ({"text": "ann_", "type": "users"}, "u"),
        ({"text": "ann.lee@", "type": "users"}, "u"),
        ({"text": "cto", "type": "users"}, "u"),
    ],
)
def test_the_directory_finds_rooms_and_people(
    office: Office, asked: dict[str, str], expected: str
) -> None:
    found = office.rocketchat("GET", "directory", asked)
    assert names(found) == [{"c": "general", "u": "Ann Lee"}[expected]]
    assert (found["total"], found["count"], found["offset"]) == (1, 1, 0)


def test_the_directory_is_sorted_and_paged(office: Office) -> None:
    everyone = office.rocketchat("GET", "directory", {"text": "", "type": "channels"})
    assert names(everyone) == ["general", "sales"]
    by_size = {"sort": json.dumps({"usersCount": 1}), "count": 1, "type": "channels"}
    assert names(office.rocketchat("GET", "directory", by_size)) == ["sales"]
    for wrong in ({"query": "{"}, {"type": "robots"}):
        with pytest.raises(OfficeError, match="400"):
            office.rocketchat("GET", "directory", wrong)
    with pytest.raises(OfficeError, match="teams are not part of this company"):
        office.rocketchat("GET", "directory", {"type": "teams"})


def test_private_groups_are_found_by_who_is_in_them(office: Office) -> None:
    found = [
        office.as_user(who).rocketchat("GET", "spotlight", {"query": "boa"})["rooms"]
        for who in ("ann_lee", "bo_cruz")
    ]
    assert [[one["name"] for one in rooms] for rooms in found] == [["board"], []]
    assert names(office.rocketchat("GET", "directory", {"text": "board"})) == []


def test_spotlight_tells_people_from_rooms(office: Office) -> None:
    office.rocketchat("POST", "channels.create", {"name": "ann-only"})
    found = {sign: office.rocketchat("GET", "spotlight", {"query": f"{sign}ann"}) for sign in "@# "}
    assert (names(found["@"], "users"), found["@"]["rooms"]) == (["Ann Lee"], [])
    assert (found["#"]["users"], names(found["#"], "rooms")) == ([], ["ann-only"])


def test_fields_are_completed(office: Office) -> None:
    asked = {"selector": json.dumps({"term": "lee"})}
    items = office.rocketchat("GET", "users.autocomplete", asked)
    assert names(items, "items", "username") == ["ann_lee"]
    asked = {"selector": json.dumps({"term": "", "exceptions": ["ann_lee"]})}
    items = office.rocketchat("GET", "users.autocomplete", asked)
    assert "ann_lee" not in names(items, "items", "username")
    asked = {"selector": json.dumps({"name": "SAL"})}
    items = office.rocketchat("GET", "rooms.autocomplete.channelAndPrivate", asked)
    assert names(items, "items") == ["sales"]


def test_messages_are_found_by_words_people_and_marks(office: Office) -> None:
    ann = office.as_user("ann_lee")
    for text in ("The plan for May", "Ask @bo_cruz about the plan", "See http://x.y"):
        ann.rocketchat("POST", "chat.postMessage", {"channel": "#sales", "text": text})
    pinned = office.rocketchat("POST", "chat.postMessage", {"channel": "#sales", "text": "Plan B"})
    office.rocketchat("POST", "chat.pinMessage", {"messageId": pinned["message"]["_id"]})
    room = pinned["message"]["rid"]

    def found(text: str) -> list[str]:
        asked = {"roomId": room, "searchText": text}
        return names(office.rocketchat("GET", "chat.search", asked), "messages", "msg")

    assert found("plan") == ["Plan B", "Ask @bo_cruz about the plan", "The plan for May"]
    assert found("plan from:ann_lee") == ["Ask @bo_cruz about the plan", "The plan for May"]
    assert found("from:me plan") == ["Plan B"]
    assert found("mention:bo_cruz") == ["Ask @bo_cruz about the plan"]
    assert found("has:url") == ["See http://x.y"]
    assert found("is:pinned") == ["Plan B"]
    with pytest.raises(OfficeError, match="501"):
        found("/pl.n/i")


def test_lists_are_narrowed_and_sorted(office: Office) -> None:
    def users(**asked: Any) -> list[str]:
        given = {name: json.dumps(value) for name, value in asked.items()}
        return names(office.rocketchat("GET", "users.list", given), "users", "username")

    assert users(query={"username": "ann_lee"}) == ["ann_lee"]
    assert users(query={"emails.address": "bo.cruz@agentcompany.com"}) == ["bo_cruz"]
    assert users(query={"username": {"$in": ["cy_holm", "x"]}}) == ["cy_holm"]
    assert users(query={"name": {"$regex": "^ann", "$options": "i"}}) == ["ann_lee"]
    assert users(sort={"username": -1})[:2] == ["theagentcompany", "cy_holm"]
    for wrong in ({"$where": "1"}, {"name": {"$regex": "a|b"}}):
        with pytest.raises(OfficeError, match="not part of this company"):
            users(query=wrong)


def test_the_directorys_page_leads_to_rooms(served: Served) -> None:
    browser = FormBrowser(served.url(3000))
    browser.go("/home")
    browser.press("Login", username="theagentcompany", password="theagentcompany")
    browser.follow("Directory")
    assert {"#general", "#sales"} <= set(browser.page.links.values())
    browser.go("/directory/users?" + urllib.parse.urlencode({"text": "ann"}))
    assert "CTO" in browser.page.text
    assert "Bo Cruz" not in browser.page.text
    browser.follow("Ann Lee")
    assert browser.status == 200


@given(st.recursive(st.integers() | st.text(), lambda inner: st.lists(inner), max_leaves=5))
def test_what_a_record_has_is_found_by_it(value: Any) -> None:
    found = values_at({"a": {"b": value}}, "a.b")
    assert all(is_like(found, one) for one in found)
    assert not is_like(found, {"$nin": found}) or not found
    assert is_like(found, {"$exists": bool(found)})
