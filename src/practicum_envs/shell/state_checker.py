"""Tests assertions about files, accounts and processes, inside the sandbox.

The text of this file, with a `main` that calls `report` appended, is run by `Sandbox.inspect` (see
`generated.assertions.checker_input`), so it imports only the standard library and starts nothing.
It prints one line, a nonce and a JSON list with one `{"ok": ..., "why": ...}` for each assertion,
and exits with 0. Any other output means that the checker failed, which says nothing about the
policy.

Everything it reads was left by untrusted commands. Files are opened without following links and
only if they are regular files (a FIFO would block), reads are bounded, and accounts are read from
/etc directly, not through NSS, which the policy could redirect in /etc/nsswitch.conf.
"""

import gzip
import hashlib
import io
import json
import os
import re
import stat
import tarfile
import zipfile
from collections.abc import Callable
from typing import Any

READ_LIMIT = 4_194_304
"""Bytes read of one file, and of all that an archive unpacks to."""
ENTRY_LIMIT = 2_000
"""Entries looked at in one folder tree or archive."""
ETC = "/etc"
PROC = "/proc"

Assertion = dict[str, Any]

# What is otherwise loaded on first use, where the policy may have put something else in its place:
# the settings of OpenSSL, and the encoding of names in zip archives.
hashlib.sha256()
"".encode("cp437")


class Wrong(Exception):
    """The state is not the one asserted; the text says how."""


STATE_ERRORS = (Wrong, OSError, ValueError)
"""Errors that untrusted state can cause: the assertion fails. Any other error is a bug of ours."""


def judge_state(assertions: list[Assertion]) -> list[dict[str, Any]]:
    """One `{"ok", "why"}` for each assertion; an unknown kind is an error, never a verdict."""
    verdicts: list[dict[str, Any]] = []
    for assertion in assertions:
        check = CHECKS[assertion["kind"]]
        try:
            check(assertion)
        except STATE_ERRORS as error:
            why = f"{assertion['kind']}: {error}"[:300].encode("utf-8", "replace").decode()
            verdicts.append({"ok": False, "why": why})
        else:
            verdicts.append({"ok": True, "why": ""})
    return verdicts


def report(nonce: str, assertions: list[Assertion]) -> None:
    """Print the verdict line."""
    print(nonce, json.dumps(judge_state(assertions)), flush=True)


def expect(claim: bool, why: str) -> None:
    """Raise `Wrong` unless the claim holds."""
    if not claim:
        raise Wrong(why)


def read_bytes(path: str) -> bytes:
    """A regular file's bytes; never through a link, never from a pipe or device."""
    # Twice: lstat before opening, since opening a device can have effects; fstat after, since a
    # process of the policy may have replaced the file in between.
    expect(stat.S_ISREG(os.lstat(path).st_mode), f"{path} is not a plain file")
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as file:
        expect(stat.S_ISREG(os.fstat(handle).st_mode), f"{path} is not a plain file")
        content = file.read(READ_LIMIT + 1)
    expect(len(content) <= READ_LIMIT, f"{path} is longer than {READ_LIMIT} bytes")
    return content


def read_text(path: str) -> str:
    """A plain file's text."""
    return read_bytes(path).decode("utf-8")


def without_newline(text: str) -> str:
    """Without the final newline, which never matters to a task."""
    return text.removesuffix("\n")


def shorten(text: str) -> str:
    """At most 60 characters of a text, for an error."""
    return repr(text if len(text) <= 60 else text[:57] + "...")


def content(a: Assertion) -> None:
    """The file holds the text; with `trimmed`, whitespace around it is ignored."""
    found, wanted = read_text(a["path"]), a["text"]
    same = (
        found.strip() == wanted.strip()
        if a["trimmed"]
        else without_newline(found) == without_newline(wanted)
    )
    expect(same, f"{a['path']} holds {shorten(found)}")


def contains(a: Assertion) -> None:
    """The text occurs so many times in the file."""
    times = read_text(a["path"]).count(a["text"])
    expect(times == a["times"], f"{shorten(a['text'])} is {times} times in {a['path']}")


