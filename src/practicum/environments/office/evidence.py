"""`Evidence`: what a company has at the end, in the records of its seed, so that both compare.

This is the boundary between what a policy wrote and what a grader reads. What is not there reads as
empty. What is there and cannot be read, or is more than anyone would read, raises `Unreadable`: the
checkpoint is not passed.
"""

import base64
import csv
import io
import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote

from practicum.core.command import CommandResult
from practicum.environments.office.company_seed import (
    AGENT,
    GITLAB_ADMIN,
    BoardIssue,
    CompanySeed,
    Issue,
    Person,
)
from practicum.environments.office.office_client import Office, OfficeError

PAGE = 100
"""Entries of a page of GitLab, at most."""
MOST_FILES = 500
"""Files and folders of a branch or of ownCloud that a checkpoint reads; tasks have a few dozen."""
MOST_BYTES = 32 << 20
"""Bytes that it reads of them."""


class Unreadable(Exception):
    """The policy left something that no checkpoint can read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence(ABC):
    """What a checkpoint may look at, after the agent's last turn."""

    office: Office
    """The company's services, with the agent's account and the administrators' tokens."""
    trajectory: str
    """All that the agent wrote and saw, as one text."""
    answer: str | None
    """What the agent gave as its answer; None where it gave none."""
    looked_up: dict[str, dict[str, Any]] = field(default_factory=dict)
    """What takes long to ask for, kept: a company that is graded changes no more."""

    @abstractmethod
    def file(self, path: str) -> bytes | None:
        """A file of the agent's machine; None where there is none."""

    @abstractmethod
    def run(self, command: tuple[str, ...], stdin: bytes = b"") -> CommandResult:
        """Run a checker in the agent's machine, safe from what the agent did to its programs."""

    # RocketChat.

    def spoken(self) -> dict[str, list[str]]:
        """All that the agent said, oldest first, by `#channel` or `@person`."""
        return self._once("spoken", self._spoken)

    def _once(self, what: str, look: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """What was looked up before, or is now; a copy, which the caller may change."""
        if what not in self.looked_up:
            self.looked_up[what] = look()
        return deepcopy(self.looked_up[what])

    def _spoken(self) -> dict[str, list[str]]:
        chat = self.office.rocketchat
        found: dict[str, list[str]] = {}
        for kind, route, key in (
            ("channels", "channels.list", "channels"),
            ("groups", "groups.listAll", "groups"),
            ("im", "im.list", "ims"),
        ):
            for room in (asked(chat, route, {"count": 0}) or {}).get(key, []):
                got = chat("GET", f"{kind}.messages", {"roomId": room["_id"], "count": 0})
                own = [one["msg"].strip() for one in got["messages"] if is_by_agent(one)]
                others = [name for name in room.get("usernames", []) if name != AGENT]
                name = f"#{room['name']}" if "name" in room else "@" + "+".join(others)
                if own:
                    found[name] = own[::-1]
        return found

    def said_only(self, where: str, text: str, *asked_too: str) -> bool:
        """Whether the agent said this once there, and nothing to others than those it may ask."""
        found = self.spoken()
        rest = {room for room in found if room != where and room not in asked_too}
        return found.get(where) == [text] and not rest

    def asked_only(self, *people: Person) -> bool:
        """Whether the agent wrote to each of these people, by direct message, and nowhere else."""
        return self.spoken().keys() == {f"@{one.username}" for one in people}

    def channel_members(self, name: str) -> set[str]:
        """Who is in a channel; empty where there is none."""
        found = asked(self.office.rocketchat, "channels.members", {"roomName": name, "count": 0})
        return {one["username"] for one in found["members"]} if found else set()

    # ownCloud.

    def cloud(self, folder: str = "") -> dict[str, bytes]:
        """Every file in ownCloud."""
        return self._once(f"cloud {folder}", lambda: self._cloud(folder))

    def _cloud(self, folder: str) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        folders, entries, size = [folder], 0, 0
        while folders:
            for path in self.office.files(folders.pop()):
                content = self.office.read_file(path)
                if content is None:
                    folders.append(path)
                else:
                    found[path] = content
                entries, size = entries + 1, size + len(content or b"")
                _require_little("ownCloud", entries, size)
        return found

    def changed_files(self, company: CompanySeed) -> set[str]:
        """Paths in ownCloud that are new, gone or different."""
        before = {p: c if isinstance(c, bytes) else c.encode() for p, c in company.files.items()}
        after = self.cloud()
        return {path for path in before.keys() | after if before.get(path) != after.get(path)}

    def shares(self) -> set[tuple[str, str, int]]:
        """What the agent shares: path, with whom (`link` for everyone), permissions."""
        route = "/ocs/v1.php/apps/files_sharing/api/v1/shares?format=json"
        headers = {"X-Office-User": AGENT}
        found = self.office.call("owncloud", "GET", route, headers=headers)["ocs"]["data"]
        return {
            (one["path"].strip("/"), one["share_with"] or "link", int(one["permissions"]))
            for one in found
        }

    # GitLab.

    def listed(self, route: str, most: int = 10_000, **query: Any) -> list[Any]:
        """All entries of a list of GitLab."""
        found: list[Any] = []
        while len(found) <= most:
            data = {**query, "per_page": PAGE, "page": len(found) // PAGE + 1}
            got = asked(self.office.gitlab, route, data) or []
            found += got
            if len(got) < PAGE:
                return found
        raise Unreadable(f"{route} has more than {most} entries")

    def issues(self, path: str) -> list[Issue]:
        """The issues of a project."""
        return [
            plain_issue(
                Issue(
                    title=one["title"],
                    description=one["description"] or "",
                    labels=tuple(one["labels"]),
                    assignees=tuple(who["username"] for who in one["assignees"]),
                    milestone=(one["milestone"] or {}).get("title", ""),
                    due_date=one["due_date"],
                    is_closed=one["state"] == "closed",
                )
            )
            for one in self.listed(f"{project_route(path)}/issues")
        ]

    def issues_are(self, path: str, wanted: Iterable[Issue]) -> bool:
        """Whether a project has these issues and no others."""
        return Counter(self.issues(path)) == Counter(map(plain_issue, wanted))

    def notes(self, path: str, kind: str, iid: int) -> list[str]:
        """The comments of an issue or merge request, oldest first."""
        found = self.listed(f"{project_route(path)}/{kind}/{iid}/notes", sort="asc")
        return [one["body"].strip() for one in found if not one["system"]]

    def repository(self, path: str, ref: str = "main") -> dict[str, str]:
        """The files of a branch, with their text; empty where there is no such branch."""
        return self._once(f"branch {ref} of {path}", lambda: self._repository(path, ref))

    def _repository(self, path: str, ref: str) -> dict[str, str]:
        route = f"{project_route(path)}/repository"
        found, size = {}, 0
        listed = self.listed(f"{route}/tree", MOST_FILES, recursive="true", ref=ref)
        for one in listed:
            if one["type"] != "blob":
                continue
            name = quote(one["path"], safe="")
            got = asked(self.office.gitlab, f"{route}/files/{name}", {"ref": ref})
            if got is None:
                raise Unreadable(f"{path} has a file that cannot be asked for")
            content = base64.b64decode(got["content"])
            size += len(content)
            _require_little(path, len(listed), size)
            found[one["path"]] = content.decode(errors="replace")
        return found

    # Plane.

    def cards(self, board: str) -> list[BoardIssue]:
        """The issues of a board."""
        plane = self.office.plane
        projects = (asked(plane, "projects/") or {}).get("results", [])
        route = next((f"projects/{one['id']}" for one in projects if one["name"] == board), "")
        if not route:
            return []
        people = {
            one["id"]: one["email"].partition("@")[0].replace(".", "_")
            for one in plane("GET", "members/")
        }
        names = {
            one["id"]: one["name"]
            for kind in ("states", "labels", "cycles")
            for one in plane("GET", f"{route}/{kind}/")["results"]
        }
        sprint = {
            one["id"]: names[cycle["id"]]
            for cycle in plane("GET", f"{route}/cycles/")["results"]
            for one in plane("GET", f"{route}/cycles/{cycle['id']}/cycle-issues/")["results"]
        }
        return [
            plain_card(
                BoardIssue(
                    name=one["name"],
                    state=names.get(one["state"], ""),
                    priority=one["priority"],
                    assignees=tuple(people.get(who, who) for who in one["assignees"]),
                    labels=tuple(names.get(label, label) for label in one["labels"]),
                    cycle=sprint.get(one["id"], ""),
                    start_date=one["start_date"],
                    target_date=one["target_date"],
                )
            )
            for one in plane("GET", f"{route}/issues/")["results"]
        ]

    def cards_are(self, board: str, wanted: Iterable[BoardIssue]) -> bool:
        """Whether a board has these issues and no others."""
        return Counter(self.cards(board)) == Counter(map(plain_card, wanted))

    # Content of files in ownCloud.

    def text(self, path: str) -> str:
        """A file as `text_of` reads it."""
        return text_of(self.office.read_file(path))

    def rows(self, path: str) -> list[tuple[str, ...]]:
        """A csv file as `rows_of` reads it."""
        return rows_of(self.office.read_file(path))

    def record(self, path: str) -> dict[str, str]:
        """A csv file as `record_of` reads it."""
        return record_of(self.office.read_file(path))

    def json(self, path: str) -> Any:
        """A JSON file as `json_of` reads it."""
        return json_of(self.office.read_file(path))

    def json_object(self, path: str) -> dict[str, Any]:
        """A JSON file that holds an object; empty where it does not."""
        found = self.json(path)
        return found if isinstance(found, dict) else {}


def asked(call: Callable[..., Any], route: str, data: Any = None) -> Any:
    """The answer to a GET; None where it was refused."""
    try:
        return call("GET", route, data)
    except OfficeError as error:
        if error.status >= 500:
            raise
        return None


def _require_little(where: str, entries: int, size: int) -> None:
    if entries > MOST_FILES or size > MOST_BYTES:
        raise Unreadable(f"{where} has more than {MOST_FILES} files, or {MOST_BYTES >> 20} MiB")


def is_by_agent(message: dict[str, Any]) -> bool:
    """Whether the agent wrote a message; notes of the system are nobody's."""
    return message["u"]["username"] == AGENT and "t" not in message


def project_route(path: str) -> str:
    """The route of a project.

    >>> project_route("root/shop")
    'projects/root%2Fshop'
    """
    return f"projects/{quote(path, safe='')}"


def plain_issue(issue: Issue) -> Issue:
    """An issue without its author and notes, what is a set in order."""
    return replace(
        issue,
        labels=tuple(sorted(issue.labels)),
        assignees=tuple(sorted(issue.assignees)),
        author=GITLAB_ADMIN,
        notes=(),
    )


def plain_card(issue: BoardIssue) -> BoardIssue:
    """An issue of a board without its description, what is a set in order."""
    return replace(
        issue,
        description="",
        module="",
        labels=tuple(sorted(issue.labels)),
        assignees=tuple(sorted(issue.assignees)),
    )


def text_of(content: bytes | None) -> str:
    """A file as text without space around it; empty where there is none."""
    return (content or b"").decode(errors="replace").replace("\r\n", "\n").strip()


def rows_of(content: bytes | None) -> list[tuple[str, ...]]:
    r"""The rows of a csv file, space around cells and empty rows left out.

    >>> rows_of(b"a, b\n\n1,2\n")
    [('a', 'b'), ('1', '2')]
    """
    try:
        found = list(csv.reader(io.StringIO(text_of(content))))
    except csv.Error as error:
        raise Unreadable(f"no csv file: {error}") from None
    return [tuple(cell.strip() for cell in row) for row in found if any(row)]


def json_of(content: bytes | None) -> Any:
    """A JSON file; None where there is none."""
    if not content:
        return None
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"no JSON: {str(error)[:100]}") from None


def record_of(content: bytes | None) -> dict[str, str]:
    r"""The only line of a csv file, by the names of its header; empty where there are more.

    >>> record_of(b"item,price\nlamp,3\n")
    {'item': 'lamp', 'price': '3'}
    """
    rows = rows_of(content)
    return dict(zip(*rows, strict=False)) if len(rows) == 2 else {}


def is_rounded(value: object, exact: float, digits: int) -> bool:
    """Whether a number, or its text, is another one rounded to some digits.

    >>> is_rounded("0.67", 2 / 3, 2), is_rounded(0.6666, 2 / 3, 2), is_rounded(True, 1, 2)
    (True, False, False)
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return False
    try:
        number = float(value)
    except (ValueError, OverflowError):  # of 400 digits, no float
        return False
    is_short = abs(number - round(number, digits)) < 1e-9
    return is_short and abs(number - exact) <= 0.5 * 10**-digits + 1e-9
