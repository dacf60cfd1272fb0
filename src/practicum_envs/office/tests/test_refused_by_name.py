"""What a company lacks is refused with words that say so, never with a bare 404."""

import json
import re
from pathlib import Path

import pytest

from practicum_envs.office.office_client import Office
from practicum_envs.office.services.absent import OWNCLOUD, PLANE, ROCKETCHAT

KEY = {"x-api-key": "plane_api_83f868352c6f490aba59b869ffdae1cf"}


@pytest.mark.parametrize(
    ("service", "path", "feature"),
    [
        ("plane", "/api/v1/workspaces/tac/projects/x/pages/", "Plane's pages"),
        ("plane", "/api/v1/workspaces/tac/projects/x/intake-issues/", "Plane's intake"),
        ("plane", "/tac/projects/x/views/", "Plane's views"),
        ("plane", "/api/workspaces/tac/members/", "Plane's API of its own web application"),
        ("rocketchat", "/api/v1/livechat/rooms", "RocketChat's Omnichannel"),
        ("rocketchat", "/api/v1/teams.list", "RocketChat's teams"),
        ("rocketchat", "/sockjs/1/x/websocket", "RocketChat's SockJS"),
        ("owncloud", "/remote.php/dav/uploads/a/b/1", "ownCloud's uploads in chunks"),
        ("owncloud", "/ocs/v1.php/cloud/groups", "ownCloud's groups"),
        ("owncloud", "/index.php/apps/richdocuments/x", "ownCloud's documents in a browser"),
    ],
)
def test_a_feature_that_is_not_there_is_named(
    office: Office, service: str, path: str, feature: str
) -> None:
    status, body, _ = office.request(service, "GET", path, headers=KEY)
    said = body.decode().replace("&#x27;", "'")
    assert status in (200, 501)  # OCS tells its status in the body
    assert feature in said
    assert "not part of this company" in said


@pytest.mark.parametrize("service", ["plane", "rocketchat", "owncloud"])
def test_an_address_that_nobody_knows_is_told_back(office: Office, service: str) -> None:
    for path in ("/api/v1/nowhere", "/nowhere", "/remote.php/nowhere", "/ocs/v2.php/nowhere"):
        status, body, _ = office.request(service, "GET", path)
        assert status == 404
        assert f"has nothing at {path}" in body.decode()
    status, body, _ = office.request(service, "PATCH", "/")
    assert status == 405
    assert "takes no PATCH at /" in body.decode()


def test_a_share_with_a_group_is_refused_by_name(office: Office) -> None:
    path = "/ocs/v1.php/apps/files_sharing/api/v1/shares?format=json"
    given = json.dumps({"path": "/Documents", "shareType": 1, "shareWith": "all"}).encode()
    headers = {"Content-Type": "application/json", "X-Office-User": "theagentcompany"}
    _, body, _ = office.request("owncloud", "POST", path, given, headers)
    assert b"ownCloud's groups are not part of this company" in body


def test_the_guide_names_all_that_is_refused() -> None:
    guide = (Path(__file__).parents[4] / "docs/office.md").read_text()
    for service, names in (("Plane", PLANE), ("RocketChat", ROCKETCHAT), ("ownCloud", OWNCLOUD)):
        [section] = re.findall(rf"^## {service}$(.*?)^## ", guide, re.MULTILINE | re.DOTALL)
        words = " ".join(section.split())
        lacking = {name for name in names.values() if name.partition(" (")[0] not in words}
        assert not lacking, (service, lacking)


@pytest.mark.parametrize("names", [PLANE, ROCKETCHAT, OWNCLOUD])
def test_no_word_for_what_lacks_is_one_for_what_is_there(names: dict[str, str]) -> None:
    assert not {"issues", "projects", "channels", "users", "shares", "files", "chat"} & set(names)
