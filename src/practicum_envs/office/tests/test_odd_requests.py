"""Whatever is asked, a service answers: odd requests are refused and never an error of ours."""

import json
import random
import re
from typing import Any

import pytest

from practicum_envs.office.companies import Companies
from practicum_envs.office.office_client import Office
from practicum_envs.office.services.all_services import SERVICES
from practicum_envs.office.tests.serving_companies import SEED

ODD: tuple[Any, ...] = (
    *(None, True, -1, 0, 10**30, 1.5, "", " ", "0", "1", "ann_lee", "main", "root/shop", "raise"),
    *("..", "../../x", "a/b", "ü\u202e", "\ud800", "x" * 300, "#general", "@ann_lee", "2026-13-45"),
    *([], [None], ["1"], ["ann_lee"], [{}], {}, {"a": {}}, {"rid": "x"}, {"username": ["x"]}),
)
FIELDS = (
    *("name", "username", "userId", "roomId", "roomName", "channel", "text", "msg", "message"),
    *("members", "usernames", "data", "role", "emoji", "messageId", "msgId", "tmid", "type"),
    *("count", "offset", "oldest", "latest", "title", "labels", "assignee_ids", "milestone_id"),
    *("state_event", "branch", "ref", "ref_name", "commit_message", "content", "actions"),
    *("file_path", "source_branch", "target_branch", "tag_name", "path", "page", "per_page"),
    *("user_id", "access_level", "visibility", "namespace_id", "issues", "state", "assignees"),
    *("priority", "start_date", "end_date", "target_date", "group", "identifier", "shareType"),
    *("shareWith", "permissions", "dir", "sort", "order_by", "search", "since", "from", "to"),
    *("color", "new_name", "duration", "body", "email", "password", "user", "resume", "encoding"),
    *("scope", "label_id", "allowed_to_push", "push_access_level", "reviewer_ids", "_method"),
    *("branch_name", "file_name", "return_to", "description", "issue", "to", "todo", "emoji"),
)
RECORDS = {
    "issue": ("title", "description", "labels", "assignee_ids", "milestone_id", "state_event"),
    "merge_request": ("title", "source_branch", "target_branch", "reviewer_ids", "labels"),
    "project": ("name", "path", "topics", "visibility", "default_branch", "namespace_id"),
    "milestone": ("title", "due_date", "state_event"),
    "label": ("title", "color"),
    "wiki": ("title", "content"),
    "release": ("tag", "tag_name", "ref", "name"),
    "protected_branch": ("name", "push", "merge", "force"),
    "note": ("note",),
    "user": ("login", "password"),
}
"""What the forms of pages are about, and the fields of each."""
FIELDS += tuple(f"{record}[{name}]" for record, names in RECORDS.items() for name in names)

ODD_PARTS = ("..", "%00", "x", "999", "a%2Fb", "%ff", "-1", "x" * 300)
RIGHT = {
    "id": ["1", "root%2Fshop"],
    "iid": ["1", "2"],
    "slug": ["tac"],
    "space": ["root"],
    "branch": ["main", "raise"],
    "ref": ["main"],
    "sha": ["main"],
    "file": ["src%2Fprice.py", "README.md"],
    "path": ["/Documents", "/Documents/logo.png", "/new.txt"],
    "label": ["bug"],
    "user": ["2", "ann_lee"],
    "root": ["webdav"],
    "service": ["gitlab", "plane"],
    "version": ["v1", "v2"],
    "name": ["sales", "ann_lee", "SHOP-1"],
    "suffix": [".git"],
    "format": [".zip", ""],
    "index": ["index.php/"],
}
"""Values of placeholders that lead to something."""


def path_of(pattern: re.Pattern[str], rng: random.Random, ids: dict[str, list[str]]) -> str:
    """A path for a pattern: mostly one that leads to something."""
    text = pattern.pattern
    while True:
        found = re.search(r"\(\?P<(\w+)>((?:[^()]|\([^()]*(?:\([^()]*\)[^()]*)*\))*)\)", text)
        if found is None:
            return re.sub(r"\\(.)", r"\1", text)
        name, inner = found.groups()
        words = inner.split("|") if re.fullmatch(r"[\w|./-]+", inner) else []
        right = words or RIGHT.get(name, []) + ids.get(name, [])
        chosen = rng.choice(right) if right and rng.random() < 0.9 else rng.choice(ODD_PARTS)
        text = text[: found.start()] + chosen.replace("\\", "") + text[found.end() :]


@pytest.mark.parametrize("service", [service.name for service in SERVICES])
def test_odd_requests_are_answered(companies: Companies, service: str) -> None:
    company = companies.open_now(SEED)
    office = company.office
    rng = random.Random(service)
    [found] = [one for one in SERVICES if one.name == service]
    ids = known_ids(office)
    for _ in range(3):
        for route in found.router.routes:
            for method in sorted(route.methods):
                path = path_of(route.pattern, rng, ids)
                fields = {rng.choice(FIELDS): rng.choice(ODD) for _ in range(rng.randrange(6))}
                ask(office, service, method, path, fields, rng)
    faults = company.faults
    assert company.is_alive
    company.close()
    assert not faults, faults[-3000:]


def known_ids(office: Office) -> dict[str, list[str]]:
    """Ids of records, by the placeholders they stand for."""
    rooms = [room["_id"] for room in office.rocketchat("GET", "rooms.get")["update"]]
    [project] = office.plane("GET", "projects/")["results"]
    route = f"projects/{project['id']}"
    issues = [one["id"] for one in office.plane("GET", f"{route}/issues/")["results"]]
    cycles = [one["id"] for one in office.plane("GET", f"{route}/cycles/")["results"]]
    states = [one["id"] for one in office.plane("GET", f"{route}/states/")["results"]]
    return {
        "project": [project["id"], "shop"],
        "issue": issues,
        "group": cycles,
        "record": [*states, *cycles],
        "rid": rooms,
    }


def ask(
    office: Office, service: str, method: str, path: str, fields: dict[str, Any], rng: random.Random
) -> None:
    user = "root" if service == "gitlab" else "theagentcompany"
    headers = {"X-Office-User": user, "Depth": "1", "Destination": "http://h/remote.php/webdav/x"}
    body = b""
    if method in ("GET", "HEAD", "DELETE"):
        query = "&".join(f"{name}={str(value)[:20]!a}" for name, value in fields.items())
        path += "?" + re.sub(r"[^\w=&.-]", "", query)
    elif rng.random() < 0.8:
        body = json.dumps(fields).encode()
        headers["Content-Type"] = "application/json"
    else:
        body = b"path=x&a[]=1&a[]=2&=&%ff=%00"
        headers["Content-Type"] = "application/x-www-form-urlencoded"
    safe = "".join(letter for letter in path if letter.isascii() and letter.isprintable())
    status, _, _ = office.request(service, method, safe.replace(" ", "%20"), body, headers)
    assert status
