"""Command lines written for other systems: translated where that is safe, else answered."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from practicum.core.errors import UserError

if TYPE_CHECKING:
    from practicum.core.word_table import Word


def in_our_words(given: Sequence[str], verbs: Sequence[str]) -> list[str]:
    """The same in the words of Practicum, with a line on standard error for what was changed.

    Args:
        given: What was typed after `practicum`.
        verbs: The verbs there are; these are never translated.

    Raises:
        UserError: For a word that has no counterpart here; it says what to type.
    """
    words = list(given)
    if not words or words[0].startswith("-"):
        return words
    if words[0] not in verbs:
        words[0] = _verb(*words[:2])
    if not any(word.startswith("--") for word in words):
        return words
    return [words[0], *_flags(words[0], words[1:])]


OWN_WORDS = {"check": "practicum tasks ENV --check 20"}
"""Verbs of no other system that users try."""


def _verb(typed: str, env: str = "ENV") -> str:
    from practicum.core.other_words import find_verb

    found = find_verb(typed)
    ours = found.ours if found else OWN_WORDS.get(typed, typed.removesuffix(".py"))
    if ours.startswith("practicum "):
        ours = ours if env.startswith("-") else ours.replace("ENV", env)
        raise UserError(f"{typed!r} is no command here; type: {ours}")
    if found:
        _say(typed, ours)
    return ours


def _flags(verb: str, words: Sequence[str]) -> list[str]:
    from practicum.core.other_words import find_flag

    first: list[str] = []
    rest: list[str] = []
    remaining = iter(words)
    for word in remaining:
        flag, equals, value = word.partition("=")
        found = find_flag(verb, flag) if word.startswith("--") else None
        if found is None:
            rest.append(word)
            continue
        takes_value = len(found.theirs.split()) > 1
        if takes_value and not equals:
            value = next(remaining, "")
        found = find_flag(verb, flag, value) or found
        ours = _translated(found, flag, value)
        _say(f"{flag} {value}".rstrip(), ours)
        is_position = found.ours == _example(found) and takes_value
        if is_position:
            first.append(ours)
        else:
            rest += [ours] if "=" in ours else ours.split()
    return [*first, *rest]


def _translated(word: "Word", flag: str, value: str) -> str:
    if word.ours.startswith("practicum "):
        why = f" ({word.note})" if word.note else ""
        raise UserError(f"{flag} is no option here; type: {word.ours}{why}")
    example = _example(word)
    if example and not value:
        raise UserError(f"{flag} needs a value; here it is {word.ours}")
    return word.ours.replace(example, value) if example else word.ours


def _example(word: "Word") -> str:
    return word.theirs.partition(" ")[2]


def _say(typed: str, ours: str) -> None:
    print(f"practicum: {typed} is {ours or 'not needed'} here", file=sys.stderr)
