"""`TaskDraft`: a generated task while its steps are made: set-up commands, files and accounts.

A later step may work on a file or account of an earlier one. A step locks each aspect that it makes
assertions about, and no later step changes a locked aspect: so all assertions hold at the end, and
every near-miss still fails one of them.
"""

import posixpath
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from shlex import quote
from typing import Literal

from practicum.core.task import Split
from practicum_envs.shell.generated.assertions import Assertion, Content, Unchanged, digest
from practicum_envs.shell.generated.material import QUOTES, Names, prose, text_of

ROOTS = ("/srv", "/opt", "/data", "/var/lib", "/usr/local/share", "/mnt")
REUSE_PROBABILITY = 0.8
"""How often a step uses an existing file, folder or account that fits, and not a new one."""
NEW_FILE_MODE = 0o644
"""Mode of a new file under umask 022, which the set-up sets."""

Aspect = Literal["content", "path", "mode", "owner", "group"]
AccountAspect = Literal["shell", "home", "groups", "ageing", "members"]


@dataclass
class TaskFile:
    """A plain file that a later step may work on."""

    path: str
    text: str
    mode: int = NEW_FILE_MODE
    from_setup: bool = False
    """Whether the set-up makes it, and not a step."""
    locked: set[Aspect] = field(default_factory=set)

    @property
    def kept(self) -> Assertion:
        """Assertion that its content is still `text`; byte for byte where the set-up wrote it."""
        if self.from_setup:
            return Unchanged(self.path, digest(self.text))
        return Content(self.path, self.text)


@dataclass
class Account:
    """A user or a group that a later step may work on."""

    name: str
    locked: set[AccountAspect] = field(default_factory=set)


class TaskDraft:
    """What the steps of one task share. Every draw from `rng` is part of what a seed means."""

    def __init__(self, split: Split, rng: random.Random) -> None:
        self.rng = rng
        self.names = Names(split, rng)
        self.setup: list[str] = []
        self._quote = rng.choice(QUOTES)
        self._root: str | None = None
        self._folders: list[str] = []
        self._files: list[TaskFile] = []
        self._users: list[Account] = []
        self._groups: list[Account] = []

    def one_of(self, *phrasings: str) -> str:
        """One of these, at random: usually wordings that mean the same."""
        return self.rng.choice(phrasings)

    def show(self, path: str) -> str:
        """A path as the instruction writes it, with the same kind of quotes throughout the task."""
        style = '"{}"' if " " in path and self._quote == "{}" else self._quote
        return style.format(path)

    # Folders

    @property
    def root(self) -> str:
        """The task's main folder; the set-up makes it when a step first asks for it."""
        if self._root is None:
            self._root = posixpath.join(self.rng.choice(ROOTS), self.names.folder())
            self.setup.append(f"mkdir -p {quote(self._root)}")
            self._folders.append(self._root)
        return self._root

    @property
    def known_root(self) -> str | None:
        """`root` as the instruction writes it; None while no step has used it."""
        return None if self._root is None else self.show(self._root)

    def new_path(self, extension: str | None = None) -> str:
        """An unused path, in `root` or in a folder that a step makes."""
        root = self.root
        made = [folder for folder in self._folders if folder != root]
        folder = self.rng.choice(made) if made and self.rng.random() < REUSE_PROBABILITY else root
        return posixpath.join(folder, self.names.file(extension))

    def new_folder(self) -> str:
        """An unused path for a folder in `root`."""
        return posixpath.join(self.root, self.names.folder())

    def add_folder(self, folder: str) -> None:
        """Record a folder that a step makes: later files may be put there."""
        self._folders.append(folder)

    def setup_folder(self, files: Mapping[str, str]) -> str:
        """A folder with files in it, made by the set-up and used by one step only."""
        folder = self.new_folder()
        self.setup.append(f"mkdir -p {quote(folder)}")
        for name, text in files.items():
            self.write(posixpath.join(folder, name), text)
        return folder

    # Files

    def write(self, path: str, text: str) -> None:
        """Have the set-up write a file, and the folders it lies in."""
        folder = posixpath.dirname(path)
        if folder != self._root:
            self.setup.append(f"mkdir -p {quote(folder)}")
        if not text:
            self.setup.append(f": > {quote(path)}")
        elif text.endswith("\n"):
            self.setup.append(f"cat > {quote(path)} <<'END_OF_TEXT'\n{text}END_OF_TEXT")
        else:
            self.setup.append(f"printf %s {quote(text)} > {quote(path)}")

    def setup_file(self, text: str, extension: str | None = None) -> TaskFile:
        """A file that the set-up makes."""
        path = posixpath.join(self.root, self.names.file(extension))
        self.write(path, text)
        return self.add(TaskFile(path, text, from_setup=True))

    def add(self, file: TaskFile) -> TaskFile:
        """Record a file that later steps may work on."""
        self._files.append(file)
        return file

    def forget(self, file: TaskFile) -> None:
        """Drop a file that a step removes: no later step works on it."""
        self._files.remove(file)

    def file(self, *changes: Aspect) -> TaskFile:
        """A file none of whose `changes` is locked; they are locked now.

        A file whose path changes must have no locks at all: every assertion names its path.
        """
        candidates = [
            file
            for file in self._files
            if not file.locked.intersection(changes) and not ("path" in changes and file.locked)
        ]
        if candidates and self.rng.random() < REUSE_PROBABILITY:
            file = self.rng.choice(candidates)
        else:
            file = self.setup_file(text_of(prose(self.rng, self.rng.randint(2, 4))))
        file.locked.update(changes)
        return file

    # Accounts

    def user(self, *changes: AccountAspect) -> Account:
        """A user none of whose `changes` is locked; they are locked now."""
        return self._account(self._users, self.setup_user, changes)

    def group(self, *changes: AccountAspect) -> Account:
        """A group none of whose `changes` is locked; they are locked now."""
        return self._account(self._groups, self.setup_group, changes)

    def _account(
        self,
        known: list[Account],
        create: Callable[[], Account],
        changes: tuple[AccountAspect, ...],
    ) -> Account:
        candidates = [account for account in known if not account.locked.intersection(changes)]
        is_reused = candidates and self.rng.random() < REUSE_PROBABILITY
        account = self.rng.choice(candidates) if is_reused else create()
        account.locked.update(changes)
        return account

    def setup_user(self, shell: str = "/bin/bash") -> Account:
        """A user with a home folder, made by the set-up."""
        name = self.names.user()
        self.setup.append(f"useradd -m -s {shell} {name}")
        return self.add_user(name)

    def setup_group(self, members: tuple[str, ...] = ()) -> Account:
        """A group that the set-up makes."""
        name = self.names.group()
        self.setup.append(f"groupadd {name}")
        self.setup.extend(f"usermod -aG {name} {member}" for member in members)
        return self.add_group(name)

    def add_user(self, name: str, *locked: AccountAspect) -> Account:
        """Record a user that later steps may work on."""
        self._users.append(Account(name, set(locked)))
        return self._users[-1]

    def add_group(self, name: str, *locked: AccountAspect) -> Account:
        """Record a group that later steps may work on."""
        self._groups.append(Account(name, set(locked)))
        return self._groups[-1]
