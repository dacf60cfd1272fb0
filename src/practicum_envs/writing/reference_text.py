"""Writes a text that meets its brief, from the sentences of the brief's family."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from practicum_envs.writing.brief import Fact
from practicum_envs.writing.brief_family import Family, Slot

JOINS = 0.5
"""How often two facts that have a sentence together are said in it."""


@dataclass(frozen=True, slots=True)
class Written:
    """A sentence of the reference and the facts it says."""

    text: str
    says: tuple[str, ...]


def write_paragraphs(
    rng: random.Random, family: Family, groups: Sequence[Sequence[Fact]], closing: str
) -> list[list[Written]]:
    """One paragraph for each group of facts; the first begins with the topic.

    Args:
        rng: Chooses among wordings.
        family: Whose sentences they are.
        groups: The facts of each paragraph, the topic first of all.
        closing: A last sentence; empty for none.
    """
    slots = {slot.key: slot for slot in family.slots}
    topic = groups[0][0]
    opening = rng.choice(family.openings).format(topic=f"the {topic.value}")
    paragraphs = []
    for at, group in enumerate(groups):
        sentences = [Written(opening, (topic.key,))] if at == 0 else []
        facts = {fact.key: fact for fact in group if fact.key != topic.key}
        paragraphs.append([*sentences, *_sentences(rng, family, slots, facts)])
    if closing:
        paragraphs[-1].append(Written(closing, ()))
    return paragraphs


def _sentences(
    rng: random.Random, family: Family, slots: Mapping[str, Slot], facts: dict[str, Fact]
) -> list[Written]:
    found, left = [], dict(facts)
    for key in facts:
        if key not in left:
            continue
        pair = next(
            (one for one in family.joined if key in one and all(name in left for name in one)), None
        )
        if pair is not None and rng.random() < JOINS:
            a, b = (left.pop(name) for name in pair)
            text = family.joined[pair].format(a=a.value, b=b.value)
            found.append(Written(_capital(text), (a.key, b.key)))
        else:
            fact = left.pop(key)
            text = rng.choice(slots[key].wordings).format(v=fact.value)
            found.append(Written(_capital(text), (key,)))
    return found


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]
