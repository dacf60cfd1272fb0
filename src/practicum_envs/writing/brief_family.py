"""`Family`: a kind of brief, with what can be said in it and sentences that say it.

A slot is one fact of a family: its label, how its value is drawn, and sentences with `{v}` for the
value and `{topic}` for what the text is about. The sentences are for the reference alone; a policy
may say a fact in any words.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from practicum.core.task import Split
from practicum_envs.writing import value_pools
from practicum_envs.writing.brief import Kind

Draw = Callable[[random.Random, Split], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """One fact that the briefs of a family may have."""

    key: str
    label: str
    kind: Kind
    draw: Draw
    wordings: tuple[str, ...]
    cues: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """A kind of brief."""

    name: str
    split: Split
    text_kind: str
    audiences: tuple[str, ...]
    topic_label: str
    topics: dict[Split, tuple[str, ...]]
    openings: tuple[str, ...]
    """Sentences that name the topic and nothing else of the brief."""
    slots: tuple[Slot, ...]
    private: tuple[Slot, ...]
    tones: tuple[str, ...]
    avoid: tuple[str, ...]
    joined: dict[tuple[str, str], str] = field(default_factory=dict)
    """Sentences that say two facts at once, `{a}` and `{b}`."""


def day(key: str, label: str, *wordings: str, cues: str = "", half: int = 0) -> Slot:
    """A slot for a date, of a half of the year where one comes before another."""

    def draw(rng: random.Random, split: Split) -> str:
        return value_pools.a_date(rng, half)

    return _slot(key, label, "date", draw, wordings, cues)


def time(key: str, label: str, *wordings: str, cues: str = "", half: int = 0) -> Slot:
    """A slot for a time of the day, of a half of it where one comes before another."""

    def draw(rng: random.Random, split: Split) -> str:
        return value_pools.a_time(rng, half)

    return _slot(key, label, "time", draw, wordings, cues)


def money(key: str, label: str, most: int, *wordings: str, cues: str = "") -> Slot:
    """A slot for an amount up to `most` dollars."""

    def draw(rng: random.Random, split: Split) -> str:
        return value_pools.an_amount(rng, most)

    return _slot(key, label, "money", draw, wordings, cues)


def percent(key: str, label: str, *wordings: str, cues: str = "") -> Slot:
    """A slot for a share."""

    def draw(rng: random.Random, split: Split) -> str:
        return value_pools.a_share(rng)

    return _slot(key, label, "percent", draw, wordings, cues)


def number(key: str, label: str, unit: str, most: int, *wordings: str, cues: str = "") -> Slot:
    """A slot for a number of something, from 3 up."""

    def draw(rng: random.Random, split: Split) -> str:
        return f"{rng.randrange(3, most + 1)} {unit}"

    return _slot(key, label, "count", draw, wordings, cues)


def person(key: str, label: str, *wordings: str, cues: str = "") -> Slot:
    """A slot for a person."""
    return _slot(key, label, "person", value_pools.a_person, wordings, cues)


def place(key: str, label: str, *wordings: str, cues: str = "") -> Slot:
    """A slot for a room or building."""
    return _slot(key, label, "place", value_pools.a_place, wordings, cues)


def email(key: str, label: str, *wordings: str) -> Slot:
    """A slot for an address to write to."""
    return _slot(key, label, "email", value_pools.an_email, wordings, "")


def thing(key: str, label: str, choices: str, *wordings: str, cues: str = "") -> Slot:
    """A slot for one of some things, parted by `|`."""
    every = tuple(one.strip() for one in choices.split("|"))

    def draw(rng: random.Random, split: Split) -> str:
        return rng.choice(every)

    return _slot(key, label, "phrase", draw, wordings, cues)


def _slot(
    key: str, label: str, kind: Kind, draw: Draw, wordings: tuple[str, ...], cues: str
) -> Slot:
    return Slot(
        key=key,
        label=label,
        kind=kind,
        draw=draw,
        wordings=wordings,
        cues=tuple(cues.split()),
    )


def topics(train: str, heldout: str) -> dict[Split, tuple[str, ...]]:
    """Topics parted by `|`; those of held-out tasks are others."""
    return {
        "train": tuple(one.strip() for one in train.split("|")),
        "heldout": tuple(one.strip() for one in heldout.split("|")),
    }
