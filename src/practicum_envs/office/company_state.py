"""`Company`: the state of one company, in memory, with a folder for files and repositories.

A snapshot is a folder with `state.json`, `files/`, `repositories/` and `uploads/`. A company starts
as a copy of one, in which unchanged files are hard links: neither this package nor git ever writes
a file in place. To reset a service is to copy its part again.
"""

import hashlib
import json
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from practicum_envs.office.folders import disk_bytes, remove_folder
from practicum_envs.office.services.web import Refused

Document = dict[str, Any]
"""A stored record, near to the form the API shows it in."""
STATE = "state.json"
FILES = "files"
REPOSITORIES = "repositories"
UPLOADS = "uploads"
FAULTS = "faults.log"
FAULT_BYTES = 1 << 20
"""Bytes of notes that are kept; a policy that causes faults without end fills no disk."""
COLLEAGUE_FAULTS = "colleague-faults.log"
"""Notes that a grader must know of, apart from those whose words a policy can have chosen."""
DISK_BYTES = 1 << 30
"""Bytes of the disk that all requests together may add to a company."""
PARTS = {
    "rocketchat": (UPLOADS,),
    "gitlab": (REPOSITORIES,),
    "plane": (),
    "owncloud": (FILES,),
}
"""The services that can be reset, and their folders; each has a document of its own name too."""
MEMORY_BYTES = 64 << 20
"""Bytes that requests may add to a company's memory, all together: some 100,000 of them."""
REQUEST_BYTES = 512
"""What a record needs besides its text."""
ALPHABET = "23456789ABCDEFGHJKLMNPQRSTWXYZabcdefghijkmnopqrstuvwxyz"
"""Of ids in RocketChat: no characters that look alike."""


