"""What a text says of its brief: facts that it states, values it made up, secrets it tells.

A fact is stated by a whole sentence that is no question, does not deny it, and says something of
it. Where a brief has two facts of one kind, such as two dates, the words beside a value must say
which one it is.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from practicum_envs.writing.brief import Brief, Fact
from practicum_envs.writing.closed_words import FUNCTION_WORDS, PREPOSITIONS
from practicum_envs.writing.names_in_text import names_in
from practicum_envs.writing.prose import Sentence, is_prose, sentences_of, words_of
from practicum_envs.writing.typed_values import CURRENCIES
from practicum_envs.writing.value_places import (
    Places,
    blanked,
    by_cues,
    find_values,
    is_backed,
)

DENIALS = re.compile(
    r"\b(?:not|never|no longer|nobody|none|cancell?ed|instead of|without|neither|nor|"
    r"\w+n['’]t|wrong|false|untrue)\b",
    re.IGNORECASE,
)
NO_DENIAL = re.compile(r"\b(?:do not|don['’]t)\s+(?:forget|miss|hesitate|worry)\b", re.IGNORECASE)
DENIAL_REACH = 30
"""Characters before a value within which a denial is about it."""
MOST_IN_A_ROW = 2
"""Values with nothing but commas or `and` between them; more are a list of keywords."""
ONLY_JOINED = re.compile(r"[\s,;/&]*(?:and)?\s*")
SITUATED = ("date", "time", "place", "phrase")
"""Kinds of which a preposition before them is enough to say something: `It is on Monday.`"""
OWNING = ("has", "have", "had")


@dataclass(frozen=True, slots=True, kw_only=True)
class SentenceReading:
    """What one sentence says."""

    sentence: Sentence
    is_prose: bool
    stated: frozenset[str]
    """Keys of facts."""
    said: tuple[str, ...]
    """Keys of facts whose value it has, stated or not, each time."""
    invented: tuple[str, ...]
    told: frozenset[str]
    """Keys of private facts."""
    blanked: str
    """Without the values of the brief."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextReading:
    """What a whole text says."""

    sentences: tuple[SentenceReading, ...]
    stated: frozenset[str]
    invented: tuple[str, ...]
    told: frozenset[str]

    def said(self) -> Counter[str]:
        """How often each fact's value is there."""
        return Counter(key for one in self.sentences for key in one.said)


def read_text(brief: Brief, paragraphs: tuple[str, ...]) -> TextReading:
    """Read every sentence of a text against its brief."""
    read = tuple(_read_sentence(brief, one) for one in sentences_of(paragraphs))
    return TextReading(
        sentences=read,
        stated=frozenset(key for one in read for key in one.stated),
        invented=tuple(dict.fromkeys(name for one in read for name in one.invented)),
        told=frozenset(key for one in read for key in one.told),
    )


@lru_cache(maxsize=4096)
def _read_sentence(brief: Brief, sentence: Sentence) -> SentenceReading:
    text = sentence.text
    places, found, rest = find_values(brief, text)
    invented = [one.said for one in found if not is_backed(brief, one, text)]
    proper = is_prose(text, _without_names(brief, text, places)) and _has_enough_words(
        brief, text, rest, places
    )
    is_statement = not text.rstrip("\"')").endswith("?")
    return SentenceReading(
        sentence=sentence,
        is_prose=proper,
        stated=frozenset(
            key
            for key in (_stated(brief, text, rest, places) if proper else ())
            if is_statement or key == "topic"
        ),
        said=tuple(fact.key for fact in brief.facts for _ in places[fact.key]),
        invented=(*invented, *names_in(rest, brief_words(brief))),
        told=frozenset(fact.key for fact in brief.private if places[fact.key]),
        blanked=rest.replace("\0", " "),
    )


def _stated(brief: Brief, text: str, rest: str, places: Places) -> Iterator[str]:
    """Keys of the facts that a whole sentence states."""
    kept = by_cues(brief, text, places)
    for fact in brief.facts:
        if any(
            not _is_denied(text, start) and _says_something(fact, text[:start], rest)
            for start, _ in kept[fact.key]
        ):
            yield fact.key


def _is_denied(text: str, start: int) -> bool:
    before = re.split(r"[,;.]", text[max(0, start - DENIAL_REACH) : start])[-1]
    return DENIALS.search(NO_DENIAL.sub("", before)) is not None


def _says_something(fact: Fact, before: str, rest: str) -> bool:
    """Whether more is said of a value than that it is: `It costs $5`, not `It is $5`."""
    if fact.key == "topic" or fact.kind == "count":
        return True
    last = words_of(before)[-1:]
    if fact.kind in SITUATED and last and last[0] in (*PREPOSITIONS, *OWNING):
        return True
    return any(word not in FUNCTION_WORDS for word in words_of(rest))


def _has_enough_words(brief: Brief, text: str, rest: str, places: Places) -> bool:
    """Whether a sentence has a word of its own for each value, and no run of values."""
    keys = [fact.key for fact in brief.facts if places[fact.key]]
    if len(keys) > 1 and len(words_of(rest)) <= len(keys):
        return False
    spans = sorted(span for key in keys for span in places[key])
    run = 1
    for (_, end), (start, _) in pairwise(spans):
        run = run + 1 if ONLY_JOINED.fullmatch(text[end:start]) else 1
        if run > MOST_IN_A_ROW:
            return False
    return True


def _without_names(brief: Brief, text: str, places: Places) -> str:
    """A sentence without names and numbers of the brief; what is to be done may have a verb."""
    topic, *others = brief.facts
    for fact in (topic, *(one for one in others if one.kind != "phrase")):
        for start, end in places[fact.key]:
            text = blanked(text, start, end)
    return text


@lru_cache(maxsize=1024)
def brief_words(brief: Brief) -> frozenset[str]:
    """Every word that the brief itself has, in small letters."""
    told = [brief.text_kind, brief.audience, brief.greeting, *brief.tone_words]
    told += [f"{fact.label} {fact.value}" for fact in brief.all_facts]
    words = {word for text in told for word in words_of(text)}
    return frozenset({*words, *(f"{word}s" for word in words), *CURRENCIES})
