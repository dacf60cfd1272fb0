"""Texts for files: log lines, tables, settings, prose. No two lines of one text are equal."""

import random
from collections.abc import Callable

__all__ = ["amount_table", "log_lines", "prose", "settings", "text_of"]

SUBJECTS = (
    "disk mirror queue cache worker socket parser mailer printer sensor router scanner builder "
    "index archive session gateway import export ticket backup token upload lease"
)
VERBS = "stopped started restarted stalled answered closed opened failed moved waited"
PLACES = "on at near behind beside under"
AREAS = "north south east west central harbor upper lower inner outer"
KEYS = (
    "port host timeout retries workers color language region prefix limit interval depth "
    "threads format encoding level window margin weight priority"
)


def text_of(lines: list[str]) -> str:
    """Lines as a file holds them."""
    return "".join(f"{line}\n" for line in lines)


def _distinct(draw: Callable[[], str], count: int) -> list[str]:
    found: dict[str, None] = {}
    while len(found) < count:
        found[draw()] = None
    return list(found)


def prose(chance: random.Random, count: int) -> list[str]:
    """Short lines of words."""
    return _distinct(
        lambda: " ".join(
            (
                chance.choice(SUBJECTS.split()),
                chance.choice(VERBS.split()),
                chance.choice(PLACES.split()),
                chance.choice(AREAS.split()),
                str(chance.randint(2, 99)),
            )
        ),
        count,
    )


def log_lines(chance: random.Random, count: int, levels: tuple[str, ...]) -> list[str]:
    """Dated lines with a level word; each level occurs at least once and time goes on."""
    minute = chance.randint(0, 300)
    order = list(levels) + [chance.choice(levels) for _ in range(count - len(levels))]
    chance.shuffle(order)
    date = f"2024-{chance.randint(1, 12):02}-{chance.randint(1, 28):02}"
    lines = []
    for level in order:
        minute += chance.randint(1, 9)
        clock = f"{minute // 60 % 24:02}:{minute % 60:02}"
        subject, verb = chance.choice(SUBJECTS.split()), chance.choice(VERBS.split())
        lines.append(f"{date} {clock} {level} {subject} {verb} code {chance.randint(100, 999)}")
    return lines


def amount_table(chance: random.Random, rows: int, names: list[str]) -> list[tuple[str, str, int]]:
    """Rows of a name, an area and a number; every number is different."""
    amounts = chance.sample(range(61, 950), rows)
    return [(chance.choice(names), chance.choice(AREAS.split()), amount) for amount in amounts]


def settings(chance: random.Random, count: int) -> dict[str, str]:
    """Keys with values; no value is another one's."""
    keys = chance.sample(KEYS.split(), count)
    values = chance.sample(range(10, 9000), count)
    return {key: str(value) for key, value in zip(keys, values, strict=True)}
