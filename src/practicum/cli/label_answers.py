"""What a person answers to a shown trace: by key, by line, or from a file."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from practicum.core.errors import UserError

__all__ = ["KEYS", "Answer", "from_file", "from_keys", "from_lines"]

Kind = Literal["good", "bad", "skip", "note", "undo", "quit"]
KEYS: dict[str, Kind] = {
    "g": "good",
    "b": "bad",
    "s": "skip",
    "n": "note",
    "u": "undo",
    "q": "quit",
}
WORDS: dict[str, Kind] = {**KEYS, **{kind: kind for kind in KEYS.values()}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One answer."""

    kind: Kind
    note: str = ""
    episode_id: str = ""
    """Which trace it is about; empty for the one that is shown."""


def read_answer(line: str, where: str) -> Answer:
    """An answer written as a line.

    >>> read_answer("bad wrong folder", "line 1")
    Answer(kind='bad', note='wrong folder', episode_id='')
    >>> read_answer("trace-7 g", "line 2")
    Answer(kind='good', note='', episode_id='trace-7')
    """
    first, _, rest = line.strip().partition(" ")
    if first.lower() in WORDS:
        return Answer(kind=WORDS[first.lower()], note=rest.strip())
    verdict, _, note = rest.strip().partition(" ")
    kind = WORDS.get(verdict.lower())
    if kind in ("good", "bad"):
        return Answer(kind=kind, note=note.strip(), episode_id=first)
    raise UserError(
        f"{where}: {line.strip()!r:.80} is no answer; write good, bad, skip, note TEXT, undo or "
        "quit (or the first letter), or the id of a trace and good or bad"
    )


def from_file(path: Path) -> Iterator[Answer]:
    """The answers in a file, a line each; empty lines and lines after # are left out."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(
            f"--answers {str(path)!r} cannot be read ({error}); give a text file with an answer "
            "on each line, such as good"
        ) from error
    for number, line in enumerate(lines, start=1):
        if line.strip() and not line.lstrip().startswith("#"):
            yield read_answer(line, f"{path}, line {number}")


def from_lines(read: Callable[[], str], complain: Callable[[str], None]) -> Iterator[Answer]:
    """Answers typed as lines, until there are no more; what is no answer is asked for again."""
    while line := read():
        try:
            yield read_answer(line, "typed")
        except UserError as wrong:
            complain(str(wrong))


def from_keys(press: Callable[[], str], ask_note: Callable[[], str]) -> Iterator[Answer]:
    """Answers typed as single keys; other keys do nothing."""
    while True:
        kind = KEYS.get(press().lower())
        if kind is not None:
            yield Answer(kind=kind, note=ask_note() if kind == "note" else "")
