import pytest

from practicum.analysis.wording import (
    format_age,
    format_duration,
    format_number,
    one_line,
    to_ascii,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (0.5, "0.5"),
        (-2.345, "-2.35"),
        (999.4, "999"),
        (123456.0, "123456"),
        (9.9e-4, "9.9e-04"),
        (2.5e7, "2.5e+07"),
        (None, "-"),
    ],
)
def test_numbers_are_short(value: float | None, text: str) -> None:
    assert format_number(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (59.6, "1 min 00 s"), (3599, "59 min 59 s"), (86400 * 2, "2 d 0 h")],
)
def test_durations_have_their_two_largest_units(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@pytest.mark.parametrize(("seconds", "text"), [(-5, "now"), (60, "1m"), (86399, "23h")])
def test_ages_have_one_unit(seconds: float, text: str) -> None:
    assert format_age(seconds) == text


def test_text_of_others_cannot_move_the_cursor_or_change_colours() -> None:
    assert one_line("a\x1b[2Jb\x07\r\n\tc\u202ed") == "a?[2Jb? c?d"


def test_any_text_has_an_ascii_form() -> None:
    assert to_ascii("−3 × ½ ≤ π").isascii()
    assert to_ascii("−3 × 2 → −6") == "-3 x 2 -> -6"
