"""Draws cases: endless, each from a key of its own, and each fit to be asked.

A draw is kept where the answer is one whole-number answer, where what is hidden decides, where the
limit bites, and where no figure of the answer can be copied from the case.
"""

import hashlib
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import count
from typing import Any

from practicum.core.task import Split
from practicum_envs.business.business_case import (
    LETTERS,
    Case,
    Facts,
    Family,
    Row,
    case_of,
    limited,
)
from practicum_envs.business.case_families import FAMILIES

LEVELS = (1, 2, 3)
HELD_OUT_ONE_IN = 5
"""One case in this many is held out, whatever its family."""
KEYS = 1_000_000
"""Keys of each family and level; a case follows from one."""
STRIDE = 611_953
"""Coprime to `KEYS`: steps of this length come to every key once."""
OPTIONS = {1: 3, 2: 4, 3: 5}
SPARES = 3
RISKS = {1: 2, 2: 2, 3: 3}
CHANCES = {1: range(10, 60, 10), 2: range(10, 60, 10), 3: range(5, 65, 5)}
LOSS_UNIT = {1: 10, 2: 10, 3: 20}
"""Losses are multiples of this, so that what is lost on average is whole."""
TRIED = 12
"""Other numbers that are tried for the hidden fact."""
MOST_ATTEMPTS = 50_000
ROW_ATTEMPTS = 60
SPLIT_ATTEMPTS = 200
NAMES_OF_RISKS = (
    *("rain", "strike", "theft", "fire", "delay", "flood", "recall", "fraud", "outage", "illness"),
)
PAST = ("rent_paid", "founded_ago", "logo_cost", "last_audit", "old_debt", "shop_size")
"""Items that are spent, past or beside the point in every case."""

Numbers = dict[str, Any]
"""The numbers of a case, as a task's data holds them: JSON."""


@lru_cache(maxsize=4096)
def case_numbers(name: str, level: int, key: int) -> str:
    """The numbers of the case with a key, as JSON."""
    family = FAMILIES[name]
    rng = random.Random(f"business {name} {level} {key}")
    # Drawn before the attempts: kept draws would show which of them is easier to come by.
    limit_bites = rng.random() < 0.5
    for _ in range(MOST_ATTEMPTS):
        plain = _plain(family, level, rng, limit_bites=limit_bites)
        if plain is None:
            continue
        draft = {"level": level, **plain, **_surroundings(family, plain, level, rng)}
        if _is_fair(draft, family, limit_bites=limit_bites):
            numbers = _of_split(draft, family, limit_bites=limit_bites, of_key=key, rng=rng)
            if numbers is not None:
                return json.dumps({"key": key, **numbers})
    raise ValueError(f"no case of {name!r} at level {level} was found for the key {key}")


def _of_split(
    draft: Numbers, family: Family, *, limit_bites: bool, of_key: int, rng: random.Random
) -> Numbers | None:
    """A fair case in the split of its key, by other numbers of its risks; None if none is found."""
    numbers = {"family": family.name, **draft}
    for _ in range(SPLIT_ATTEMPTS):
        in_split = split_of(numbers) == split_of_key(of_key)
        if in_split and _is_fair(numbers, family, limit_bites=limit_bites):
            return numbers
        spread = _spread(family, draft["facts"], draft["rows"])
        numbers |= {
            "risks": [one | _odds(draft["level"], spread, rng) for one in draft["risks"]],
        }
    return None


def split_of_key(key: int) -> Split:
    """The split that the case of a key is in."""
    return "heldout" if key % HELD_OUT_ONE_IN == 0 else "train"


def split_of(numbers: Numbers) -> Split:
    """Train or held out, from a hash of what the case is; keys, words and their order aside."""
    content = {k: v for k, v in numbers.items() if k not in ("key", "looks", "story")}
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).digest()
    return "heldout" if int.from_bytes(digest[:8], "big") % HELD_OUT_ONE_IN == 0 else "train"


def keys(name: str, level: int, split: Split, seed: int) -> Iterator[int]:
    """The keys of one split, each once, in an order given by the seed; training keys recur."""
    start = random.Random(f"business keys {name} {level} {split} {seed}").randrange(KEYS)
    for number in count() if split == "train" else range(KEYS):
        key = (start + number * STRIDE) % KEYS
        if split_of_key(key) == split:
            yield key


