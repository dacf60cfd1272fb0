"""ownCloud: files by WebDAV, shares by OCS, public links."""

import base64
import json
import re
from urllib.parse import quote

import pytest

from practicum_envs.office.office_client import Office, OfficeError

PRICES = "Documents/Data Analysis/prices.csv"
SHARES = "/ocs/v1.php/apps/files_sharing/api/v1/shares?format=json"


def login(name: str) -> dict[str, str]:
    return {
        "Authorization": "Basic " + base64.b64encode(f"{name}:theagentcompany".encode()).decode()
    }


def share(office: Office, **fields: str) -> dict[str, str]:
    body = "&".join(f"{name}={quote(value)}" for name, value in fields.items()).encode()
    headers = {**login("theagentcompany"), "Content-Type": "application/x-www-form-urlencoded"}
    _, answer, _ = office.request("owncloud", "POST", SHARES, body, headers)
    found: dict[str, str] = json.loads(answer)["ocs"]["data"]
    return found


def test_a_listing_names_what_is_in_a_folder(office: Office) -> None:
    assert office.files("Documents") == ["Documents/Data Analysis", "Documents/logo.png"]
    assert office.files("Documents/Data Analysis") == [PRICES]
    headers = {**login("theagentcompany"), "Depth": "1"}
    path = "/remote.php/webdav/Documents/Data%20Analysis"
    status, body, _ = office.request("owncloud", "PROPFIND", path, headers=headers)
    assert status == 207
    assert b"/remote.php/webdav/Documents/Data%20Analysis/prices.csv" in body
    assert b"<d:getcontentlength>11</d:getcontentlength>" in body


def test_files_are_put_moved_copied_and_deleted(office: Office) -> None:
    office.dav("MKCOL", "New")
    office.dav("PUT", "New/a ü.txt", b"one")
    office.dav("COPY", "New/a ü.txt", to="New/b.txt")
    office.dav("MOVE", "New/b.txt", to="Documents/c.txt")
    office.dav("DELETE", "New")
    assert office.read_file("Documents/c.txt") == b"one"
    assert office.files() == ["Documents"]
    with pytest.raises(OfficeError, match="409"):
        office.dav("PUT", "Nowhere/a.txt", b"x")
    with pytest.raises(OfficeError, match="405"):
        office.dav("MKCOL", "Documents")
    with pytest.raises(OfficeError, match="403"):
        office.dav("MOVE", "Documents", to="Documents/inner")


@pytest.mark.parametrize("path", ["..", "../state.json", "a/../../x", "..%2f..%2fx", "%2e%2e/x"])
def test_no_path_leads_out_of_a_users_folder(office: Office, path: str) -> None:
    for method in ("GET", "PUT", "DELETE", "PROPFIND", "MKCOL"):
        address = f"/remote.php/webdav/{path}"
        status, _, _ = office.request("owncloud", method, address, headers=login("theagentcompany"))
        assert status == 400
    target = {"Destination": f"http://x/remote.php/webdav/{path}", **login("theagentcompany")}
    status, _, _ = office.request(
        "owncloud", "MOVE", "/remote.php/webdav/Documents/logo.png", headers=target
    )
    assert status == 400
    assert office.read_file("Documents/logo.png") == b"\x89PNG"


def test_others_folders_are_closed(office: Office) -> None:
    assert office.request("owncloud", "GET", f"/remote.php/webdav/{quote(PRICES)}")[0] == 401
    path = f"/remote.php/dav/files/theagentcompany/{quote(PRICES)}"
    assert office.request("owncloud", "GET", path, headers=login("theagentcompany"))[0] == 200
    assert office.request("owncloud", "GET", path, headers=login("ann_lee"))[0] == 404


def test_a_public_link_leads_to_the_file_and_ends_with_the_share(office: Office) -> None:
    made = share(office, path=f"/{PRICES}", shareType="3")
    path = made["url"].partition(":8092")[2]
    _, body, _ = office.request("owncloud", "GET", path)
    found = re.findall(rb'https?://[^\s]*\bdownload\b[^\s]*(?=")', body)
    assert found == [f"http://the-agent-company.com:8092{path}/download".encode()]
    assert office.request("owncloud", "GET", f"{path}/download")[1] == b"item,price\n"
    gone = SHARES.replace("shares?", f"shares/{made['id']}?")
    office.request("owncloud", "DELETE", gone, headers=login("theagentcompany"))
    assert office.request("owncloud", "GET", f"{path}/download")[0] == 404


def test_a_share_is_in_the_other_users_folder_with_the_rights_it_gives(office: Office) -> None:
    share(office, path="/Documents", shareType="0", shareWith="ann_lee", permissions="1")
    path = f"/remote.php/webdav/{quote(PRICES)}"
    assert office.request("owncloud", "GET", path, headers=login("ann_lee"))[1] == b"item,price\n"
    assert office.request("owncloud", "PUT", path, b"x", login("ann_lee"))[0] == 403
    assert office.request("owncloud", "DELETE", path, headers=login("ann_lee"))[0] == 403
    assert office.read_file(PRICES) == b"item,price\n"


def test_a_link_with_a_password_is_closed_without_it(office: Office) -> None:
    made = share(office, path=f"/{PRICES}", shareType="3", password="open")
    path = made["url"].partition(":8092")[2] + "/download"
    assert office.request("owncloud", "GET", path)[0] == 403
    assert office.request("owncloud", "GET", f"{path}?password=open")[1] == b"item,price\n"
