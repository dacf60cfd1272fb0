"""Where a sentence has the values of its brief, in whatever way they are written."""

import re
from functools import lru_cache

from practicum_envs.writing.brief import Brief, Fact
from practicum_envs.writing.prose import words_of
from practicum_envs.writing.typed_values import MONTHS, Clock, Day, Mention, mentions, same_time

Span = tuple[int, int]
Places = dict[str, list[Span]]
"""By the key of a fact."""
IN_WORDS = ("person", "place", "phrase", "email")
"""Kinds whose values are the words themselves."""
HOUR_BEFORE = re.compile(r"\b(?:at|from|until|till|to|by|before|after|and)\s*$", re.IGNORECASE)
RANGE_BEFORE = re.compile(r"\b(?:from|between)\s+$", re.IGNORECASE)
RANGE_BETWEEN = re.compile(r"\s+(?:to|and|until|till)\s+", re.IGNORECASE)
UNIT_REACH = 4
"""Words after a number among which what it counts is looked for."""


def blanked(text: str, start: int, end: int) -> str:
    """A text with NUL in place of a part of it."""
    return f"{text[:start]}{chr(0) * (end - start)}{text[end:]}"


def find_values(brief: Brief, text: str) -> tuple[Places, list[Mention], str]:
    """Where each fact's value is, the values found that are not words, and the text without them.

    The found values are those of the brief and others alike.
    """
    rest, places = text, Places()
    for fact in brief.all_facts:
        if fact.kind in IN_WORDS:
            # In the whole text, since a value may be a part of another one.
            places[fact.key] = [found.span() for found in phrase_pattern(fact).finditer(text)]
            for start, end in places[fact.key]:
                rest = blanked(rest, start, end)
    found = mentions(rest)
    for fact in brief.all_facts:
        if fact.kind not in IN_WORDS:
            same = [one for one in found if matches(fact, one, text)]
            places[fact.key] = [(one.start, one.end) for one in same]
    for one in found:
        rest = blanked(rest, one.start, one.end)
    return places, found, rest


@lru_cache(maxsize=4096)
def phrase_pattern(fact: Fact) -> re.Pattern[str]:
    """Where the words of a fact are said: in order, with any space or hyphen, in any number."""
    parts = [re.escape(part) for part in re.split(r"[\s-]+", fact.value) if part]
    if fact.kind == "phrase":
        parts = [rf"{part.removesuffix('s')}(?:e?s)?" for part in parts]
    return re.compile(rf"(?<![\w@.]){r'[ -]+'.join(parts)}(?!\w|@)", re.IGNORECASE)


@lru_cache(maxsize=4096)
def canonical(fact: Fact) -> Mention | None:
    """The typed value of a fact; None where it is words."""
    found = mentions(fact.value)
    return found[0] if found and fact.kind not in IN_WORDS else None


def unit_of(fact: Fact) -> str:
    """The stem of what a count counts: `volunteer` of `12 volunteers`."""
    return stem(words_of(fact.value)[-1]) if fact.kind == "count" else ""


def stem(word: str) -> str:
    """A word without the commonest endings.

    >>> stem("parking"), stem("volunteers"), stem("closes")
    ('park', 'volunteer', 'clos')
    """
    for ending in ("ing", "ed", "es", "ly", "s", "e"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word.removesuffix(ending)
    return word


def matches(fact: Fact, mention: Mention, text: str) -> bool:
    """Whether a value in a text is that of a fact."""
    wanted = canonical(fact)
    if wanted is None:
        return False
    if fact.kind == "count":
        counted = {stem(word) for word in words_of(text[mention.end :])[:UNIT_REACH]}
        same = mention.kind == "number" and mention.value == wanted.value
        return same and unit_of(fact) in counted
    if isinstance(wanted.value, Clock):
        return same_time(wanted.value, _clock_of(mention, text))
    if isinstance(wanted.value, Day):
        return mention.value in (wanted.value, wanted.value._replace(weekday=""))
    return mention.kind == wanted.kind and mention.value == wanted.value


NO_TIME = Clock(-1, "")


def _clock_of(mention: Mention, text: str) -> Clock:
    """The time of a value, or of a plain number after `at` or `until`: `from 9 to 11 am`."""
    if isinstance(mention.value, Clock):
        return mention.value
    value = mention.value
    is_hour = mention.kind == "number" and isinstance(value, float) and value in range(1, 13)
    if not is_hour or not HOUR_BEFORE.search(text[: mention.start]):
        return NO_TIME
    return Clock((int(str(value).partition(".")[0]) % 12) * 60, "")


def is_backed(brief: Brief, mention: Mention, text: str) -> bool:
    """Whether the brief gives a value, or what it is a part of."""
    if any(matches(fact, mention, text) for fact in brief.all_facts):
        return True
    known = [one.value for fact in brief.all_facts if (one := canonical(fact)) is not None]
    parts: dict[str, set[object]] = {
        "weekday": {one.weekday for one in known if isinstance(one, Day)},
        "ordinal": {one.day for one in known if isinstance(one, Day)},
        "month": {MONTHS[one.month - 1] for one in known if isinstance(one, Day)},
    }
    return mention.value in parts.get(mention.kind, ())


def by_cues(brief: Brief, text: str, places: Places) -> Places:
    """The places of values that the words beside them do not give to another fact of the kind."""
    kept = dict(places)
    for fact in brief.facts:
        rivals = [one for one in brief.facts if one.kind == fact.kind and one.key != fact.key]
        if fact.cues and any(one.cues for one in rivals):
            kept[fact.key] = [
                place
                for place in places[fact.key]
                if _is_nearest(fact, rivals, text, place) or _is_end_of_range(places, text, place)
            ]
    return kept


def _is_end_of_range(places: Places, text: str, place: Span) -> bool:
    """Whether a value is one of two as in `from 9 am to noon`, the first fact being the first."""
    spans = [one for found in places.values() for one in found]
    later = [one for one in spans if one != place]
    at = spans.index(place)
    pairs = [(place, one) for one in later if spans.index(one) > at]
    pairs += [(one, place) for one in later if spans.index(one) < at]
    return any(
        RANGE_BEFORE.search(text[:start]) and RANGE_BETWEEN.fullmatch(text[end:other])
        for (start, end), (other, _) in pairs
    )


def _is_nearest(fact: Fact, rivals: list[Fact], text: str, place: Span) -> bool:
    """Whether a cue of the fact is there, and none of its rivals' is nearer to the value."""
    own = _distance(fact.cues, text, place)
    others = min(_distance(one.cues, text, place) for one in rivals)
    return own <= min(others, len(text))


def _distance(cues: tuple[str, ...], text: str, place: Span) -> int:
    """Characters from a value to the nearest of its cues; more than the text has for none."""
    start, end = place
    gaps = [
        start - found.end() if found.end() <= start else max(0, found.start() - end)
        for cue in cues
        for found in re.finditer(rf"\b{re.escape(cue)}\w*", text, re.IGNORECASE)
    ]
    return min(gaps, default=len(text) + 1)
