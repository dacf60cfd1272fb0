"""What libraries say of a text: errors of grammar and spelling by Harper, syllables by Pyphen.

Both run in this process without a network. Their versions are pinned, because a score must not
change with a library.
"""

import threading
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from practicum.core.errors import MissingExtra

EXTRA = "writing"
NEEDED = {"harper": "the environment 'writing'", "pyphen": "the environment 'writing'"}
ERRORS = frozenset(
    "Agreement BoundaryError Capitalization Eggcorn Grammar Malapropism Miscellaneous Nonstandard "
    "Punctuation Repetition Spelling Typo".split()
)
"""Kinds of Harper's findings that are errors; the others are matters of taste."""
UNRELIABLE = frozenset(["MissingPreposition"])
"""Rules of Harper that find errors in sound sentences: `The place is Spruce Room.`"""
REMEMBERED = 4096


def require_libraries() -> None:
    """Raise the sentence that installs them, where they are missing."""
    for package, what in NEEDED.items():
        MissingExtra.unless(package, EXTRA, what)


@dataclass(frozen=True, slots=True)
class LanguageError:
    """An error in a text."""

    kind: str
    said: str
    why: str


class _Linters(threading.local):
    """A linter for each thread: one cannot be shared."""

    linter: Any = None


_LINTERS = _Linters()


def _linter() -> Any:
    if _LINTERS.linter is None:
        from harper import Linter  # an extra, and slow to load

        _LINTERS.linter = Linter()
    return _LINTERS.linter


@lru_cache(maxsize=REMEMBERED)
def errors_in(text: str) -> tuple[LanguageError, ...]:
    """Errors of grammar and spelling.

    >>> [(one.kind, one.said) for one in errors_in("They is here with teh dog.")]
    [('Agreement', 'is'), ('Typo', 'teh')]
    """
    by_rule = _linter().organized_lints(text, language="plaintext")
    found = [one for rule, some in by_rule.items() if rule not in UNRELIABLE for one in some]
    return tuple(
        LanguageError(one.lint_kind, one.problem_text, one.message)
        for one in sorted(found, key=lambda one: one.span.start)
        if one.lint_kind in ERRORS
    )


@lru_cache(maxsize=REMEMBERED)
def is_known(word: str) -> bool:
    """Whether a word is in the dictionary as it is written.

    >>> is_known("garden"), is_known("Karla"), is_known("karla")
    (True, True, False)
    """
    return not any(
        one.kind in ("Spelling", "Typo") for one in errors_in(f"They said {word} twice.")
    )


@lru_cache(maxsize=REMEMBERED)
def syllables(word: str) -> int:
    """Syllables of a word, as many as it can be hyphenated into."""
    return len(_hyphens().inserted(word).split("-"))


@lru_cache(maxsize=1)
def _hyphens() -> Any:
    from pyphen import Pyphen  # an extra

    return Pyphen(lang="en_US", left=1, right=1)


def school_grade(sentences: list[list[str]]) -> float:
    """The Flesch-Kincaid grade of some sentences, each a list of words; 0 for no word.

    0.39 words / sentences + 11.8 syllables / words - 15.59 (Kincaid and others 1975).
    """
    words = [word for one in sentences for word in one]
    if not words:
        return 0.0
    spoken = sum(syllables(word) for word in words)
    return 0.39 * len(words) / len(sentences) + 11.8 * spoken / len(words) - 15.59
