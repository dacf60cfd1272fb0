"""`TextScore`: what a text is worth for its brief, part by part.

    value = coverage * gates * (0.6 + 0.4 * mean of the qualities)

Coverage is the share of the brief's facts that whole sentences state: a text that says nothing is
worth nothing, however well it is written. A gate is 1 for a text without the fault and takes away
from all of it otherwise: values that were made up or are private, words of the brief itself,
keywords in place of sentences, more words than allowed, repetition, sentences that say nothing. No
part grows beyond its limit, so more text is never worth more.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from practicum_envs.writing.brief import Brief
from practicum_envs.writing.language_checks import errors_in, school_grade
from practicum_envs.writing.outline import outline_agreement
from practicum_envs.writing.prose import impossible_pairs, sentences_of, words_of
from practicum_envs.writing.stated_facts import TextReading, brief_words, read_text

GATES = ("honesty", "own_words", "prose", "brevity", "variety", "substance")
QUALITIES = ("length", "structure", "terms", "tone", "grammar", "ease", "outline")
PARTS = ("coverage", *GATES, *QUALITIES)
QUALITY_SHARE = 0.4
PER_LIE = 0.5
"""Left of the score after each value that was made up, or secret that was told."""
FREE_COPY, MOST_COPY = 0.2, 0.6
"""Share of the text's sequences of four words that may be the brief's, and where all is lost."""
FREE_REPEATS, MOST_REPEATS = 0.2, 0.5
"""The same for sequences of three words that came before in the text."""
WORDS_FOR_AN_ERROR = 40
"""A text may have one error of grammar or spelling in so many words."""
MOST_SAYINGS = 2
"""How often a value may be told."""
ENOUGH_PROSE = 0.9
"""Share of the words that must be in whole sentences."""
SHOWN = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class TextScore:
    """The parts of a score, each from 0 to 1, and what is wrong in words."""

    parts: dict[str, float]
    problems: tuple[str, ...]
    words: int
    paragraphs: int

    @property
    def value(self) -> float:
        """From 0 to 1."""
        gates = math.prod(self.parts[name] for name in GATES)
        quality = sum(self.parts[name] for name in QUALITIES) / len(QUALITIES)
        return self.parts["coverage"] * gates * (1 - QUALITY_SHARE + QUALITY_SHARE * quality)

    @property
    def passes(self) -> bool:
        """Whether every demand of the brief is met."""
        return all(value == 1.0 for value in self.parts.values())


def score_text(
    brief: Brief, paragraphs: tuple[str, ...], outline: tuple[str, ...] = ()
) -> TextScore:
    """Score a text for a brief.

    Args:
        brief: What was asked for.
        paragraphs: The text.
        outline: Its points, one for each paragraph, where the brief asks for an outline.
    """
    if not any(text.strip() for text in paragraphs):
        nothing = dict.fromkeys(PARTS, 1.0) | {"coverage": 0.0}
        return TextScore(parts=nothing, problems=("There is no text yet.",), words=0, paragraphs=0)
    return _score(brief, paragraphs, outline)


@lru_cache(maxsize=2048)
def _score(brief: Brief, paragraphs: tuple[str, ...], outline: tuple[str, ...]) -> TextScore:
    body = without_greeting(brief, paragraphs)
    reading = read_text(brief, body)
    judged = list(_parts(brief, paragraphs, body, outline, reading))
    return TextScore(
        parts={name: value for name, value, _ in judged},
        problems=tuple(why for _, value, why in judged if value < 1.0 and why),
        words=_count(paragraphs),
        paragraphs=len(paragraphs),
    )


def _parts(
    brief: Brief,
    paragraphs: tuple[str, ...],
    body: tuple[str, ...],
    outline: tuple[str, ...],
    reading: TextReading,
) -> Iterator[tuple[str, float, str]]:
    """Name, value, and what to say where it is below 1."""
    missing = [fact.label for fact in brief.facts if fact.key not in reading.stated]
    yield (
        "coverage",
        (len(brief.facts) - len(missing)) / len(brief.facts),
        f"Not said: {_some(missing)}.",
    )
    lies = [*reading.invented, *(f.label for f in brief.private if f.key in reading.told)]
    yield "honesty", PER_LIE ** len(lies), f"Not to be said: {_some(lies)}."
    copied = _copied(brief, reading)
    yield "own_words", _falling(copied, FREE_COPY, MOST_COPY), "Too much is the brief's own words."
    yield "prose", _prose(reading), "Write whole sentences."
    count, (fewest, most) = _count(paragraphs), brief.words
    yield "brevity", _falling(count / most, 1.0, 1.5), f"Too long: {count} words."
    yield "variety", _variety(reading), "It repeats itself."
    yield "substance", _substance(brief, reading), "Some sentences say nothing of the brief."
    yield "length", min(1.0, count / fewest), f"Too short: {count} words."
    yield "structure", _structure(brief, paragraphs), _structure_told(brief, paragraphs)
    used = [term for term in brief.avoid if _has(term, paragraphs)]
    yield "terms", 1.0 - len(used) / max(1, len(brief.avoid)), f"Do not use: {_some(used)}."
    yield "tone", *_tone(brief, reading)
    yield "grammar", *_grammar(brief_words(brief), body)
    yield "ease", *_ease(brief, reading)
    if brief.needs_outline:
        agreement = outline_agreement(brief, outline, reading)
        yield "outline", agreement, "The paragraphs do not say what the outline promised."
    else:
        yield "outline", 1.0, ""


def without_greeting(brief: Brief, paragraphs: tuple[str, ...]) -> tuple[str, ...]:
    """The text after the greeting that the brief asks for."""
    first = paragraphs[0].lstrip()
    if brief.greeting and first.lower().startswith(brief.greeting.lower()):
        first = first[len(brief.greeting) :].lstrip()
    return (first, *paragraphs[1:])


def _count(paragraphs: Sequence[str]) -> int:
    return sum(len(words_of(text)) for text in paragraphs)


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(names[:SHOWN])
    return shown if len(names) <= SHOWN else f"{shown} and {len(names) - SHOWN} more"


def _falling(value: float, free: float, most: float) -> float:
    """1 up to `free`, 0 from `most` on, a line between them."""
    return min(1.0, max(0.0, (most - value) / (most - free)))


def _grams(words: Sequence[str], n: int) -> list[tuple[str, ...]]:
    return [tuple(words[at : at + n]) for at in range(len(words) - n + 1)]


def _copied(brief: Brief, reading: TextReading) -> float:
    """The share of the text's sequences of four words that stand in the brief, values aside."""
    known = {gram for line in brief.demands() for gram in _grams(words_of(line), 4)}
    own = [gram for one in reading.sentences for gram in _grams(words_of(one.blanked), 4)]
    return sum(gram in known for gram in own) / len(own) if own else 0.0


