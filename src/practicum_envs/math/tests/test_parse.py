from fractions import Fraction

import pytest

from practicum.core.errors import UserError
from practicum_envs.math.equation import (
    number,
    parse_equation,
    parse_term,
    variable,
)


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("3x+7=16", "3x + 7 = 16"),
        ("  3 * X + 7 = 16 ", "3x + 7 = 16"),
        ("1/2x + 3 = 5", "x/2 + 3 = 5"),
        ("0.5x = 2", "x/2 = 2"),
        ("x:4 − 3 = 2", "x/4 - 3 = 2"),
        ("(x + 3)*2 = 10", "2(x + 3) = 10"),
        ("(x + 3) = 10", "x + 3 = 10"),
        ("2(3)x = 12", "6x = 12"),
        ("(2 + 3)x = 10", "5x = 10"),
        ("-(x - 1)/2 = +4", "-(x - 1)/2 = 4"),
        ("x + 0 = 4", "x = 4"),
        ("2(3(x + 1) - 4) = 10", "2(3(x + 1) - 4) = 10"),
    ],
)
def test_what_people_write_is_read(text: str, printed: str) -> None:
    assert str(parse_equation(text)) == printed


@pytest.mark.parametrize(
    "text",
    [
        "",
        "3x + 7",
        "3x = 7 = 9",
        "3y = 9",
        "x*x = 4",
        "x(x + 1) = 4",
        "3/x = 1",
        "x/0 = 1",
        "3x + = 7",
        "(x + 1 = 7",
        "2(3(4(x + 1) - 1) + 1) = 7",
        "(" * 60 + "x = 1",
        "x + 1) = 7",
        "3 4x = 7",
        "x3 = 7",
        "x = x + 1",
        "2x = x + x",
        "3 = 3",
        "__import__('os') = x",
        "1234567890x = 1",
        "x = " + "1+" * 200 + "1",
    ],
)
def test_what_is_no_equation_in_x_is_refused_in_one_sentence(text: str) -> None:
    with pytest.raises(UserError, match="write one such as '3x \\+ 7 = 16'") as caught:
        parse_equation(text)
    assert "\n" not in str(caught.value)


def test_a_term_is_one_number_or_multiple_of_x() -> None:
    assert parse_term("7") == number(7)
    assert parse_term("-3/4") == number(Fraction(-3, 4))
    assert parse_term("2x") == variable(2)
    assert parse_term("x/4") == parse_term("1/4x") == variable(Fraction(1, 4))
    assert parse_term("0") == number(0)


@pytest.mark.parametrize("text", ["", "2 + 1", "2(x + 1)", "seven", "x = 3", "7 7", "1" * 500])
def test_anything_else_is_no_term(text: str) -> None:
    assert parse_term(text) is None
