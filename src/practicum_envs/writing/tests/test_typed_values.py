from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from practicum_envs.writing.number_words import UNITS, number_of
from practicum_envs.writing.typed_values import MONTHS, WEEKDAYS, Clock, Day, mentions

ONES = list(UNITS)
TENS = ["", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]


def in_words(number: int) -> str:
    """A number below a million in words, independently of how they are read."""
    if number >= 1000:
        rest = number % 1000
        return f"{in_words(number // 1000)} thousand" + (f" {in_words(rest)}" if rest else "")
    if number >= 100:
        rest = number % 100
        return f"{ONES[number // 100]} hundred" + (f" and {in_words(rest)}" if rest else "")
    if number >= 20:
        return TENS[number // 10] + (f"-{ONES[number % 10]}" if number % 10 else "")
    return ONES[number]


def values(text: str) -> list[object]:
    return [one.value for one in mentions(text)]


@given(st.integers(0, 999_999))
def test_a_number_in_words_is_the_number_in_digits(number: int) -> None:
    assert number_of(in_words(number)) == number_of(str(number)) == number_of(f"{number:,}")


@given(st.integers(2, 99_999), st.sampled_from(["{} dollars", "{}-dollar"]))
def test_an_amount_is_one_however_it_is_written(amount: int, form: str) -> None:
    written = [f"${amount}", f"$ {amount:,}", form.format(amount), form.format(in_words(amount))]
    assert {str(values(f"It costs {one} now.")) for one in written} == {
        str([(float(amount), "dollar")])
    }


@given(st.integers(1, 12), st.integers(1, 28), st.sampled_from(["", *WEEKDAYS]))
def test_a_date_is_one_however_it_is_written(month: int, day: int, weekday: str) -> None:
    name, before = MONTHS[month - 1], f"{weekday}, " if weekday else ""
    suffix = {1: "st", 2: "nd", 3: "rd", 21: "st", 22: "nd", 23: "rd"}.get(day, "th")
    forms = [
        f"{day} {name}",
        f"{name} {day}",
        f"{name} {day}{suffix}",
        f"the {day}{suffix} of {name}",
    ]
    for form in forms:
        assert values(f"We meet on {before}{form} there.") == [Day(month, day, weekday)]


@pytest.mark.parametrize(
    ("written", "clock"),
    [
        *product(["9 am", "9:00 am", "9 a.m.", "nine am", "9 in the morning"], [Clock(540, "a")]),
        *product(["4:30 pm", "16:30"], [Clock(270, "p")]),
        *product(["half past four"], [Clock(270, "")]),
        *product(["a quarter to five"], [Clock(285, "")]),
        *product(["ten o'clock", "10 o'clock", "10:00"], [Clock(600, "")]),
        ("noon", Clock(0, "p")),
    ],
)
def test_a_time_is_one_however_it_is_written(written: str, clock: Clock) -> None:
    assert values(f"It starts at {written} sharp") == [clock]


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("Twelve of 40 said so.", ["number", "number"]),
        ("dozens came", ["number"]),
        ("It grew by fifteen percent, not 15%.", ["percent", "percent"]),
        ("Come tomorrow or next week.", ["relative", "relative"]),
        ("See you on Monday in March.", ["weekday", "month"]),
        ("March with us. May I help? You may.", []),
        ("one of them, no one", []),
        ("Write to a.b@c.example or call 555-0142.", ["email", "phone"]),
        ("on the 3rd", ["ordinal"]),
        ("24/7", ["number", "number"]),
    ],
)
def test_every_value_is_found_and_nothing_else(text: str, kinds: list[str]) -> None:
    assert [one.kind for one in mentions(text)] == kinds


@given(st.text())
def test_any_text_can_be_read(text: str) -> None:
    for one in mentions(text):
        assert text[one.start : one.end] == one.said