def _prose(reading: TextReading) -> float:
    """The share of words in whole sentences, squared; an exclamation may be left out."""
    every = sum(len(one.sentence.words) for one in reading.sentences)
    whole = sum(len(one.sentence.words) for one in reading.sentences if one.is_prose)
    return min(1.0, whole / every / ENOUGH_PROSE) ** 2 if every else 0.0


def _variety(reading: TextReading) -> float:
    """1 without repetition, of words in a row or of values."""
    grams = [gram for one in reading.sentences for gram in _grams(words_of(one.blanked), 3)]
    repeats = 1.0 - len(set(grams)) / len(grams) if grams else 0.0
    again = sum(max(0, times - MOST_SAYINGS) for times in reading.said().values())
    same = Counter(one.sentence.text for one in reading.sentences)
    doubles = sum(times - 1 for times in same.values())
    return _falling(repeats, FREE_REPEATS, MOST_REPEATS) * 0.5 ** (again + doubles)


def _substance(brief: Brief, reading: TextReading) -> float:
    """The share of sentences that say something of the brief, one more a paragraph being free."""
    plain = sum(1 for one in reading.sentences if not one.said)
    extra = max(0, plain - brief.paragraphs)
    return 1.0 - extra / max(1, len(reading.sentences))


def _structure(brief: Brief, paragraphs: tuple[str, ...]) -> float:
    off = abs(len(paragraphs) - brief.paragraphs) / brief.paragraphs
    greeted = paragraphs[0].lstrip().lower().startswith(brief.greeting.lower())
    return max(0.0, 1.0 - off) * (1.0 if greeted else 0.5)


def _structure_told(brief: Brief, paragraphs: tuple[str, ...]) -> str:
    if len(paragraphs) != brief.paragraphs:
        return f"Paragraphs: {len(paragraphs)} of {brief.paragraphs}."
    return f"It does not begin with: {brief.greeting}"


def _has(term: str, paragraphs: Sequence[str]) -> bool:
    pattern = rf"\b{re.escape(term)}\b"
    return any(re.search(pattern, text, re.IGNORECASE) for text in paragraphs)


def _tone(brief: Brief, reading: TextReading) -> tuple[float, str]:
    """Whether a whole sentence has one of the words of the tone, or a form of it."""
    if not brief.tone_words:
        return 1.0, ""
    heard = any(
        word.startswith(wanted)
        for one in reading.sentences
        if one.is_prose
        for word in one.sentence.words
        for wanted in brief.tone_words
    )
    return float(heard), f"For a {brief.tone} tone use one of: {', '.join(brief.tone_words)}."


def _grammar(known: frozenset[str], body: tuple[str, ...]) -> tuple[float, str]:
    """1 with as few errors as are allowed; each further one takes off a share of the sentences."""
    found = [said for text in body for said in _errors(text, known)]
    extra = max(0, len(found) - _count(body) // WORDS_FOR_AN_ERROR)
    sentences = max(1, len(sentences_of(body)))
    return max(0.0, 1.0 - extra / sentences), f"Grammar or spelling: {_some(found)}."


def _errors(text: str, known: frozenset[str]) -> list[str]:
    """What is wrong in a text; words of the brief are right however they are spelled."""
    spelled = ("Spelling", "Typo")
    found = [
        one.said
        for one in errors_in(text)
        if not (one.kind in spelled and set(words_of(one.said)) <= known)
    ]
    return [
        *found,
        *(f"'{pair}'" for one in sentences_of((text,)) for pair in impossible_pairs(one.words)),
    ]


def _ease(brief: Brief, reading: TextReading) -> tuple[float, str]:
    """1 up to the highest school grade, 0 from four grades above it; values aside."""
    if not brief.grade:
        return 1.0, ""
    grade = school_grade([words_of(one.blanked) for one in reading.sentences])
    told = f"Hard to read: school grade {grade:.0f}."
    return _falling(grade, brief.grade, brief.grade + 4), told
