"""A row of `mission_rows`: something a guide to training agents names, and how it is tried here."""

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Literal

TABLES = Path(__file__).with_name("mission_rows")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Exactly one of `typed`, `shell`, `python` and `file` says how it is tried.

    All of them happen in a folder that looks like a clone of the repository, with the table's own
    `FILES` and a small trained run, `runs/first`.
    """

    says: str
    """The command, flag, key, class or claim, as short as it can be told apart by."""
    typed: str = ""
    """What is typed after `practicum`."""
    shell: str = ""
    """A command line of its own."""
    python: str = ""
    """A snippet, which may await; what it prints is seen."""
    file: str = ""
    """A file of the repository, whose text is seen."""
    sees: str = ""
    """A regular expression that what is seen has to contain; spaces stand for any white space."""
    is_answered: bool = False
    """Whether it is refused, with a sentence that says what to type, rather than done."""
    fails: str = ""
    """Why it does not work; then it has to fail, so that a row that works again is noticed."""
    aside: Literal["", "page", "cluster"] = ""
    """What is no part of the product; such rows are answered, and do not count as failing."""
    mark: Literal["", "slow", "rare"] = ""

    def __post_init__(self) -> None:
        ways = [way for way in (self.typed, self.shell, self.python, self.file) if way]
        assert len(ways) == 1, f"{self.says!r} is tried in {len(ways)} ways, and one is needed"
        assert self.sees or self.python, f"{self.says!r} looks at nothing"


def tables() -> dict[str, list[Row]]:
    """The rows of each document, by the name of its table."""
    return {name: import_module(_module(name)).ROWS for name in _names()}


def files() -> dict[str, str]:
    """The files that the rows name, of all tables."""
    found: dict[str, str] = {}
    for name in _names():
        more: dict[str, str] = getattr(import_module(_module(name)), "FILES", {})
        assert not found.keys() & more.keys(), f"{name} has a file that another table has too"
        found |= more
    return found


def _names() -> list[str]:
    return sorted(path.stem for path in TABLES.glob("*.py"))


def _module(name: str) -> str:
    return f"tests.integration.mission_rows.{name}"
