"""`Cloud`: the state of ownCloud: a folder of files for each user, and shares of what is in it.

Files lie under `files/USER/`. Paths come from requests, so every one goes through `Cloud.place`,
which knows no way out of a user's folder; links are never made and never followed.
"""

import hashlib
import mimetypes
import os
import re
import shutil
import zlib
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from practicum_envs.office.company_state import FILES, Company, Document
from practicum_envs.office.folders import (
    BLOCK,
    copy_folder,
    entries_below,
    in_blocks,
    remove_folder,
)
from practicum_envs.office.services.web import Refused

READ, UPDATE, CREATE, DELETE, SHARE = 1, 2, 4, 8, 16
ALL = READ | UPDATE | CREATE | DELETE | SHARE
USER_SHARE, GROUP_SHARE, LINK_SHARE = 0, 1, 3
NOT_IN_XML = re.compile("[\\x00-\\x1f\\x7f\\ufffe\\uffff]")
MOST_DEPTH = 100
"""Folders in folders."""
MOST_PATH = 1800
"""Bytes of a whole path, well below what a file system takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a path leads: whose folder, the path in it, and what may be done there."""

    owner: str
    path: str
    """Without slashes at its ends; empty for the whole folder."""
    file: Path
    permissions: int = ALL

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]


class Cloud:
    """ownCloud's state in a company."""

    def __init__(self, company: Company) -> None:
        self.company = company
        self.data = company.part("owncloud")
        self.users: dict[str, Document] = self.data["users"]
        self.shares: dict[str, Document] = self.data["shares"]

    def root(self, username: str) -> Path:
        """A user's folder."""
        return self.company.folder / FILES / username

    def add_user(self, username: str, name: str, password: str, email: str = "") -> None:
        """A new account with an empty folder."""
        self.users[username] = {
            "id": username,
            "display-name": name,
            "email": email,
            "password": password,
            "enabled": "true",
        }
        self.root(username).mkdir(parents=True, exist_ok=True)

    def place(self, username: str, path: str) -> Place:
        """Where a user's path leads; what others share with them is in their own folder too."""
        parts = parts_of(path)
        for share in self.received(username) if parts else ():
            if share["file_target"].strip("/") == parts[0]:
                inside = "/".join([share["path"].strip("/"), *parts[1:]])
                return self._own(share["owner"], inside, share["permissions"])
        return self._own(username, "/".join(parts), ALL)

    def _own(self, owner: str, path: str, permissions: int) -> Place:
        return Place(owner=owner, path=path, file=self.root(owner) / path, permissions=permissions)

    def entries(self, username: str, place: Place) -> list[str]:
        """The names in a folder, shares included."""
        names = [one.name for one in os.scandir(place.file)]
        if not place.path and place.owner == username:
            names += [share["file_target"].strip("/") for share in self.received(username)]
        return sorted(set(names))

    def received(self, username: str) -> list[Document]:
        """What others share with a user."""
        return [
            share
            for share in self.shares.values()
            if share["share_type"] == USER_SHARE and share["share_with"] == username
        ]

    # Changes.

    def write(self, place: Place, content: bytes, changed_s: float | None = None) -> bool:
        """Put a file in place; whether it is new. `changed_s` is when its client changed it."""
        is_new = not place.file.exists()
        require(place, CREATE if is_new else UPDATE)
        if place.file.is_dir():
            raise Refused(409, "There is already a folder with that name")
        if not place.file.parent.is_dir():
            raise Refused(409, "Parent node does not exist")
        self.company.require_room(in_blocks(len(content)))
        at = self.company.now().timestamp()
        self._replace(place.file, content, at if changed_s is None else changed_s)
        self.touch(place, at)
        return is_new

    def _replace(self, file: Path, content: bytes, changed_s: float) -> None:
        """Another file in the place of one: what a snapshot shares is never written."""
        fresh = self.company.folder / f"partial-{self.company.number('partial')}"
        fresh.write_bytes(content)
        os.utime(fresh, (changed_s, changed_s))
        fresh.replace(file)

    def date(self, place: Place, changed_s: float) -> None:
        """Say when a file or folder was changed."""
        require(place, UPDATE)
        at = self.company.now().timestamp()
        if place.file.is_dir():
            self.touch(place, at)
            os.utime(place.file, (changed_s, changed_s))
        else:
            self.company.require_room(in_blocks(place.file.stat().st_size))
            self._replace(place.file, place.file.read_bytes(), changed_s)
            self.touch(place, at)

    def touch(self, place: Place, at: float) -> None:
        """Note a change of what is at a place: it and all folders above have new entity tags.

        A file keeps its number in the file system wherever it is moved, so the notes go by that.
        """
        number = self.company.number("etag")
        root = self.root(place.owner)
        changed = [place.file, *place.file.parents] if place.file != root else [root]
        for file in changed[: len(place.file.relative_to(root).parts) + 1]:
            if file.exists():
                self.company.etags[file.stat().st_ino] = number
                if file.is_dir():
                    os.utime(file, (at, at))

    def etag(self, place: Place) -> str:
        """A text that changes whenever a file does, and a folder's with all that is in it."""
        found = place.file.stat()
        number = self.company.etags.get(found.st_ino, 0)
        own = "" if place.file.is_dir() else f"{found.st_mtime_ns} {found.st_size}"
        text = f"{number} {own} {place.name}"
        return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()

    def make_folder(self, place: Place) -> None:
        """A new folder."""
        require(place, CREATE)
        if place.file.exists():
            raise Refused(405, "The resource you tried to create already exists")
        if not place.file.parent.is_dir():
            raise Refused(409, "Parent node does not exist")
        self.company.require_room(BLOCK)
        place.file.mkdir()
        self.touch(place, self.company.now().timestamp())

    def delete(self, place: Place) -> None:
        """Delete a file or folder, and the shares of it."""
        require(place, DELETE)
        if not place.path:
            raise Refused(403, "The folder of a user cannot be deleted")
        self._remove(place.file)
        self.touch(place, self.company.now().timestamp())
        for key, share in list(self.shares.items()):
            path = share["path"].strip("/")
            if share["owner"] == place.owner and f"{path}/".startswith(f"{place.path}/"):
                del self.shares[key]

    def _remove(self, file: Path) -> None:
        if not os.path.lexists(file):
            raise Refused(404, "File not found")
        if file.is_dir() and not file.is_symlink():
            remove_folder(file)
        else:
            file.unlink()

    def carry(self, source: Place, target: Place, *, is_move: bool, overwrites: bool) -> bool:
        """Move or copy a file or folder; whether nothing was at the target before."""
        require(source, DELETE if is_move else READ)
        is_new = not target.file.exists()
        require(target, CREATE if is_new else UPDATE)
        if not source.file.exists():
            raise Refused(404, "File not found")
        if not is_new and not overwrites:
            raise Refused(412, "The destination node already exists, and the overwrite header is F")
        if not target.file.parent.is_dir():
            raise Refused(409, "The destination node is not found")
        inside = f"{target.owner}/{target.path}/".startswith(f"{source.owner}/{source.path}/")
        if inside or not source.path:
            raise Refused(403, "A folder cannot be put into itself")
        below = dict(entries_below(source.file))
        for path in below:
            parts_of(f"{target.path}/{path}")  # refused where it would be too deep or too long
        if not is_move:
            sizes = [found.st_size for found in (source.file.stat(), *below.values())]
            self.company.require_room(sum(map(in_blocks, sizes)))
        if not is_new:
            self._remove(target.file)
        at = self.company.now().timestamp()
        if is_move:
            source.file.rename(target.file)
            self._follow(source, target)
            self.touch(source, at)
        elif source.file.is_dir():
            copy_folder(source.file, target.file)
        else:
            shutil.copyfile(source.file, target.file)
        if not is_move:
            self._date_copy(target.file, at)
        self.touch(target, at)
        return is_new

    def _date_copy(self, copied: Path, at: float) -> None:
        """A copy is as old as the copying, and no file that was here before."""
        number = self.company.number("etag")
        for file in (copied, *(copied / path for path, _ in entries_below(copied))):
            os.utime(file, (at, at))
            self.company.etags[file.stat().st_ino] = number

    def _follow(self, source: Place, target: Place) -> None:
        """Shares lead to where their files are now."""
        for share in self.shares.values():
            path = share["path"].strip("/")
            if share["owner"] == source.owner and f"{path}/".startswith(f"{source.path}/"):
                share["path"] = "/" + (target.path + path[len(source.path) :]).strip("/")

    # Shares.

    def share(self, username: str, place: Place, share_type: int, **more: object) -> Document:
        """Share a file or folder with a user, or with whoever has the link."""
        if not place.file.exists() or not place.path:
            raise Refused(404, "wrong path, file/folder doesn't exist")
        number = self.company.number("share")
        is_link = share_type == LINK_SHARE
        allowed = int(str(more.get("permissions") or (READ if is_link else ALL)))
        share: Document = {
            "id": str(number),
            "share_type": share_type,
            "owner": place.owner,
            "uid_owner": username,
            "displayname_owner": self.users[username]["display-name"],
            "permissions": allowed if place.file.is_dir() else allowed & ~(CREATE | DELETE),
            "stime": int(self.company.now().timestamp()),
            "expiration": more.get("expiration"),
            "token": self.company.chat_id("share")[:15] if is_link else None,
            "path": f"/{place.path}",
            "file_target": f"/{place.name}",
            "item_type": "folder" if place.file.is_dir() else "file",
            "share_with": more.get("share_with"),
            "password": more.get("password"),
            "name": more.get("name") or "",
        }
        self.shares[str(number)] = share
        return share


