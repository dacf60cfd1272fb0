"""Values in a text, by type: dates, times, amounts, shares, numbers, addresses.

`mentions` finds every one, however it is written, so that what a text says can be compared with
what its brief gives: `$45`, `45 dollars` and `forty-five dollars` are one amount.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from practicum_envs.writing.number_words import (
    NUMBER,
    ORDINAL,
    ORDINALS,
    WORDS,
    number_of,
    ordinal_of,
)

WEEKDAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
MONTHS = (
    "January February March April May June July August September October November December".split()
)
CURRENCIES = {
    "$": "dollar",
    "€": "euro",
    "£": "pound",
    "dollar": "dollar",
    "usd": "dollar",
    "buck": "dollar",
    "euro": "euro",
    "eur": "euro",
    "pound": "pound",
    "cent": "cent",
}

_DAY = "|".join(WEEKDAYS)
_MONTH = "|".join(MONTHS)
_NUMERAL = rf"(?P<day>\d{{1,2}}(?:st|nd|rd|th)?|{ORDINAL})"
_HOUR = rf"(?:\d{{1,2}}|{WORDS})"
_HALF = r"(?:(?P<half>[ap])\.?\s?m\b\.?)"


class Clock(NamedTuple):
    """A time of the day."""

    minutes: int
    """Within a half of the day."""
    half: str
    """`a`, `p`, or nothing where the text leaves it open."""


class Day(NamedTuple):
    """A day of a year that is not told."""

    month: int
    day: int
    weekday: str
    """Empty where the text has none."""


@dataclass(frozen=True, slots=True)
class Mention:
    """A value that a text says, and where."""

    kind: str
    value: object
    start: int
    end: int
    said: str


def _date(found: re.Match[str]) -> object:
    day = found["day"].lower()
    number = ordinal_of(day) if day.rpartition("-")[2] in ORDINALS else int(re.sub(r"\D", "", day))
    weekday = (found["weekday"] or "").capitalize()
    return Day(MONTHS.index(found["month"].capitalize()) + 1, number, weekday)


def _clock(found: re.Match[str]) -> object:
    hour, minutes = int(number_of(found["hour"])), int(found["minutes"] or 0)
    half = (found["half"] or "").lower()
    if not half and (hour > 12 or hour == 0):
        half = "p" if hour else "a"
    return Clock((hour % 12) * 60 + minutes, half)


def _part_of_day(found: re.Match[str]) -> object:
    half = "a" if found["part"].lower() == "morning" else "p"
    return Clock((int(number_of(found["hour"])) % 12) * 60, half)


def _past(found: re.Match[str]) -> object:
    minutes = {"half past": 30, "quarter past": 15, "quarter to": -15}[
        re.sub(r"\s+", " ", found["how"].lower())
    ]
    return Clock(((int(number_of(found["hour"])) % 12) * 60 + minutes) % 720, "")


def _money(found: re.Match[str]) -> object:
    unit = found.groupdict().get("sign") or found["unit"].lower().removesuffix("s")
    return (number_of(found["number"]), CURRENCIES[unit])


def _number(found: re.Match[str]) -> object:
    return number_of(found["number"])


_UNITS = "|".join(unit for unit in CURRENCIES if unit.isalpha())
PATTERNS: tuple[tuple[str, str, Callable[[re.Match[str]], object]], ...] = (
    ("email", r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+", lambda found: found[0].lower()),
    ("address", r"(?:https?://|www\.)\S+|\b[\w-]+\.(?:com|org|net|io)\b", lambda found: found[0]),
    ("phone", r"\+?\d[\d-]*\d-\d{2,}", lambda found: re.sub(r"\D", "", found[0])),
    ("money", rf"(?P<sign>[$€£])\s?(?P<number>{NUMBER})", _money),
    ("money", rf"(?P<number>{NUMBER})[\s-]+(?P<unit>(?:{_UNITS})s?)\b", _money),
    ("percent", rf"(?P<number>{NUMBER})\s?(?:%|percent\b|per\s+cent\b)", _number),
    (
        "time",
        rf"\b(?P<hour>\d{{1,2}})(?::(?P<minutes>\d\d))?\s?{_HALF}"
        rf"|\b(?P<hour_2>\d{{1,2}}):(?P<minutes_2>\d\d)\b",
        lambda found: _clock(_Alternatives(found)),  # type: ignore[arg-type]
    ),
    (
        "time",
        rf"(?P<how>half\s+past|quarter\s+past|quarter\s+to)\s+(?P<hour>{_HOUR})",
        _past,
    ),
    (
        "time",
        rf"\b(?P<hour>{_HOUR})(?P<minutes>)\s+(?:o'clock|{_HALF})",
        _clock,
    ),
    (
        "time",
        rf"\b(?P<hour>{_HOUR})\s+in\s+the\s+(?P<part>morning|afternoon|evening)",
        _part_of_day,
    ),
    ("time", r"\bnoon\b", lambda found: Clock(0, "p")),
    ("time", r"\bmidnight\b", lambda found: Clock(0, "a")),
    (
        "date",
        rf"(?:\b(?P<weekday>{_DAY}),?\s+(?:the\s+)?)?\b{_NUMERAL}\s+(?:of\s+)?(?P<month>{_MONTH})\b",
        _date,
    ),
    (
        "date",
        rf"(?:\b(?P<weekday>{_DAY}),?\s+)?\b(?P<month>{_MONTH})\s+(?:the\s+)?{_NUMERAL}\b",
        _date,
    ),
    ("ordinal", r"\b(?P<number>\d{1,2})(?:st|nd|rd|th)\b", lambda found: int(found["number"])),
    ("weekday", rf"\b(?:{_DAY})(?=s?\b)", lambda found: found[0].capitalize()),
    (
        "relative",
        r"\b(?:tomorrow|yesterday|tonight|(?:next|last|this)\s+(?:week|month|year|weekend|spring|"
        r"summer|autumn|fall|winter))\b",
        lambda found: re.sub(r"\s+", " ", found[0].lower()),
    ),
    ("number", rf"(?P<number>{NUMBER})", _number),
)
"""Kind, pattern and reading, in the order in which they take their part of a text."""

_COMPILED = [(kind, re.compile(text, re.IGNORECASE), read) for kind, text, read in PATTERNS]
_MONTH_NAME = re.compile(rf"\b(?:{_MONTH})\b")
NO_NUMBERS = {"one", "ones"}
"""Words that are seldom a number: `one of them`."""


class _Alternatives:
    """The groups of a match of which two alternatives have the same ones, numbered."""

    def __init__(self, found: re.Match[str]) -> None:
        self._found = found

    def __getitem__(self, name: str) -> str | None:
        groups = self._found.groupdict()
        return groups.get(name) or groups.get(f"{name}_2")


def mentions(text: str) -> list[Mention]:
    """Every value in a text, in order; no part of it is read twice.

    >>> [(one.kind, one.said) for one in mentions("Pay $45 by Friday, 3 May at noon.")]
    [('money', '$45'), ('date', 'Friday, 3 May'), ('time', 'noon')]
    """
    found = sorted(_found(text), key=lambda one: one.start)
    return found


def _found(text: str) -> Iterator[Mention]:
    rest = text
    for kind, pattern, read in _COMPILED:
        for match in list(pattern.finditer(rest)):
            if kind == "number" and match[0].lower() in NO_NUMBERS:
                continue
            yield Mention(kind, read(match), match.start(), match.end(), match[0])
            rest = _blanked(rest, match.start(), match.end())
    for match in _MONTH_NAME.finditer(rest):
        if not _is_other_word(rest, match):
            yield Mention("month", match[0], match.start(), match.end(), match[0])


def _is_other_word(text: str, match: re.Match[str]) -> bool:
    """Whether `May` or `March` begins a sentence, and so may be a verb."""
    before = text[: match.start()].rstrip()
    return match[0] in ("May", "March") and (not before or before[-1] in ".!?\n")


def _blanked(text: str, start: int, end: int) -> str:
    return f"{text[:start]}{chr(0) * (end - start)}{text[end:]}"


def same_time(one: Clock, other: Clock) -> bool:
    """Whether two times agree; one that leaves the half of the day open agrees with both.

    >>> same_time(Clock(540, "a"), Clock(540, "")), same_time(Clock(540, "a"), Clock(540, "p"))
    (True, False)
    """
    halves = {one.half, other.half} - {""}
    return one.minutes == other.minutes and len(halves) < 2
