"""What has changed in a company since its snapshot: people, rooms, projects, boards and files.

Whatever is stored is compared, so that no service can hold something that nobody looks at; left out
is only what changes by itself (times, counters) and what logging in leaves. A record that is new or
gone is one change, of one that stays every field that differs is one. Names in `where` are those
that people use: `("gitlab", "projects", "root/shop", "issues", "3", "state")`.
"""

import filecmp
import json
import os
import stat
import subprocess
from collections.abc import Collection, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from practicum_envs.office.company_seed import AGENT
from practicum_envs.office.company_state import (
    FILES,
    REPOSITORIES,
    STATE,
    Company,
    Document,
)
from practicum_envs.office.folders import entries_below
from practicum_envs.office.git_repository import GitError, GitRepository

MOST_CHANGES = 1000
"""Changes that are listed; work changes a few dozen."""
MOST_SHOWN = 20_000
"""Characters of a new value that are shown."""
BY_THEMSELVES: dict[str, frozenset[str]] = {
    "rocketchat": frozenset(
        (
            *("tokens", "createdAt", "status", "statusText", "statusConnection", "lastLogin", "ts"),
            *("_updatedAt", "urls", "mentions", "channels", "md", "tcount", "tlm", "u", "rid"),
            *("msgs", "lm", "lastMessage", "fname", "nameInsensitive", "uids", "usersCount"),
        )
    ),
    "gitlab": frozenset(
        (
            *("tokens", "created_at", "updated_at", "last_activity_at", "last_sign_in_at"),
            *("closed_at", "closed_by", "merged_at", "was_pushed", "head", "base", "web_url"),
            *("star_count", "forks_count", "current_sign_in_at", "last_activity_on"),
            *("todos", "upvotes", "downvotes"),
        )
    ),
    "plane": frozenset(
        (
            *("keys", "sessions", "created_at", "updated_at", "updated_by", "completed_at"),
            *("sequence", "sort_order"),
        )
    ),
    "owncloud": frozenset(("sessions", "stime")),
}
"""Fields that follow from others, tell the time, or are left by a login."""
NAMES = (
    *("path_with_namespace", "full_path", "username", "iid", "tag_name", "name", "title", "id"),
    "_id",
)
"""Fields by which a record is known, the first that it has."""
MISSING = object()

Kind = Literal["added", "changed", "removed"]
Found = tuple[Kind, tuple[str, ...], Any]
"""What happened, where, and the value that is there now."""


def changes_of(company: Company) -> list[Found]:
    """All differences from the snapshot; of more than `MOST_CHANGES` the rest is one more.

    No task allows that one: a flood of harmless changes must not hide what comes after it.
    """
    before = json.loads((company.snapshot / STATE).read_bytes())
    ahead = _all_changes(company, before)
    found = [(kind, where, _shown(value)) for kind, where, value in islice(ahead, MOST_CHANGES)]
    if next(ahead, None) is not None:
        found.append(("changed", (f"more than {MOST_CHANGES} things",), None))
    return found


def _all_changes(company: Company, before: Document) -> Iterator[Found]:
    now = company.data
    for service, by_themselves in BY_THEMSELVES.items():
        old, new = before[service], now[service]
        if service == "rocketchat":
            new = _chat(new)
            old = _with_talks(_chat(old), new)
        yield from differences((service,), old, new, by_themselves)
    yield from _file_changes(company)
    for number, project in before["gitlab"]["projects"].items():
        if number in now["gitlab"]["projects"]:
            where = ("gitlab", "projects", project["path_with_namespace"])
            name = f"{REPOSITORIES}/{number}.git"
            yield from _ref_changes(where, company.snapshot / name, company.folder / name)


def _shown(value: Any) -> Any:
    text = json.dumps(value)
    return value if len(text) <= MOST_SHOWN else f"{text[:100]}... ({len(text)} characters)"


def differences(
    where: tuple[str, ...], before: Any, after: Any, left_out: Collection[str]
) -> Iterator[Found]:
    """How two records differ, fields that are left out aside.

    >>> list(differences(("shop",), {"open": True, "at": 1}, {"open": False, "at": 2}, {"at"}))
    [('changed', ('shop', 'open'), False)]
    """
    if before == after:
        return
    if before is MISSING:
        yield "added", where, after
    elif after is MISSING:
        yield "removed", where, None
    elif (old := _table(before)) is not None and (new := _table(after)) is not None:
        for key in dict.fromkeys((*old, *new)):
            if key not in left_out:
                one, other = old.get(key, MISSING), new.get(key, MISSING)
                name = _name(key, other if one is MISSING else one)
                yield from differences((*where, name), one, other, left_out)
    else:
        yield "changed", where, after


