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
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from decimal import Context
from typing import Any
from urllib.parse import quote

from practicum.core.command import CommandResult
from practicum_envs.office.allowed_changes import Change
from practicum_envs.office.company_seed import (
    AGENT,
    GITLAB_ADMIN,
    BoardIssue,
    Issue,
)
from practicum_envs.office.office_client import Office, OfficeError

PAGE = 100
"""Entries of a page of GitLab, at most."""
MOST_FILES = 500
"""Files of a branch that a checkpoint reads; tasks have a few dozen."""
MOST_BYTES = 32 << 20
"""Bytes that it reads of them."""


MOST_DIGITS = 60
"""Of a number in a table; longer ones are compared as text."""
EXACT = Context(prec=MOST_DIGITS)


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
    looked_up: dict[str, Any] = field(default_factory=dict)
    """What takes long to ask for, kept: a company that is graded changes no more."""

    @abstractmethod
    def file(self, path: str) -> bytes | None:
        """A file of the agent's machine; None where there is none."""

    @abstractmethod
    def run(self, command: tuple[str, ...], stdin: bytes = b"") -> CommandResult:
        """Run a checker in the agent's machine, safe from what the agent did to its programs."""

    def changes(self) -> list[Change]:
        """All that has changed in the company since the task began."""
        if "changes" not in self.looked_up:
            found = self.office.call("api", "GET", "/api/changes")
            self.looked_up["changes"] = [Change(k, tuple(at), value) for k, at, value in found]
        known: list[Change] = self.looked_up["changes"]
        return known

    # RocketChat.

    def spoken(self) -> dict[str, list[str]]:
        """All that the agent said, oldest first, by `#channel` or `@person`."""
        found: dict[str, list[str]] = {}
        for where, text in filter(None, (one.said for one in self.changes())):
            found.setdefault(where, []).append(text)
        return found

    def has_said(self, where: str, text: str) -> bool:
        """Whether the agent said this there, once."""
        return self.spoken().get(where, []).count(text) == 1

    def channel_members(self, name: str) -> set[str]:
        """Who is in a channel; empty where there is none."""
        found = asked(self.office.rocketchat, "channels.members", {"roomName": name, "count": 0})
        return {one["username"] for one in found["members"]} if found else set()

    # ownCloud.

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
        key = f"issues of {path}"
        if key not in self.looked_up:
            self.looked_up[key] = [
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
        return list(self.looked_up[key])

    def issues_are(self, path: str, wanted: Iterable[Issue]) -> bool:
        """Whether a project has these issues and no others, as `is_issue` says."""
        found = self.issues(path)
        for one in wanted:
            fitting = next((other for other in found if is_issue(other, one)), None)
            if fitting is None:
                return False
            found.remove(fitting)
        return not found

    def notes(self, path: str, kind: str, iid: int) -> list[str]:
        """The comments of an issue or merge request, oldest first."""
        found = self.listed(f"{project_route(path)}/{kind}/{iid}/notes", sort="asc")
        return [one["body"].strip() for one in found if not one["system"]]

    def repository(self, path: str, ref: str = "main") -> dict[str, str]:
        """The files of a branch, with their text; empty where there is no such branch."""
        key = f"branch {ref} of {path}"
        if key not in self.looked_up:
            self.looked_up[key] = self._repository(path, ref)
        return dict(self.looked_up[key])

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


def project_route(path: str) -> str:
    """The route of a project.

    >>> project_route("root/shop")
    'projects/root%2Fshop'
    """
    return f"projects/{quote(path, safe='')}"


def is_issue(found: Issue, wanted: Issue) -> bool:
    """Whether an issue is the one wanted; where no description was, it may have one.

    >>> is_issue(Issue(title="Crash", description="At start."), Issue(title="Crash"))
    True
    """
    one, other = plain_issue(found), plain_issue(wanted)
    return one == (other if other.description else replace(other, description=one.description))


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


def plain_cell(text: str) -> str:
    """A number in its shortest form; other text as it is.

    >>> plain_cell("255.0"), plain_cell("2.50"), plain_cell("lamp")
    ('255', '2.5', 'lamp')
    """
    try:
        number = EXACT.create_decimal(text)
    except ArithmeticError:
        return text
    return f"{number.normalize(EXACT):f}" if abs(number.adjusted()) < MOST_DIGITS else text


def plain_rows(rows: Iterable[Sequence[str]]) -> list[tuple[str, ...]]:
    """Rows with their numbers in the shortest form, to be compared with others of these."""
    return [tuple(map(plain_cell, row)) for row in rows]


def are_rows(found: Iterable[Sequence[str]], wanted: Iterable[Sequence[str]]) -> bool:
    """Whether rows have the right cells; numbers may be written in any way.

    >>> are_rows([("lamp", "255.0")], [("lamp", "255")])
    True
    """
    return plain_rows(found) == plain_rows(wanted)


def is_cell(found: str, wanted: str) -> bool:
    """Whether a cell has a text, or the number that it is."""
    return plain_cell(found) == plain_cell(wanted)


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