def lines(a: Assertion) -> None:
    """The file's lines, in this order or in any."""
    found, wanted = without_newline(read_text(a["path"])).split("\n"), list(a["lines"])
    found = [line.rstrip() for line in found] if wanted or found != [""] else []
    if not a["ordered"]:
        found, wanted = sorted(found), sorted(wanted)
    expect(found == wanted, f"the lines of {a['path']} are {shorten(chr(10).join(found))}")


def regex(a: Assertion) -> None:
    """The pattern is found in the file, or is not."""
    found = re.search(a["pattern"], read_text(a["path"]), re.MULTILINE) is not None
    expect(found == a["present"], f"{a['pattern']!r} is {'' if found else 'not '}in {a['path']}")


def unchanged(a: Assertion) -> None:
    """The file is byte for byte what it was."""
    digest = hashlib.sha256(read_bytes(a["path"])).hexdigest()
    expect(digest == a["sha256"], f"{a['path']} was changed")


def absent(a: Assertion) -> None:
    """Nothing is there, not even a broken link."""
    expect(not os.path.lexists(a["path"]), f"{a['path']} is there")


def type_of(path: str) -> str:
    """`file`, `folder`, `link` or `other`; links are not followed."""
    mode = os.lstat(path).st_mode
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "folder"
    return "link" if stat.S_ISLNK(mode) else "other"


def type_is(a: Assertion) -> None:
    """A plain file, a folder or a symbolic link is there."""
    found = type_of(a["path"])
    expect(found == a["type"], f"{a['path']} is a {found}")


def mode(a: Assertion) -> None:
    """The permission bits, set-id and sticky bits included; never those of a link."""
    expect(type_of(a["path"]) in {"file", "folder"}, f"{a['path']} is no file or folder")
    found = stat.S_IMODE(os.lstat(a["path"]).st_mode)
    expect(found == a["mode"], f"{a['path']} has mode {found:o}")


def modified(a: Assertion) -> None:
    """The file's modification time, in whole seconds."""
    found = int(os.lstat(a["path"]).st_mtime)
    expect(found == a["seconds"], f"{a['path']} was modified at {found}")


def owner(a: Assertion) -> None:
    """The user who owns it."""
    wanted = int(user_row(a["user"])[2])
    found = os.lstat(a["path"]).st_uid
    expect(found == wanted, f"{a['path']} belongs to uid {found}")


def group_owner(a: Assertion) -> None:
    """The group it belongs to."""
    wanted = int(group_row(a["group"])[2])
    found = os.lstat(a["path"]).st_gid
    expect(found == wanted, f"{a['path']} belongs to gid {found}")


def symlink(a: Assertion) -> None:
    """A symbolic link to the target; with `exact`, its text equals it, else it resolves to it."""
    expect(type_of(a["path"]) == "link", f"{a['path']} is no symbolic link")
    found = os.readlink(a["path"])
    if not a["exact"]:
        folder = os.path.dirname(a["path"])
        found = os.path.normpath(os.path.join(folder, found))
    expect(found == a["target"], f"{a['path']} points to {found}")


def same_file(a: Assertion) -> None:
    """Two names of one file (hard links), or two independent files."""
    one, other = os.lstat(a["path"]), os.lstat(a["other"])
    expect(stat.S_ISREG(one.st_mode), f"{a['path']} is not a plain file")
    expect(stat.S_ISREG(other.st_mode), f"{a['other']} is not a plain file")
    same = (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)
    expect(same == a["same"], f"{a['path']} and {a['other']} are {'one' if same else 'two'}")


def listing(a: Assertion) -> None:
    """All names in a folder, hidden ones too; with `recursive`, of the tree below it."""
    expect(type_of(a["path"]) == "folder", f"{a['path']} is no folder")
    found = sorted(names_below(a["path"], a["recursive"]))
    expect(found == sorted(a["names"]), f"{a['path']} holds {shorten(' '.join(found))}")