def _table(value: Any) -> dict[str, Any] | None:
    """A record, or a list of records by their ids; None where it is neither.

    Notes that GitLab writes itself only repeat what else has changed.
    """
    if isinstance(value, dict):
        return value
    if isinstance(value, list) and all(isinstance(one, dict) for one in value):
        own = [one for one in value if one.get("system") is not True]
        return {str(one.get("id", one.get("_id", n))): one for n, one in enumerate(own)}
    return None


def _name(key: str, record: Any) -> str:
    """How people call a record that is stored by its id; other keys are names already."""
    if isinstance(record, dict) and key in (str(record.get("id")), record.get("_id")):
        return next(str(record[name]) for name in NAMES if record.get(name) not in (None, ""))
    return key


# RocketChat.


def _chat(data: Document) -> Document:
    """Its state with the messages in their rooms; notes of the system only repeat what is there."""
    rooms = {}
    for key, room in data["rooms"].items():
        said = [
            {**one, "by": one["u"]["username"]} for one in data["messages"][key] if "t" not in one
        ]
        rooms[key] = {**room, "name": room_name(room), "messages": said}
    return {**{k: v for k, v in data.items() if k != "messages"}, "rooms": rooms}


def room_name(room: Document) -> str:
    """`#channel`, or `@person` for direct messages with the agent.

    >>> room_name({"t": "d", "members": ["theagentcompany", "ann_lee"]})
    '@ann_lee'
    """
    if room["t"] != "d":
        return f"#{room['name']}"
    others = sorted(name for name in room["members"] if name != AGENT)
    who = "+".join(others) or AGENT
    return f"@{who}" if AGENT in room["members"] else f"between {who}"


def _with_talks(before: Document, after: Document) -> Document:
    """As if all direct rooms had been open before: opening one says nothing to anybody."""
    new = {
        key: {**room, "messages": []}
        for key, room in after["rooms"].items()
        if room["t"] == "d" and key not in before["rooms"]
    }
    return {**before, "rooms": {**before["rooms"], **new}}


# ownCloud.


def _file_changes(company: Company) -> Iterator[Found]:
    """Unchanged files are still the snapshot's own: links to the same content."""
    old, new = company.snapshot / FILES, company.folder / FILES
    before, after = dict(entries_below(old)), dict(entries_below(new))
    for path in sorted(before.keys() | after):
        one, other = before.get(path), after.get(path)
        is_folder = stat.S_ISDIR((other or one).st_mode)  # type: ignore[union-attr]
        owner, _, name = f"{path}{'/' * is_folder}".partition("/")
        where = ("owncloud", "files", owner, name)
        if other is None:
            yield "removed", where, None
        elif one is None:
            yield "added", where, other.st_size
        elif is_folder != stat.S_ISDIR(one.st_mode) or not (
            is_folder or _is_same(one, other, old / path, new / path)
        ):
            yield "changed", where, other.st_size


def _is_same(one: os.stat_result, other: os.stat_result, old: Path, new: Path) -> bool:
    if (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino):
        return True
    return one.st_size == other.st_size and filecmp.cmp(old, new, shallow=False)


# Git.


def _ref_changes(where: tuple[str, ...], before: Path, after: Path) -> Iterator[Found]:
    """Branches and tags; of a branch that went on, its files that differ."""
    old, new = _refs(before), _refs(after)
    for ref in sorted(old.keys() | new):
        if old.get(ref) == new.get(ref):
            continue
        kind, _, name = ref.partition("/")
        place = (*where, {"heads": "branches"}.get(kind, kind), name)
        if ref not in new:
            yield "removed", place, None
        elif ref not in old:
            yield "added", place, new[ref]
        else:
            yield from _commits(place, GitRepository(after), old[ref], new[ref])


def _refs(repository: Path) -> dict[str, str]:
    """Commits by ref, such as `heads/main`, read without running git."""
    found = {}
    packed = repository / "packed-refs"
    for line in packed.read_text(errors="replace").splitlines() if packed.exists() else ():
        commit, _, ref = line.partition(" ")
        if ref.startswith("refs/"):
            found[ref.removeprefix("refs/")] = commit
    for path, entry in entries_below(repository / "refs"):
        if not stat.S_ISDIR(entry.st_mode):
            found[path] = (repository / "refs" / path).read_text(errors="replace").strip()
    return found


def _commits(place: tuple[str, ...], git: GitRepository, old: str, new: str) -> Iterator[Found]:
    """The files that commits changed; a history that was rewritten changes the branch itself."""
    try:
        if git.text("merge-base", old, new) != old:
            yield "changed", place, new
        shown = git.git("diff-tree", "-r", "-z", "--no-renames", "--name-status", old, new)
    except (GitError, subprocess.TimeoutExpired):
        yield "changed", place, new
        return
    words = shown.decode(errors="replace").split("\0")
    for status, path in zip(words[::2], words[1::2], strict=False):
        kind: Kind = "added" if status == "A" else "removed" if status == "D" else "changed"
        yield kind, (*place, path), None