def _plain(family: Family, level: int, rng: random.Random, *, limit_bites: bool) -> Numbers | None:
    """Facts, options and a bound that may make a fair case once risks are added.

    What most draws fail by is looked at here, before anything else is drawn.
    """
    facts = {name: rng.choice(s[level - 1]) for name, s in family.facts.items() if s[level - 1]}
    rows: list[Row] = []
    for _ in range(OPTIONS[level]):
        row = _row(family, facts, level, rng)
        if row is None or row in rows:
            return None
        rows.append(row)
    bound = _bound(family, facts, rows, rng)
    if bound is None:
        return None
    fits, values = _valued(family, facts, rows, bound)
    inside = sorted((value for value, fit in zip(values, fits, strict=True) if fit), reverse=True)
    shown = {0, bound, *facts.values(), *(number for row in rows for number in row.values())}
    if (
        fits[values.index(max(values))] is limit_bites
        or inside[0] == inside[1]
        or not shown.isdisjoint(map(abs, inside))
    ):
        return None
    best = _best(family, facts, rows, bound)
    others = ({**facts, family.hidden: number} for number in _other_numbers(family, level))
    if level == 1 and all(_best(family, other, rows, bound) == best for other in others):
        return None
    return {"facts": facts, "rows": rows, "bound": bound}


Valued = tuple[list[bool], list[Fraction | int]]


def _valued(family: Family, facts: Facts, rows: Sequence[Row], bound: int) -> Valued:
    """Which options keep to the limit, and what each is worth before risks; more is better."""
    figures = [family.work_out(facts, row) for row in rows]
    on = [limited(family, *one) for one in zip(rows, figures, strict=True)]
    sign = -1 if family.lowest_is_best else 1
    return (
        [family.limit.admits(number, bound) for number in on],
        [sign * list(one.values())[-1] for one in figures],
    )


def _best(
    family: Family, facts: Facts, rows: Sequence[Row], bound: int, risks: Sequence[Fraction] = ()
) -> int | None:
    """Which option is the best, less what risks cost each; None where all break the limit."""
    fits, values = _valued(family, facts, rows, bound)
    costs = risks or [Fraction(0)] * len(rows)
    worths = [value - cost for value, cost in zip(values, costs, strict=True)]
    inside = [(worth, -at) for at, (worth, fit) in enumerate(zip(worths, fits, strict=True)) if fit]
    return -max(inside)[1] if inside else None


