"""Assertions about the state of a system: typed here, judged by the state checker.

Each class is one kind that `state_checker.CHECKS` knows; its fields are that check's values.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, cast

from practicum.core.task import JSON

__all__ = [
    "KINDS",
    "Absent",
    "Ageing",
    "Archive",
    "Assertion",
    "Contains",
    "Content",
    "Group",
    "GroupAdmins",
    "GroupOwner",
    "GroupsOfUser",
    "Lines",
    "Listing",
    "Mode",
    "Modified",
    "NoAccount",
    "Owner",
    "PasswordLocked",
    "Process",
    "Processes",
    "Regex",
    "SameFile",
    "Symlink",
    "Type",
    "Unchanged",
    "User",
    "assertion_from_json",
    "digest",
]


@dataclass(frozen=True)
class Assertion:
    """One claim about the final state."""

    kind: ClassVar[str]

    def to_json(self) -> dict[str, JSON]:
        """The record the checker reads, with nothing in it that JSON would change."""
        return cast(dict[str, JSON], json.loads(json.dumps({"kind": self.kind, **vars(self)})))


@dataclass(frozen=True)
class Content(Assertion):
    """The file holds this text, with or without a last line end."""

    kind = "content"
    path: str
    text: str
    trimmed: bool = False
    """Whether blank space around the text is left out of the comparison."""


@dataclass(frozen=True)
class Contains(Assertion):
    """The text occurs so many times in the file."""

    kind = "contains"
    path: str
    text: str
    times: int = 1


@dataclass(frozen=True)
class Lines(Assertion):
    """The file's lines, blank space at their ends left out."""

    kind = "lines"
    path: str
    lines: tuple[str, ...]
    ordered: bool = True


@dataclass(frozen=True)
class Regex(Assertion):
    """The pattern is found in the file, or is not."""

    kind = "regex"
    path: str
    pattern: str
    present: bool = True


@dataclass(frozen=True)
class Unchanged(Assertion):
    """The file is byte for byte what it was."""

    kind = "unchanged"
    path: str
    sha256: str


@dataclass(frozen=True)
class Absent(Assertion):
    """Nothing is at the path."""

    kind = "absent"
    path: str


@dataclass(frozen=True)
class Type(Assertion):
    """What is at the path, links not followed."""

    kind = "type"
    path: str
    type: Literal["file", "folder", "link"]


@dataclass(frozen=True)
class Mode(Assertion):
    """The permission bits, all twelve."""

    kind = "mode"
    path: str
    mode: int


@dataclass(frozen=True)
class Modified(Assertion):
    """When the file was last modified, in seconds since 1970."""

    kind = "modified"
    path: str
    seconds: int


@dataclass(frozen=True)
class Owner(Assertion):
    """The user who owns it."""

    kind = "owner"
    path: str
    user: str


@dataclass(frozen=True)
class GroupOwner(Assertion):
    """The group it belongs to."""

    kind = "group_owner"
    path: str
    group: str


@dataclass(frozen=True)
class Symlink(Assertion):
    """A symbolic link to the target."""

    kind = "symlink"
    path: str
    target: str
    exact: bool = False
    """Whether the link must be written exactly as the target, and not just lead there."""


@dataclass(frozen=True)
class SameFile(Assertion):
    """Two names of one plain file; without `same`, two files of their own."""

    kind = "same_file"
    path: str
    other: str
    same: bool = True


@dataclass(frozen=True)
class Listing(Assertion):
    """All names in a folder, hidden ones too."""

    kind = "listing"
    path: str
    names: tuple[str, ...]
    recursive: bool = False


@dataclass(frozen=True)
class User(Assertion):
    """The account is there; None stands for any value."""

    kind = "user"
    name: str
    uid: int | None = None
    comment: str | None = None
    home: str | None = None
    shell: str | None = None
    primary_group: str | None = None


@dataclass(frozen=True)
class NoAccount(Assertion):
    """No user (`passwd`) or no group (`group`) has the name."""

    kind = "no_account"
    name: str
    file: Literal["passwd", "group"]


@dataclass(frozen=True)
class GroupsOfUser(Assertion):
    """The supplementary groups of a user."""

    kind = "groups_of_user"
    name: str
    groups: tuple[str, ...]
    exactly: bool = False


@dataclass(frozen=True)
class Group(Assertion):
    """The group is there."""

    kind = "group"
    name: str
    gid_range: tuple[int, int] | None = None
    members: tuple[str, ...] | None = None


@dataclass(frozen=True)
class GroupAdmins(Assertion):
    """Who may administer the group."""

    kind = "group_admins"
    name: str
    admins: tuple[str, ...]


@dataclass(frozen=True)
class Ageing(Assertion):
    """Ageing of a user's password and account, in days as /etc/shadow has them."""

    kind = "ageing"
    name: str
    values: Mapping[str, int]


@dataclass(frozen=True)
class PasswordLocked(Assertion):
    """The user's password is locked, or is not."""

    kind = "password_locked"
    name: str
    locked: bool


@dataclass(frozen=True)
class Archive(Assertion):
    """An archive holds exactly these files; a `gz` file has one, with an empty name."""

    kind = "archive"
    path: str
    format: Literal["tar", "tar.gz", "zip", "gz"]
    members: Mapping[str, str]


@dataclass(frozen=True)
class Process(Assertion):
    """The process whose number the file holds is alive and was started as this command."""

    kind = "process"
    pidfile: str
    command: tuple[str, ...]


@dataclass(frozen=True)
class Processes(Assertion):
    """So many live processes were started as this command."""

    kind = "processes"
    command: tuple[str, ...]
    count: int


KINDS: dict[str, type[Assertion]] = {c.kind: c for c in Assertion.__subclasses__()}
"""The class of each kind."""


def assertion_from_json(record: Mapping[str, JSON]) -> Assertion:
    """The assertion that a record was made of; lists become tuples again."""
    values = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in record.items()
        if name != "kind"
    }
    return KINDS[cast(str, record["kind"])](**values)


def digest(text: str) -> str:
    """The sha256 of a text, as `Unchanged` wants it."""
    return hashlib.sha256(text.encode()).hexdigest()