def parts_of(path: str) -> list[str]:
    """The parts of a path; refused where one of them leads elsewhere.

    >>> parts_of("/Documents/a.txt")
    ['Documents', 'a.txt']
    >>> parts_of("../x")
    Traceback (most recent call last):
    practicum_envs.office.services.web.Refused: File name contains an invalid character
    """
    parts = [part for part in path.split("/") if part]
    if len(parts) > MOST_DEPTH or len(path.encode("utf-8", "replace")) > MOST_PATH:
        raise Refused(400, "File name is too long")
    for part in parts:
        if part in (".", "..") or "\0" in part or "\\" in part or not _fits(part):
            raise Refused(400, "File name contains an invalid character")
    return parts


def _fits(name: str) -> bool:
    """Whether a file can have this name: no control character, which XML could not list."""
    try:
        return len(name.encode()) <= 250 and not NOT_IN_XML.search(name)
    except UnicodeEncodeError:  # a lone surrogate
        return False


def require(place: Place, permission: int) -> None:
    """Refuse what a share does not allow."""
    if not place.permissions & permission:
        raise Refused(403, "You are not allowed to do that here")


def kind_of(file: Path) -> str:
    """The content type of a file by its name."""
    return mimetypes.guess_type(file.name)[0] or "application/octet-stream"


def sums_of(content: bytes) -> dict[str, str]:
    """The checksums that ownCloud keeps of a file.

    >>> sums_of(b"")["SHA1"]
    'da39a3ee5e6b4b0d3255bfef95601890afd80709'
    """
    return {
        "SHA1": hashlib.sha1(content, usedforsecurity=False).hexdigest(),
        "MD5": hashlib.md5(content, usedforsecurity=False).hexdigest(),
        "ADLER32": f"{zlib.adler32(content):08x}",
    }


def file_id(place: Place) -> int:
    """The number of a file: the same in every run of the company."""
    digest = hashlib.sha256(f"{place.owner}/{place.path}".encode()).digest()
    return int.from_bytes(digest[:4], "big")


def changed_at(file: Path) -> str:
    """When a file was changed, as WebDAV writes it."""
    at = datetime.fromtimestamp(file.stat().st_mtime, UTC)
    return at.strftime("%a, %d %b %Y %H:%M:%S GMT")
