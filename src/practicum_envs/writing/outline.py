"""Outlines: points parted by `|`, each promising what its paragraph says."""

import re
from collections import Counter

from practicum_envs.writing.brief import Brief
from practicum_envs.writing.prose import words_of
from practicum_envs.writing.stated_facts import TextReading
from practicum_envs.writing.value_places import stem

MOST_POINTS = 8


def points_of(text: str) -> tuple[str, ...]:
    """The points of an outline as it is written.

    >>> points_of("day and place | price")
    ('day and place', 'price')
    """
    return tuple(point.strip() for point in text.split("|") if point.strip())[:MOST_POINTS]


def promised_in(brief: Brief, point: str) -> frozenset[str]:
    """Keys of the facts that a point names by their whole labels; the longest label counts."""
    left = " ".join(stem(word) for word in words_of(point))
    found = set()
    for fact in sorted(brief.facts, key=lambda fact: -len(fact.label)):
        label = " ".join(stem(word) for word in words_of(fact.label))
        if re.search(rf"\b{re.escape(label)}\b", left):
            found.add(fact.key)
            left = re.sub(rf"\b{re.escape(label)}\b", "-", left)
    return frozenset(found)


def promises(brief: Brief, points: tuple[str, ...]) -> dict[str, int]:
    """For each fact that exactly one point names, which point that is."""
    named = [promised_in(brief, point) for point in points]
    times = Counter(key for keys in named for key in keys)
    return {key: at for at, keys in enumerate(named) for key in keys if times[key] == 1}


def outline_agreement(brief: Brief, points: tuple[str, ...], reading: TextReading) -> float:
    """The share of facts that are promised by one point and stated in its paragraph."""
    promised = promises(brief, points)
    stated = {(key, one.sentence.paragraph) for one in reading.sentences for key in one.stated}
    kept = sum((key, at) in stated for key, at in promised.items())
    return kept / len(brief.facts)