def _other_numbers(family: Family, level: int) -> Sequence[int]:
    """Some of what the hidden fact might be."""
    possible = family.facts[family.hidden][level - 1]
    return possible[:: 1 + len(possible) // TRIED]


def _surroundings(family: Family, plain: Numbers, level: int, rng: random.Random) -> Numbers:
    """Risks, what is hidden, and what can be looked at besides."""
    risks = _risks(family, plain["facts"], plain["rows"], level, rng)
    needed = _needed(family, risks, level, rng)
    spare = _spare(family, level, rng)
    return {
        "story": rng.choice(family.stories),
        "risks": risks,
        "needed": needed,
        "spare": spare,
        "looks": rng.sample([*needed, *spare], len(needed) + len(spare)),
    }


def _row(family: Family, facts: Facts, level: int, rng: random.Random) -> dict[str, int] | None:
    """An option whose figures are whole; None where none was found."""
    for _ in range(ROW_ATTEMPTS):
        row: dict[str, int] = {}
        for column, sizes in family.columns.items():
            if sizes[level - 1]:
                possible = sizes[level - 1]
                step = family.step(column, facts, row)
                # Of a step other than 1 only in columns whose numbers follow one another.
                multiples = possible[-possible[0] % step :: step]
                if not multiples:
                    return None
                row[column] = rng.choice(multiples)
        figures = family.work_out(facts, row).values()
        if all(figure.denominator == 1 for figure in figures) and (level > 1 or min(figures) >= 0):
            return row
    return None


def _bound(family: Family, facts: Facts, rows: Sequence[Row], rng: random.Random) -> int | None:
    """A bound that some options break and at least two keep to."""
    sign = -1 if family.limit.at_least else 1
    numbers = sorted(sign * int(limited(family, row, family.work_out(facts, row))) for row in rows)
    kept = rng.randint(2, len(numbers) - 1)
    inside, outside = numbers[kept - 1], numbers[kept]
    if inside == outside:
        return None
    bound = sign * rng.randint(inside, outside - 1)
    return bound if bound >= 0 else None


def _risks(
    family: Family, facts: Facts, rows: Sequence[Row], level: int, rng: random.Random
) -> list[dict[str, Any]]:
    """Risks of a size that matters among the options' values, covered at about what they cost."""
    spread = _spread(family, facts, rows)
    letters = LETTERS[: len(rows)]
    return [
        {
            "name": name,
            "hits": letters if level == 1 else _some_of(letters, rng),
            **_odds(level, spread, rng),
        }
        for name in rng.sample(NAMES_OF_RISKS, RISKS[level])
    ]


def _spread(family: Family, facts: Facts, rows: Sequence[Row]) -> int:
    """How far the options' values lie apart."""
    values = [int(list(family.work_out(facts, row).values())[-1]) for row in rows]
    return max(values) - min(values)


def _odds(level: int, spread: int, rng: random.Random) -> dict[str, int]:
    """Chance, loss and cover: the cover is a little below what is lost on average, or above."""
    chance = rng.choice(CHANCES[level])
    loss = LOSS_UNIT[level] * rng.randint(1, max(4, min(60, spread // 15)))
    average = chance * loss // 100
    off = rng.randint(1, max(2, average // 2))
    cover = average - off if rng.random() < 0.5 and average > off else average + off
    return {"chance": chance, "loss": loss, "cover": cover}


def _some_of(letters: str, rng: random.Random) -> str:
    return "".join(sorted(rng.sample(letters, rng.randint(1, len(letters) - 1))))


def _needed(
    family: Family, risks: Sequence[Mapping[str, Any]], level: int, rng: random.Random
) -> list[str]:
    """What is hidden of what the answer rests on: a fact, then the limit or a chance, then all."""
    others = [family.limit.name, f"{rng.choice(risks)['name']}_chance"]
    return [family.hidden, *{1: [], 2: [rng.choice(others)], 3: others}[level]]


def _spare(family: Family, level: int, rng: random.Random) -> dict[str, int]:
    """Items without a part in the answer, most of which have one in cases of other families."""
    own = {*family.facts, *family.columns, family.limit.name}
    elsewhere = {one.hidden: one.facts[one.hidden][level - 1] for one in FAMILIES.values()}
    numbers: dict[str, Sequence[int]] = {k: v for k, v in elsewhere.items() if k not in own}
    past = rng.choice(PAST)
    names = [past, *rng.sample(sorted(numbers), SPARES - 1)]
    return {name: rng.choice(numbers.get(name, range(3, 60))) for name in names}


def _is_fair(numbers: Numbers, family: Family, *, limit_bites: bool) -> bool:
    """Whether a case has one answer that has to be worked out."""
    case = case_of(family, numbers)
    worths = [case.worth(option) for option in case.ranked]
    first = max(case.options, key=case.worth)
    return (
        worths[0] > worths[1]
        and first.fits is not limit_bites
        and (family.lowest_is_best or worths[-1] > 0)
        and _cannot_be_copied(case)
        and _hidden_fact_decides(case)
    )


def _cannot_be_copied(case: Case) -> bool:
    """Whether no figure of the best plan, nor a feasible option's value, is shown anywhere."""
    shown = {0, *case.shown()}
    values = {option.value for option in case.feasible}
    return shown.isdisjoint(values) and shown.isdisjoint(case.plan(case.best).values())


def _hidden_fact_decides(case: Case) -> bool:
    """Whether another number behind the hidden fact would make another option the best."""
    family, best = case.family, LETTERS.index(case.best.letter)
    risks = [option.risk for option in case.options]
    others = (
        {**case.facts, family.hidden: number} for number in _other_numbers(family, case.level)
    )
    return any(_best(family, facts, case.rows, case.bound, risks) != best for facts in others)
