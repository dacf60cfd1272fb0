"""Typed assertions about files, accounts and processes, and how they reach the state checker.

Each class is one kind in `state_checker.CHECKS`; its fields are that check's arguments.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal, cast, dataclass_transform

from practicum.core.task import JSON
from practicum_envs.shell import state_checker


@dataclass_transform(frozen_default=True)
class Assertion:
    """One claim about the final state. A subclass is a frozen dataclass."""

    kind: ClassVar[str]
    """The name of its check: that of the class, in lower case with underscores."""

    def __init_subclass__(cls) -> None:
        cls.kind = re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()
        dataclass(frozen=True)(cls)

    def to_json(self) -> dict[str, JSON]:
        """The record the checker reads, as JSON gives it back: tuples are lists."""
        return cast(dict[str, JSON], json.loads(json.dumps({"kind": self.kind, **vars(self)})))


class Content(Assertion):
    """The file holds this text, with or without a final newline."""

    path: str
    text: str
    trimmed: bool = False
    """Whether whitespace around the text is ignored."""


class Contains(Assertion):
    """The text occurs so many times in the file."""

    path: str
    text: str
    times: int = 1


class Lines(Assertion):
    """The file's lines, trailing whitespace ignored."""

    path: str
    lines: tuple[str, ...]
    ordered: bool = True


class Regex(Assertion):
    """The pattern is found in the file, or is not."""

    path: str
    pattern: str
    present: bool = True


class Unchanged(Assertion):
    """The file is byte for byte what it was."""

    path: str
    sha256: str


class Absent(Assertion):
    """Nothing is at the path."""

    path: str


class Type(Assertion):
    """What is at the path, links not followed."""

    path: str
    type: Literal["file", "folder", "link"]


class Mode(Assertion):
    """The permission bits, all twelve."""

    path: str
    mode: int


class Modified(Assertion):
    """When the file was last modified, in seconds since 1970."""

    path: str
    seconds: int


class Owner(Assertion):
    """The user who owns it."""

    path: str
    user: str


class GroupOwner(Assertion):
    """The group it belongs to."""

    path: str
    group: str


class Symlink(Assertion):
    """A symbolic link to the target."""

    path: str
    target: str
    exact: bool = False
    """Whether the link's text must equal the target, and not just resolve to it."""


class SameFile(Assertion):
    """Two names of one plain file; without `same`, two files of their own."""

    path: str
    other: str
    same: bool = True


class Listing(Assertion):
    """All names in a folder, hidden ones too."""

    path: str
    names: tuple[str, ...]
    recursive: bool = False


class User(Assertion):
    """The account is there; None stands for any value."""

    name: str
    uid: int | None = None
    comment: str | None = None
    home: str | None = None
    shell: str | None = None
    primary_group: str | None = None


class NoAccount(Assertion):
    """No user (`passwd`) or no group (`group`) has the name."""

    name: str
    file: Literal["passwd", "group"]


class GroupsOfUser(Assertion):
    """The supplementary groups of a user."""

    name: str
    groups: tuple[str, ...]
    exactly: bool = False


class Group(Assertion):
    """The group is there."""

    name: str
    gid_range: tuple[int, int] | None = None
    members: tuple[str, ...] | None = None


class GroupAdmins(Assertion):
    """Who may administer the group."""

    name: str
    admins: tuple[str, ...]


class Ageing(Assertion):
    """Ageing of a user's password and account, in days as /etc/shadow has them."""

    name: str
    values: Mapping[str, int]


class PasswordLocked(Assertion):
    """The user's password is locked, or is not."""

    name: str
    locked: bool


class Archive(Assertion):
    """An archive holds exactly these files; a `gz` file has one, with an empty name."""

    path: str
    format: Literal["tar", "tar.gz", "zip", "gz"]
    members: Mapping[str, str]


class Process(Assertion):
    """The process whose number the file holds is alive and was started as this command."""

    pidfile: str
    command: tuple[str, ...]


class Processes(Assertion):
    """So many live processes were started as this command."""

    command: tuple[str, ...]
    count: int


KINDS: dict[str, type[Assertion]] = {c.kind: c for c in Assertion.__subclasses__()}
"""The class of each kind."""


def digest(text: str) -> str:
    """The sha256 of a text, as `Unchanged` wants it."""
    return hashlib.sha256(text.encode()).hexdigest()


RUN_MAIN = 'if __name__ == "__main__":\n    main()'


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether one assertion holds, and what was found where it does not."""

    ok: bool
    why: str = ""


def checker_input(assertions: Sequence[JSON], nonce: str) -> bytes:
    """The checker's program text with its assertions, for `Sandbox.inspect`.

    The nonce is secret: a process of the policy that writes to the same output cannot forge a
    verdict line, which begins with it.
    """
    program = Path(state_checker.__file__).read_text(encoding="utf-8")
    call = f"report({nonce!r}, json.loads({json.dumps(list(assertions))!r}))"
    return f"{program}\n\ndef main():\n    {call}\n\n{RUN_MAIN}\n".encode()


def read_verdicts(stdout: str, nonce: str, count: int) -> tuple[Verdict, ...]:
    """The verdicts a checker printed; `ValueError` unless its output is exactly that one line."""
    word, _, rest = stdout.strip().partition(" ")
    if word != nonce or "\n" in rest:
        raise ValueError(f"the checker's line is missing in {stdout[:200]!r}")
    found = json.loads(rest)
    if not isinstance(found, list) or len(found) != count:
        raise ValueError(f"the checker gave no list of {count} verdicts")
    if not all(isinstance(item, dict) and type(item.get("ok")) is bool for item in found):
        raise ValueError("the checker gave verdicts that are neither true nor false")
    return tuple(Verdict(item["ok"], str(item.get("why", ""))) for item in found)
