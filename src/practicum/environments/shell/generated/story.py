"""The story of a task: what is there at the start, and what its steps have made so far.

Steps take things from the story and leave things in it, so that a later step can work on what an
earlier one made. Whatever a step asserts it locks: no later step changes that again, which keeps
every assertion true to the end and every wrong way wrong.
"""

import posixpath
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from shlex import quote
from typing import Literal

from practicum.core.task import Split
from practicum.environments.shell.generated.assertions import Assertion, Content, Unchanged, digest
from practicum.environments.shell.generated.material import prose, text_of
from practicum.environments.shell.generated.names import Names
from practicum.environments.shell.generated.wording import QUOTES

__all__ = ["Account", "Story", "Thing"]

ROOTS = ("/srv", "/opt", "/data", "/var/lib", "/usr/local/share", "/mnt")
BUILDS_ON = 0.8
"""How often a step works on what is there from earlier steps, where anything suits."""
NEW_FILE_MODE = 0o644
"""What a file has under the usual mask."""

Aspect = Literal["content", "place", "mode", "owner", "group"]
AccountAspect = Literal["shell", "home", "groups", "ageing", "members"]


@dataclass
class Thing:
    """A plain file that a later step may work on."""

    path: str
    text: str
    mode: int = NEW_FILE_MODE
    is_given: bool = False
    """Whether it is there at the start, and not made by a step."""
    locked: set[Aspect] = field(default_factory=set)

    @property
    def kept(self) -> Assertion:
        """That its content is still what it was."""
        if self.is_given:
            return Unchanged(self.path, digest(self.text))
        return Content(self.path, self.text)


@dataclass
class Account:
    """A user or a group that a later step may work on."""

    name: str
    locked: set[AccountAspect] = field(default_factory=set)


class Story:
    """What the steps of one task share."""

    def __init__(self, split: Split, chance: random.Random) -> None:
        self.chance = chance
        self.names = Names(split, chance)
        self.setup: list[str] = []
        self._quote = chance.choice(QUOTES)
        self._root: str | None = None
        self._places: list[str] = []
        self._things: list[Thing] = []
        self._users: list[Account] = []
        self._groups: list[Account] = []

    # Words

    def say(self, *phrasings: str) -> str:
        """One of several ways to say the same."""
        return self.chance.choice(phrasings)

    def show(self, path: str) -> str:
        """A path as the instruction writes it, set off in the same way all through the task."""
        style = '"{}"' if " " in path and self._quote == "{}" else self._quote
        return style.format(path)

    # Folders

    @property
    def root(self) -> str:
        """The folder in which the story takes place, there from the start."""
        if self._root is None:
            self._root = posixpath.join(self.chance.choice(ROOTS), self.names.place())
            self.setup.append(f"mkdir -p {quote(self._root)}")
            self._places.append(self._root)
        return self._root

    @property
    def known_root(self) -> str | None:
        """The story's folder as the instruction writes it; None while no step has used it."""
        return None if self._root is None else self.show(self._root)

    def new_path(self, extension: str | None = None) -> str:
        """Where nothing is yet; in the story's folder or in one that a step made."""
        root = self.root
        made = [place for place in self._places if place != root]
        place = self.chance.choice(made) if made and self.chance.random() < BUILDS_ON else root
        return posixpath.join(place, self.names.file(extension))

    def new_folder(self) -> str:
        """Where no folder is yet."""
        return posixpath.join(self.root, self.names.place())

    def add_place(self, folder: str) -> None:
        """A folder that a step made: later files may be put there."""
        self._places.append(folder)

    def give_folder(self, files: Mapping[str, str]) -> str:
        """A folder with files in it, there from the start, for one step alone."""
        folder = self.new_folder()
        self.setup.append(f"mkdir -p {quote(folder)}")
        for name, text in files.items():
            self.write(posixpath.join(folder, name), text)
        return folder

    # Files

    def write(self, path: str, text: str) -> None:
        """Have the setup write a file, and the folders it lies in."""
        folder = posixpath.dirname(path)
        if folder != self._root:
            self.setup.append(f"mkdir -p {quote(folder)}")
        if not text:
            self.setup.append(f": > {quote(path)}")
        elif text.endswith("\n"):
            self.setup.append(f"cat > {quote(path)} <<'END_OF_TEXT'\n{text}END_OF_TEXT")
        else:
            self.setup.append(f"printf %s {quote(text)} > {quote(path)}")

    def give_file(self, text: str, extension: str | None = None) -> Thing:
        """A file that is there from the start."""
        path = posixpath.join(self.root, self.names.file(extension))
        self.write(path, text)
        return self.add(Thing(path, text, is_given=True))

    def add(self, thing: Thing) -> Thing:
        """A file that later steps may work on."""
        self._things.append(thing)
        return thing

    def forget(self, thing: Thing) -> None:
        """A file that a step does away with: no later step works on it."""
        self._things.remove(thing)

    def file(self, *changes: Aspect) -> Thing:
        """A file whose aspects no step has asserted yet, and locks them.

        A file that is to be moved away must not have been asserted in any way.
        """
        suits = [
            thing
            for thing in self._things
            if not thing.locked.intersection(changes) and not ("place" in changes and thing.locked)
        ]
        if suits and self.chance.random() < BUILDS_ON:
            thing = self.chance.choice(suits)
        else:
            thing = self.give_file(text_of(prose(self.chance, self.chance.randint(2, 4))))
        thing.locked.update(changes)
        return thing

    # Accounts

    def user(self, *changes: AccountAspect) -> Account:
        """A user of whom no step has asserted these aspects, and locks them."""
        return self._account(self._users, self.give_user, changes)

    def group(self, *changes: AccountAspect) -> Account:
        """A group of which no step has asserted these aspects, and locks them."""
        return self._account(self._groups, self.give_group, changes)

    def _account(
        self,
        known: list[Account],
        give: Callable[[], Account],
        changes: tuple[AccountAspect, ...],
    ) -> Account:
        suits = [account for account in known if not account.locked.intersection(changes)]
        suitable = suits and self.chance.random() < BUILDS_ON
        account = self.chance.choice(suits) if suitable else give()
        account.locked.update(changes)
        return account

    def give_user(self, shell: str = "/bin/bash") -> Account:
        """A user with a home folder, there from the start."""
        name = self.names.user()
        self.setup.append(f"useradd -m -s {shell} {name}")
        return self.add_user(name)

    def give_group(self, members: tuple[str, ...] = ()) -> Account:
        """A group, there from the start."""
        name = self.names.group()
        self.setup.append(f"groupadd {name}")
        self.setup.extend(f"usermod -aG {name} {member}" for member in members)
        return self.add_group(name)

    def add_user(self, name: str, *locked: AccountAspect) -> Account:
        """A user that later steps may work on."""
        self._users.append(Account(name, set(locked)))
        return self._users[-1]

    def add_group(self, name: str, *locked: AccountAspect) -> Account:
        """A group that later steps may work on."""
        self._groups.append(Account(name, set(locked)))
        return self._groups[-1]