def names_below(folder: str, recursive: bool) -> list[str]:
    """Names relative to the folder; links are not entered."""
    found: list[str] = []
    waiting = [""]
    while waiting:
        here = waiting.pop()
        with os.scandir(os.path.join(folder, here)) as entries:
            for entry in entries:
                name = os.path.join(here, entry.name)
                found.append(name)
                expect(len(found) <= ENTRY_LIMIT, f"{folder} holds over {ENTRY_LIMIT} entries")
                if recursive and entry.is_dir(follow_symlinks=False):
                    waiting.append(name)
    return found


def rows(file: str) -> list[list[str]]:
    """The records of an account file, split at the colons."""
    return [line.split(":") for line in read_text(os.path.join(ETC, file)).splitlines() if line]


def row(file: str, name: str, fields: int) -> list[str]:
    """The one record of a name."""
    found = [r for r in rows(file) if r[0] == name]
    expect(len(found) == 1 and len(found[0]) == fields, f"{name} is not in {file}")
    return found[0]


def user_row(name: str) -> list[str]:
    """Name, password, uid, gid, comment, home, shell."""
    return row("passwd", name, 7)


def group_row(name: str) -> list[str]:
    """Name, password, gid, members."""
    return row("group", name, 4)


def user(a: Assertion) -> None:
    """The account is there with these values, None where any will do."""
    record = user_row(a["name"])
    _, _, uid, gid, comment, home, shell = record
    for what, found in (("uid", int(uid)), ("comment", comment), ("home", home), ("shell", shell)):
        expect(a[what] in (None, found), f"{a['name']} has {what} {found!r}")
    if a["primary_group"] is not None:
        expect(group_row(a["primary_group"])[2] == gid, f"{a['name']} has primary gid {gid}")


def no_account(a: Assertion) -> None:
    """No user, or no group, has the name."""
    expect(all(r[0] != a["name"] for r in rows(a["file"])), f"{a['name']} is in {a['file']}")


def groups_of_user(a: Assertion) -> None:
    """Which supplementary groups the user is in; all of them with `exactly`."""
    user_row(a["name"])
    found = {r[0] for r in rows("group") if len(r) == 4 and a["name"] in r[3].split(",")}
    missing, surplus = set(a["groups"]) - found, found - set(a["groups"])
    expect(not missing, f"{a['name']} is not in {sorted(missing)}")
    expect(not (a["exactly"] and surplus), f"{a['name']} is also in {sorted(surplus)}")


def group(a: Assertion) -> None:
    """The group is there, its number in the range, with these members where they are given."""
    record = group_row(a["name"])
    low, high = a["gid_range"] or (0, 2**32)
    expect(low <= int(record[2]) <= high, f"{a['name']} has gid {record[2]}")
    if a["members"] is not None:
        found = sorted(name for name in record[3].split(",") if name)
        expect(found == sorted(a["members"]), f"{a['name']} has the members {found}")


def group_admins(a: Assertion) -> None:
    """Who may administer the group."""
    found = sorted(name for name in row("gshadow", a["name"], 4)[2].split(",") if name)
    expect(found == sorted(a["admins"]), f"{a['name']} has the administrators {found}")


SHADOW_FIELDS = {"changed": 2, "min_days": 3, "max_days": 4, "warn_days": 5, "inactive_days": 6,
                 "expires": 7}  # fmt: skip


def ageing(a: Assertion) -> None:
    """The ageing of password and account, in days; only the values given are looked at."""
    record = row("shadow", a["name"], 9)
    for what, wanted in a["values"].items():
        found = record[SHADOW_FIELDS[what]]
        expect(found == str(wanted), f"{a['name']} has {what} {found or 'unset'}")


def password_locked(a: Assertion) -> None:
    """The password is locked, or is not."""
    locked = row("shadow", a["name"], 9)[1].startswith("!")
    expect(
        locked == a["locked"], f"the password of {a['name']} is {'' if locked else 'not '}locked"
    )