class Company:
    """One company; every access holds `lock`."""

    def __init__(self, snapshot: Path, folder: Path) -> None:
        self.snapshot = snapshot
        self.folder = folder
        self.lock = threading.RLock()
        self.held_bytes = 0
        self.is_held = False
        """Whether it is being graded: nothing changes any more."""
        self._added_bytes = 0
        self._measured: dict[str, int] = {}
        """Bytes of the disk that each service's folders had after the last change."""
        self.on_message: Callable[[Document, Document], None] = lambda room, message: None
        """Told of what people say in chat, so that colleagues can answer."""
        self.etags: dict[int, int] = {}
        """The last change of each file and folder of ownCloud, by its number in the file system."""
        self.chat_listeners: list[Callable[[Document, bool], None]] = []
        """Told of every message that is written or changed, and, with True, deleted."""
        folder.mkdir(mode=0o755, exist_ok=True)
        self.data: dict[str, Any] = json.loads((snapshot / STATE).read_bytes())
        for name in (FILES, REPOSITORIES, UPLOADS):
            copy_linked(snapshot / name, folder / name)

    def part(self, name: str) -> Document:
        """The document of a service."""
        found: Document = self.data[name]
        return found

    def reset(self, name: str) -> None:
        """Bring a service back to the snapshot."""
        self.data[name] = json.loads((self.snapshot / STATE).read_bytes())[name]
        for folder in PARTS[name]:
            # Removing takes longer than all the rest, and nobody has to wait for it.
            old = self.folder / f"old-{self.number('old')}"
            (self.folder / folder).rename(old)
            copy_linked(self.snapshot / folder, self.folder / folder)
            threading.Thread(target=remove_folder, args=(old,), daemon=True).start()
        self._measured.pop(name, None)

    def number(self, kind: str) -> int:
        """The next number of a kind, from 1 up."""
        counters = self.data["counters"]
        counters[kind] = counters.get(kind, 0) + 1
        return int(counters[kind])

    def chat_id(self, kind: str = "") -> str:
        """A new id of 17 characters, as in RocketChat; the same in every run of the company."""
        digest = hashlib.sha256(f"{self.data['name']} {kind} {self.number('id')}".encode()).digest()
        return "".join(ALPHABET[byte % len(ALPHABET)] for byte in digest[:17])

    def uuid(self) -> str:
        """A new UUID; the same in every run of the company."""
        text = hashlib.sha256(f"{self.data['name']} uuid {self.number('id')}".encode()).hexdigest()
        return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-a{text[17:20]}-{text[20:32]}"

    def secret(self, kind: str) -> str:
        """A new token; nobody else's can be guessed from it."""
        return os.urandom(24).hex() if kind == "random" else f"{kind}-{os.urandom(10).hex()}"

    def now(self) -> datetime:
        """The company's time. Every look at the clock is a second later than the one before.

        With `clock: real` it is the machine's, and still no two events have the same time.
        """
        last = datetime.fromisoformat(self.data["now"])
        if self.data["clock"] == "real":
            found = max(datetime.now(UTC), last + timedelta(milliseconds=1))
        else:
            found = last + timedelta(seconds=1)
        self.data["now"] = found.isoformat()
        return found

    def timestamp(self) -> str:
        """The time as the APIs write it."""
        return written_time(self.now())

    @contextmanager
    def counted(self, service: str) -> Iterator[None]:
        """Count what the work inside adds to the folders of a service, however it does so.

        It is measured, since what a request brings says little: a push may be compressed, and a
        copy or a fork has no body.
        """
        if service not in self._measured:
            self._measured[service] = self._disk_bytes(service)
        try:
            yield
        finally:
            now = self._disk_bytes(service)
            self._added_bytes += max(0, now - self._measured.get(service, now))
            self._measured[service] = now

    def _disk_bytes(self, service: str) -> int:
        return sum(disk_bytes(self.folder / name) for name in PARTS.get(service, ()))

    @property
    def room_bytes(self) -> int:
        """Bytes of the disk that may still be added."""
        return max(0, DISK_BYTES - self._added_bytes)

    def require_room(self, size: int) -> None:
        """Refuse to write so much where a company may not have it."""
        if size > self.room_bytes:
            raise Refused(507, "Insufficient Storage")

    def grow(self, size: int) -> None:
        """Count what a request may add to the memory; refused beyond what a company may have."""
        self.held_bytes += size + REQUEST_BYTES
        if self.held_bytes > MEMORY_BYTES:
            raise Refused(507, "Insufficient Storage")

    def person(self, username: str) -> Document | None:
        """A person by the name to log in with."""
        found: Document | None = self.data["people"].get(username)
        return found

    def note_fault(self, text: str) -> None:
        """Keep a note of an error in a service, for whoever develops it."""
        self._note(FAULTS, text)

    def note_colleague(self, text: str) -> None:
        """Keep a note of a colleague whose model gave no answer; it masks the episode."""
        self._note(COLLEAGUE_FAULTS, text)

    def _note(self, name: str, text: str) -> None:
        with (self.folder / name).open("a", errors="replace") as file:
            if file.tell() < FAULT_BYTES:
                file.write(text[:FAULT_BYTES] + "\n")

    def save(self, snapshot: Path) -> None:
        """Write a snapshot of the company as it is now."""
        snapshot.mkdir(parents=True, exist_ok=True)
        for name in (FILES, REPOSITORIES, UPLOADS):
            copy_linked(self.folder / name, snapshot / name)
        (snapshot / STATE).write_text(json.dumps(self.data))


def written_time(at: datetime) -> str:
    """A time in the form of the services.

    >>> written_time(datetime(2026, 3, 2, 9, 0, tzinfo=UTC))
    '2026-03-02T09:00:00.000Z'
    """
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{at.microsecond // 1000:03d}Z"


def copy_linked(source: Path, target: Path) -> None:
    """Copy a folder: folders of the same age; files share their content until one is replaced."""
    target.mkdir(exist_ok=True)
    if not source.is_dir():
        return
    with os.scandir(source) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                copy_linked(Path(entry.path), target / entry.name)
            else:
                link_or_copy(entry.path, target / entry.name)
    found = source.stat()
    os.utime(target, ns=(found.st_atime_ns, found.st_mtime_ns))


def link_or_copy(source: str, target: Path) -> None:
    """A hard link, or a copy of the same age: of another file system's or another user's file."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)
        found = os.stat(source)
        os.utime(target, ns=(found.st_atime_ns, found.st_mtime_ns))
