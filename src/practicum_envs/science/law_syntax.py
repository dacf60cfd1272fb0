"""How arguments are written: which characters may follow, and what a text says.

A law is its effects in the order of the factors, `water +3, light>2 -8`; a setting is the factors
that are not at 0, `water 4, light 2`; a conclusion is a law and how sure it is, `water +3 sure 90`.
A policy that is held to these forms can write just what makes sense. Text that was written freely
may have its parts in another order, or `and` for a comma.
"""

import re
from bisect import bisect_left
from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import NamedTuple

from practicum.core.sampling import NextCharacters
from practicum_envs.science.conclusion_scoring import CERTAINTIES
from practicum_envs.science.law_spaces import law_space
from practicum_envs.science.laws import (
    NO_EFFECT,
    SETTINGS,
    START,
    Effect,
    Law,
    Setting,
    law_text,
    setting_text,
)

SURE = " sure "
EFFECT = re.compile(r"([a-z]+)(?:\*([a-z]+)|>([0-9]))?([+-][0-9]{1,2})")
LONGEST = 200
"""Characters of a turn; longer ones are refused unread."""


class Conclusion(NamedTuple):
    """A law, and how sure it is in percent."""

    law: Law
    percent: int


class Phrases:
    """A finite set of texts, from which one is written character by character.

    >>> Phrases(["up", "upper"]).following("up")
    NextCharacters(allowed='p', may_end=True)
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = sorted(texts)
        self._known: dict[str, NextCharacters] = {}

    def following(self, written: str) -> NextCharacters:
        """What may come after a part of a text."""
        if written not in self._known:
            self._known[written] = self._look_up(written)
        return self._known[written]

    def _look_up(self, written: str) -> NextCharacters:
        texts, size = self._texts, len(written)
        at = bisect_left(texts, written)
        may_end = at < len(texts) and texts[at] == written
        at += may_end
        allowed = ""
        while at < len(texts) and texts[at].startswith(written):
            allowed += texts[at][size]
            at = bisect_left(texts, written + chr(ord(allowed[-1]) + 1), at)
        return NextCharacters(allowed=allowed, may_end=may_end)


CERTAINTY_PHRASES = Phrases([str(percent) for percent in CERTAINTIES])


class Syntax:
    """The forms of one world."""

    def __init__(self, level: int, names: tuple[str, ...]) -> None:
        self._space = law_space(level)
        self._names = names

    @cached_property
    def _law_phrases(self) -> Phrases:
        return Phrases([law_text(law, self._names) for law in self._space.laws])

    @cached_property
    def _setting_phrases(self) -> Phrases:
        return Phrases([setting_text(one, self._names) for one in SETTINGS if one != START])

    def law_argument(self, written: str) -> NextCharacters:
        """What may follow in a law."""
        return self._law_phrases.following(written)

    def setting_argument(self, written: str) -> NextCharacters:
        """What may follow in a setting."""
        return self._setting_phrases.following(written)

    def conclusion_argument(self, written: str) -> NextCharacters:
        """What may follow in a law and its certainty."""
        _, sure, percent = written.partition(SURE)
        if sure:
            return CERTAINTY_PHRASES.following(percent)
        for size in range(len(SURE) - 1, 0, -1):
            begun = written.removesuffix(SURE[:size])
            if begun != written and self.law_argument(begun).may_end:
                following = self.law_argument(written)
                return NextCharacters(allowed=following.allowed + SURE[size], may_end=False)
        following = self.law_argument(written)
        more = SURE[0] if following.may_end else ""
        return NextCharacters(allowed=following.allowed + more, may_end=False)

    def read_law(self, text: str) -> Law | None:
        """The law in a text; None where it is none that can be true here."""
        parts = _parts(text)
        if parts == {NO_EFFECT}:
            return ()
        effects = [self._read_effect(part) for part in parts]
        known = [one for one in effects if one is not None]
        law = tuple(sorted(known, key=lambda one: (len(one.factors), one.factors)))
        return law if law and len(known) == len(parts) and law in self._space.place else None

    def _read_effect(self, part: str) -> Effect | None:
        found = EFFECT.fullmatch(part)
        if found is None or not {found[1], found[2] or found[1]} <= set(self._names):
            return None
        factors = sorted(self._names.index(name) for name in (found[1], found[2]) if name)
        above = int(found[3]) if found[3] else -1
        return Effect(factors=tuple(factors), amount=int(found[4]), above=above)

    def read_setting(self, text: str) -> Setting | None:
        """The setting in a text; None where it is none, or sets nothing."""
        chosen: dict[str, int] = {}
        for part in _parts(text):
            found = re.fullmatch(r"([a-z]+)=?([0-4])", part)
            if found is None or found[1] not in self._names or found[1] in chosen:
                return None
            chosen[found[1]] = int(found[2])
        setting = tuple(chosen.get(name, 0) for name in self._names)
        return setting if setting != START else None

    def read_conclusion(self, text: str) -> Conclusion | None:
        """The law and certainty in a text; None where it has no such form."""
        found = re.fullmatch(r"(.+?),?\s+sure:?\s+(\d{1,3})\s*%?", text, re.IGNORECASE)
        law = None if found is None else self.read_law(found[1])
        if found is None or law is None or int(found[2]) not in CERTAINTIES:
            return None
        return Conclusion(law, int(found[2]))


@lru_cache(maxsize=256)
def syntax_of(level: int, names: tuple[str, ...]) -> Syntax:
    """The forms of a level with these factors."""
    return Syntax(level, names)


def _parts(text: str) -> frozenset[str]:
    """The parts of a list without their spaces; a part that comes twice makes none readable."""
    parts = re.split(r",|;|\band\b", text.strip().lower())
    plain = ["".join(part.split()) for part in parts]
    return frozenset(plain) if len(set(plain)) == len(plain) else frozenset()
