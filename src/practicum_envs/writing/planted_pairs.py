"""Pairs of a good text and the same text spoilt in one way, to try a score or a judge with.

What spoils a text here is written apart from the rules of the score, which knows none of it.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from practicum.core.task import Task
from practicum_envs.writing.brief import Brief
from practicum_envs.writing.brief_generator import draw_tasks

MOST_WEIGHT = 0.5
"""Of a judge that is always right, beside a weight of 1 for what is measured."""
PADDING = (
    "We all know how it is with these things, and nobody could say it in a better way than this.",
    "Time goes by so fast, and yet there is always something that one looks forward to in life.",
    "Words can hardly express what this means, but it is worth to try to find some all the same.",
)
INVENTED = (
    "The mayor, Gloria Pfeiffer, will be there too.",
    "The first fifty people get a present.",
    "There is a second date on Wednesday, 30 December.",
    "It is sponsored by Nordwind Systems.",
    "Nine out of ten people liked it last year.",
    "Call 555-0199 to learn more.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlantedPair:
    """A brief, a good text and a spoilt one, by paragraphs."""

    brief: Brief
    good: tuple[str, ...]
    bad: tuple[str, ...]
    outline: tuple[str, ...]
    fault: str


def _pad(brief: Brief, good: Sequence[str], rng: random.Random) -> list[str]:
    padding = rng.sample(PADDING, len(PADDING))
    return [*good[:-1], f"{good[-1]} {' '.join(padding)}"]


def _stuff(brief: Brief, good: Sequence[str], rng: random.Random) -> list[str]:
    words = [*(fact.value for fact in brief.facts), brief.text_kind, brief.audience]
    rng.shuffle(words)
    return [*good[:-1], f"{good[-1]} {' '.join(words)} {', '.join(words)}."]


def _copy(brief: Brief, good: Sequence[str], rng: random.Random) -> list[str]:
    return ["\n".join(brief.lines())]


def _invent(brief: Brief, good: Sequence[str], rng: random.Random) -> list[str]:
    return [*good[:-1], f"{good[-1]} {rng.choice(INVENTED)}"]


FAULTS: dict[str, Callable[[Brief, Sequence[str], random.Random], list[str]]] = {
    "padded": _pad,
    "keyword-stuffed": _stuff,
    "copied brief": _copy,
    "invented fact": _invent,
}
"""What is done to the bad one of a pair."""


def spoilt(brief: Brief, good: Sequence[str], fault: str, seed: object) -> tuple[str, ...]:
    """A text spoilt in one way."""
    return tuple(FAULTS[fault](brief, good, random.Random(f"{fault} {seed}")))


def planted_pairs(count: int, seed: int = 0) -> list[PlantedPair]:
    """So many pairs, of letters and notes of held-out families, each fault as often."""
    return list(islice(_pairs(seed), count))


def _pairs(seed: int) -> Iterator[PlantedPair]:
    for task in draw_tasks((1, 3), "heldout", "heldout", seed):
        for fault in FAULTS:
            yield _pair_of(task, fault)


def _pair_of(task: Task, fault: str) -> PlantedPair:
    brief = Brief.of(task.data["brief"])  # type: ignore[arg-type]
    good = tuple(str(text) for text in task.data["reference"])  # type: ignore[union-attr]
    labels = {fact.key: fact.label for fact in brief.facts}
    points: list[list[str]] = task.data["points"]  # type: ignore[assignment]
    return PlantedPair(
        brief=brief,
        good=good,
        bad=spoilt(brief, good, fault, task.id),
        outline=tuple(" and ".join(labels[key] for key in keys) for keys in points),
        fault=fault,
    )


def weight_of_judge(lower_bound: float) -> float:
    """The weight of a judge by the lower bound of its agreement with planted pairs.

    Nothing at chance or below, `MOST_WEIGHT` where it is always right, a line between them.

    >>> weight_of_judge(0.5), weight_of_judge(0.75), weight_of_judge(1.0)
    (0.0, 0.25, 0.5)
    """
    return MOST_WEIGHT * max(0.0, 2.0 * lower_bound - 1.0)
