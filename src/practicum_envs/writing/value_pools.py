"""Where values of briefs are drawn from; names and places of held-out tasks are others."""

import random
from datetime import date, timedelta

from practicum.core.task import Split
from practicum_envs.writing.typed_values import MONTHS, WEEKDAYS

FIRST_NAMES: dict[Split, list[str]] = {
    "train": (
        "Anna Ben Carla Daniel Elena Felix Greta Henry Ingrid Jonas Laura Martin Nadia Oscar Paula "
        "Robert Sofia Thomas Vera Walter Alice Bruno Clara David Emma George Hannah Ivan Julia Karl"
    ).split(),
    "heldout": (
        "Adam Bella Cecil Diana Edgar Fiona Gustav Helen Isaac Judith Kevin Linda Marcus Nora Otto "
        "Peter Rachel Samuel Teresa Victor Agnes Boris"
    ).split(),
}
LAST_NAMES: dict[Split, list[str]] = {
    "train": (
        "Adams Brown Carter Davis Evans Foster Graham Harris Jackson Keller Lopez Meyer Nelson "
        "Olson Parker Quinn Roberts Schmidt Turner Vargas Walsh Young Zimmer Bauer Collins Dawson"
    ).split(),
    "heldout": (
        "Allen Burke Clarke Dixon Ellis Franklin Garcia Hughes Ivanov Jensen Knight Larson Morgan "
        "Novak Owens Peterson Reyes Sanders Thompson Vance Wagner Yates"
    ).split(),
}
PLACE_NAMES: dict[Split, list[str]] = {
    "train": "Alder Birch Cedar Elm Juniper Linden Maple Poplar Spruce Walnut Harbor".split(),
    "heldout": "Acorn Beech Cypress Hazel Laurel Meadow Oak Pine Rowan Sycamore Willow".split(),
}
PLACE_KINDS = "Hall House Room Center Library School Park Theater".split()
HOSTS: dict[Split, list[str]] = {
    "train": "townhall lakeside northgate oldmill parkview seaside".split(),
    "heldout": "brookside eastgate hilltop newbridge riverbend westfield".split(),
}
DESKS = "info office team desk events help".split()
YEAR = 2026
"""That the weekdays are of; no brief names it."""


def a_date(rng: random.Random, half: int = 0) -> str:
    """A date with its weekday, such as `Saturday, 14 March`; of a half of the year, 1 or 2."""
    first, days = {0: (0, 365), 1: (0, 181), 2: (181, 184)}[half]
    day = date(YEAR, 1, 1) + timedelta(days=first + rng.randrange(days))
    return f"{WEEKDAYS[day.weekday()]}, {day.day} {MONTHS[day.month - 1]}"


def a_time(rng: random.Random, half: int = 0) -> str:
    """A time of the day, such as `9 am` or `4:30 pm`; of a half of the day, 1 or 2."""
    hours = {0: range(7, 21), 1: range(7, 12), 2: range(13, 21)}[half]
    hour = rng.choice([one for one in hours if one != 12])
    minutes = rng.choice(["", "", ":15", ":30", ":45"])
    return f"{(hour - 1) % 12 + 1}{minutes} {'am' if hour < 12 else 'pm'}"


def an_amount(rng: random.Random, most: int) -> str:
    """An amount of dollars, rounder the larger it is."""
    step = 1 if most <= 60 else 5 if most <= 400 else 50
    amount = rng.randrange(3 * step, most + 1, step)
    return f"${amount:,}"


def a_share(rng: random.Random) -> str:
    """A share of a hundred."""
    return f"{rng.randrange(5, 61, 5)}%"


def a_person(rng: random.Random, split: Split) -> str:
    """A first and a last name."""
    return f"{rng.choice(FIRST_NAMES[split])} {rng.choice(LAST_NAMES[split])}"


def a_place(rng: random.Random, split: Split) -> str:
    """A room or building, such as `Maple Hall`."""
    return f"{rng.choice(PLACE_NAMES[split])} {rng.choice(PLACE_KINDS)}"


def an_email(rng: random.Random, split: Split) -> str:
    """An address of a domain that belongs to nobody."""
    return f"{rng.choice(DESKS)}@{rng.choice(HOSTS[split])}.example"
