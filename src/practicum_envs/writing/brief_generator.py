"""Draws briefs without end: level, family and number decide all of a task."""

import math
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from practicum.core.task import JSON, Split, Task
from practicum_envs.writing.brief import Brief, Fact
from practicum_envs.writing.brief_family import Family, Slot
from practicum_envs.writing.community_families import COMMUNITY_FAMILIES
from practicum_envs.writing.heldout_families import HELDOUT_FAMILIES
from practicum_envs.writing.language_checks import school_grade
from practicum_envs.writing.prose import words_of
from practicum_envs.writing.reference_text import Written, write_paragraphs
from practicum_envs.writing.stated_facts import read_text
from practicum_envs.writing.tones import GREETINGS, TONES
from practicum_envs.writing.trade_families import TRADE_FAMILIES

ENV = "writing"
LEVELS = (1, 2, 3, 4)
NUMBERS = 10**9
"""Tasks of one family and level are numbered below this."""
FAMILIES = {one.name: one for one in (*COMMUNITY_FAMILIES, *TRADE_FAMILIES, *HELDOUT_FAMILIES)}
Fault = Literal["value", "missing", "term", "private"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What the briefs of a level are like."""

    facts: int
    """Besides the topic."""
    paragraphs: int = 1
    private: int = 0
    avoid: int = 1
    has_tone: bool = False
    has_greeting: bool = False
    needs_outline: bool = False
    faults: int = 0
    notes_hidden: bool = False
    is_graded: bool = False


SHAPES = {
    1: Shape(facts=3),
    2: Shape(facts=4, private=1, avoid=2, has_tone=True, faults=2),
    3: Shape(
        facts=4,
        paragraphs=2,
        private=1,
        avoid=2,
        has_tone=True,
        has_greeting=True,
        needs_outline=True,
    ),
    4: Shape(
        facts=6,
        paragraphs=3,
        private=2,
        avoid=3,
        has_tone=True,
        has_greeting=True,
        needs_outline=True,
        notes_hidden=True,
        is_graded=True,
    ),
}
"""A short note; a draft to mend; a letter by an outline; a longer text from notes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A brief with a solution."""

    brief: Brief
    paragraphs: tuple[tuple[Written, ...], ...]
    """Of the reference text, by sentences."""
    repairs: tuple[tuple[str, str], ...] = ()
    """What to replace in the draft and by what; `""` first for a sentence to add."""

    @property
    def texts(self) -> tuple[str, ...]:
        """The paragraphs of the reference text, with its greeting."""
        texts = [" ".join(one.text for one in paragraph) for paragraph in self.paragraphs]
        if self.brief.greeting:
            texts[0] = f"{self.brief.greeting} {texts[0]}"
        return tuple(texts)


def draw_task(level: int, family: Family, side: Split, number: int) -> Task:
    """The task with this number; names, places and topics are those of `side`."""
    plan = plan_task(level, family, side, number)
    data: dict[str, JSON] = {
        "family": family.name,
        "brief": plan.brief.as_json(),
        "reference": list(plan.texts),
        "points": [[key for one in group for key in one.says] for group in plan.paragraphs],
        "repairs": [list(one) for one in plan.repairs],
    }
    return Task(
        id=f"{ENV}-{side}-{level}-{family.name}-{number}",
        env=ENV,
        split=side,
        level=level,
        instruction="\n".join(plan.brief.lines()),
        data=data,
    )


def draw_tasks(levels: Sequence[int], uses: Split, side: Split, seed: int) -> Iterator[Task]:
    """Tasks without end, family by family, the levels evenly mixed."""
    families = [one for one in FAMILIES.values() if one.split == uses]
    rng = random.Random(f"{ENV} {uses} {side} {seed}")
    while True:
        rng.shuffle(families)
        for family in families:
            for level in levels:
                yield draw_task(level, family, side, rng.randrange(NUMBERS))


def plan_task(level: int, family: Family, side: Split, number: int) -> Plan:
    """A brief and its solution, the same each time."""
    rng = random.Random(f"{ENV} {level} {family.name} {side} {number}")
    shape = SHAPES[level]
    facts, private = _facts(rng, family, side, shape)
    tone = rng.choice(family.tones) if shape.has_tone else ""
    words, closings = TONES[tone] if tone else ((), ("",))
    closing = rng.choice(closings)
    if closing and any(term in words_of(closing) for term in family.avoid):
        closing = next(one for one in closings if not set(words_of(one)) & set(family.avoid))
    paragraphs = write_paragraphs(rng, family, _groups(facts, shape.paragraphs), closing)
    told = " ".join(one.text for group in paragraphs for one in group).lower()
    spare = [term for term in family.avoid if term not in words_of(told)]
    brief = Brief(
        family=family.name,
        text_kind=family.text_kind,
        audience=rng.choice(family.audiences),
        facts=facts,
        private=private,
        paragraphs=shape.paragraphs,
        needs_outline=shape.needs_outline,
        greeting=rng.choice(GREETINGS) if shape.has_greeting else "",
        tone=tone,
        tone_words=words,
        avoid=tuple(rng.sample(spare, shape.avoid)),
        notes_hidden=shape.notes_hidden,
    )
    plan = Plan(brief=brief, paragraphs=tuple(map(tuple, paragraphs)))
    plan = replace(plan, brief=_measured(plan, shape))
    return _with_faults(rng, family, side, plan) if shape.faults else plan


def _facts(
    rng: random.Random, family: Family, side: Split, shape: Shape
) -> tuple[tuple[Fact, ...], tuple[Fact, ...]]:
    """The topic and other facts in the family's order, and private ones; no value twice."""
    chosen = set(rng.sample([slot.key for slot in family.slots], shape.facts))
    topic = Fact(
        key="topic",
        label=family.topic_label,
        kind="phrase",
        value=rng.choice(family.topics[side]).removeprefix("the "),
    )
    taken = {topic.value}
    facts = [topic]
    for slot in family.slots:
        if slot.key in chosen:
            facts.append(_draw(rng, slot, side, taken))
    hidden = rng.sample(family.private, shape.private)
    return tuple(facts), tuple(_draw(rng, slot, side, taken) for slot in hidden)


def _draw(rng: random.Random, slot: Slot, side: Split, taken: set[str]) -> Fact:
    """A fact of a slot; no number or name of it is in a value that is taken."""
    value = slot.draw(rng, side)
    while _clashes(slot, value, taken):
        value = slot.draw(rng, side)
    taken.add(value)
    return Fact(key=slot.key, label=slot.label, kind=slot.kind, value=value, cues=slot.cues)


def _clashes(slot: Slot, value: str, taken: set[str]) -> bool:
    if slot.kind in ("phrase", "email"):
        return value in taken
    by_name = slot.kind in ("person", "place")
    own = {word for word in words_of(value) if by_name or word[0].isdigit()}
    return any(own & set(words_of(one)) for one in taken)


def _groups(facts: tuple[Fact, ...], count: int) -> list[tuple[Fact, ...]]:
    """The facts in so many groups of about one size, in their order."""
    ends = [round(len(facts) * (at + 1) / count) for at in range(count)]
    return [facts[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def _measured(plan: Plan, shape: Shape) -> Brief:
    """The brief with limits that leave room around the reference."""
    count = sum(len(words_of(text)) for text in plan.texts)
    limits = (5 * math.floor(0.75 * count / 5), 5 * math.ceil(1.35 * count / 5))
    brief = replace(plan.brief, words=limits)
    if not shape.is_graded:
        return brief
    read = read_text(brief, plan.texts)
    grade = school_grade([words_of(one.blanked) for one in read.sentences])
    return replace(brief, grade=float(max(5, math.ceil(grade) + 2)))


FAULTS: tuple[Fault, ...] = ("missing", "value", "term", "private")
"""In the order in which a draft gets them."""


def _with_faults(rng: random.Random, family: Family, side: Split, plan: Plan) -> Plan:
    """The plan with a draft that has two faults, and how they are mended."""
    sentences = list(plan.paragraphs[0])
    repairs: list[tuple[str, str]] = []
    slots = {slot.key: slot for slot in (*family.slots, *family.private)}
    chosen = set(rng.sample(FAULTS, SHAPES[2].faults))
    if "missing" in chosen:
        left_out = rng.choice([one for one in sentences[1:] if one.says])
        sentences.remove(left_out)
        repairs.append(("", left_out.text))
    said = {key for one in sentences for key in one.says}
    typed = [one for one in plan.brief.facts if one.kind in CHANGEABLE and one.key in said]
    if "value" in chosen and typed:
        fact = rng.choice(typed)
        taken = {one.value for one in plan.brief.all_facts}
        wrong = _draw(rng, slots[fact.key], side, taken).value
        sentences = [_with_value(one, fact.value, wrong) for one in sentences]
        repairs.append((wrong, fact.value))
    for fault in FAULTS[2:]:
        if fault in chosen:
            sentence = _unwanted(rng, fault, plan.brief, slots)
            sentences.insert(rng.randrange(1, len(sentences) + 1), Written(sentence, ()))
            repairs.append((sentence, ""))
    draft = (" ".join(one.text for one in sentences),)
    return replace(plan, brief=replace(plan.brief, draft=draft), repairs=tuple(repairs))


CHANGEABLE = ("date", "time", "money", "percent", "count", "person", "place")
"""Kinds of facts of which a draft may have a wrong value."""


def _with_value(sentence: Written, old: str, new: str) -> Written:
    text = re.sub(rf"{re.escape(old)}(?!\w)", lambda _: new, sentence.text)
    return Written(text, sentence.says)


def _unwanted(rng: random.Random, fault: Fault, brief: Brief, slots: dict[str, Slot]) -> str:
    """A sentence that the brief forbids."""
    if fault == "term":
        return f"This is {rng.choice(brief.avoid)}."
    secret = rng.choice(brief.private)
    return slots[secret.key].wordings[0].format(v=secret.value)