def archive(a: Assertion) -> None:
    """An archive of this format holds exactly these plain files with these texts."""
    readers = {"tar": tar_members, "zip": zip_members, "gz": gz_member}
    inner, _, outer = a["format"].partition(".")
    data = read_bytes(a["path"])
    try:
        found = readers[inner](gz_member(data)[""] if outer else data)
    except Exception as error:
        raise Wrong(f"{a['path']} is no sound {a['format']} archive: {error}") from error
    expect(sorted(found) == sorted(a["members"]), f"{a['path']} holds {sorted(found)[:8]}")
    for name, text in a["members"].items():
        same = without_newline(found[name].decode("utf-8")) == without_newline(text)
        expect(same, f"{name} in {a['path']} has another content")


def bounded(file: Any, left: int) -> bytes:
    """All of a stream, at most `left` bytes: an archive bomb must not fill the memory."""
    content = file.read(left + 1)
    expect(len(content) <= left, f"it unpacks to over {READ_LIMIT} bytes")
    return bytes(content)


def tar_members(data: bytes) -> dict[str, bytes]:
    """Plain files of an uncompressed tar archive by their names, a leading `./` left out."""
    found: dict[str, bytes] = {}
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as tar:
        for count, member in enumerate(tar):
            expect(count < ENTRY_LIMIT, f"it has over {ENTRY_LIMIT} members")
            if member.isdir():
                continue
            file = tar.extractfile(member) if member.isreg() else None
            expect(file is not None, f"its member {member.name} is not a plain file")
            left = READ_LIMIT - sum(map(len, found.values()))
            found[os.path.normpath(member.name)] = bounded(file, left)
    return found


def gz_member(data: bytes) -> dict[str, bytes]:
    """What a gzip file unpacks to, under an empty name."""
    with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
        return {"": bounded(file, READ_LIMIT)}


def zip_members(data: bytes) -> dict[str, bytes]:
    """Plain files of a zip archive by their names."""
    found: dict[str, bytes] = {}
    with zipfile.ZipFile(io.BytesIO(data)) as archived:
        infos = archived.infolist()
        expect(len(infos) <= ENTRY_LIMIT, f"it has over {ENTRY_LIMIT} members")
        for info in infos:
            if not info.is_dir():
                left = READ_LIMIT - sum(map(len, found.values()))
                with archived.open(info) as file:
                    found[os.path.normpath(info.filename)] = bounded(file, left)
    return found


def command_line(pid: str) -> list[str] | None:
    """A live process's program (base name) and arguments; None for no process or a zombie."""
    try:
        with open(os.path.join(PROC, pid, "stat"), "rb") as file:
            state = file.read(4096).rpartition(b")")[2].split()[0]
        with open(os.path.join(PROC, pid, "cmdline"), "rb") as file:
            words = file.read(65_536).decode("utf-8", "replace").split("\0")
    except (OSError, IndexError):
        return None
    return None if state in (b"Z", b"X") else [os.path.basename(words[0]), *words[1:-1]]


def process(a: Assertion) -> None:
    """The process whose number the file holds is alive and was started as this command."""
    pid = read_text(a["pidfile"]).strip()
    expect(re.fullmatch("[1-9][0-9]{0,9}", pid) is not None, f"{a['pidfile']} holds no number")
    found = command_line(pid)
    expect(found is not None, f"process {pid} is not alive")
    expect(found == a["command"], f"process {pid} is {shorten(' '.join(found or ()))}")


def processes(a: Assertion) -> None:
    """So many live processes were started as this command."""
    pids = [name for name in os.listdir(PROC) if name.isdigit()]
    count = sum(command_line(pid) == a["command"] for pid in pids)
    expect(count == a["count"], f"{' '.join(a['command'])} runs {count} times")


CHECKS: dict[str, Callable[[Assertion], None]] = {
    "absent": absent, "ageing": ageing, "archive": archive, "contains": contains,
    "content": content, "group": group, "group_admins": group_admins,
    "group_owner": group_owner, "groups_of_user": groups_of_user, "lines": lines,
    "listing": listing, "mode": mode, "modified": modified, "no_account": no_account,
    "owner": owner, "password_locked": password_locked, "process": process,
    "processes": processes, "regex": regex, "same_file": same_file, "symlink": symlink,
    "type": type_is, "unchanged": unchanged, "user": user,
}  # fmt: skip
"""The check of each kind of assertion."""
