"""The engine against brute force: every claim is checked by putting numbers in for x."""

import random
import re
from collections.abc import Iterator
from fractions import Fraction

import pytest

from practicum_envs.math.equation import (
    MAX_LENGTH,
    Equation,
    Side,
    Term,
    bracket,
    collect,
    number,
    parse_equation,
    variable,
)

POINTS = [Fraction(0), Fraction(1), Fraction(-7, 3), Fraction(22, 5)]


def value_of_text(side: str, x: Fraction) -> Fraction:
    """What a side is worth at x, worked out by Python from the printed text alone."""
    python = re.sub(r"(?<=[\dx)])(?=[x(])", "*", side.strip())
    python = re.sub(r"\d+", r"Fraction(\g<0>)", python)
    return Fraction(eval(python, {"Fraction": Fraction, "x": x}))


def gap(equation: Equation, x: Fraction) -> Fraction:
    left, right = str(equation).split("=")
    return value_of_text(left, x) - value_of_text(right, x)


def random_number(chance: random.Random) -> Fraction:
    value = Fraction(chance.randint(1, 12), chance.choice([1, 1, 1, 2, 3, 4]))
    return value * chance.choice([1, -1])


def random_side(chance: random.Random, depth: int) -> Side:
    terms: list[Term] = []
    for _ in range(chance.randint(1, 3)):
        kind = chance.choice(["number", "x", "bracket"] if depth else ["number", "x"])
        factor = random_number(chance)
        if kind == "bracket":
            inside = (variable(chance.randint(1, 5)), *random_side(chance, depth - 1))
            # A bracket with the factor 1 is written without brackets, so it is not one.
            terms.append(bracket(factor if factor != 1 else Fraction(2), inside))
        else:
            terms.append(variable(factor) if kind == "x" else number(factor))
    return tuple(terms)


def random_equation(chance: random.Random) -> Equation:
    while True:
        equation = Equation(left=random_side(chance, 2), right=random_side(chance, 2))
        if equation.solution is not None and len(str(equation)) <= MAX_LENGTH:
            return equation


EQUATIONS = [random_equation(random.Random(seed)) for seed in range(200)]


def both_printed(before: Equation, after: Equation) -> Iterator[tuple[str, str]]:
    """Each side's text before and after."""
    return zip(str(before).split("="), str(after).split("="), strict=True)


def test_the_solution_makes_both_sides_equal_and_no_other_number_does() -> None:
    for equation in EQUATIONS:
        assert equation.solution is not None
        assert gap(equation, equation.solution) == 0
        assert gap(equation, equation.solution + 1) != 0


def test_printing_and_reading_give_the_same_equation() -> None:
    for equation in EQUATIONS:
        assert parse_equation(str(equation)) == equation
        assert parse_equation(str(equation).replace(" ", "")) == equation


def test_simplifying_changes_no_value_and_is_done_in_one_go() -> None:
    for equation in EQUATIONS:
        simple = equation.simplify()
        assert simple.simplify() == simple
        for before, after in both_printed(equation, simple):
            assert [value_of_text(before, x) for x in POINTS] == [
                value_of_text(after, x) for x in POINTS
            ]


def test_adding_adds_the_same_to_both_sides() -> None:
    for equation in EQUATIONS:
        for term in (number(Fraction(-5, 2)), variable(3)):
            for before, after in both_printed(equation, equation.add(term)):
                for x in POINTS:
                    added = value_of_text(after, x) - value_of_text(before, x)
                    assert added == (term.factor * x if term.kind == "x" else term.factor)


def test_scaling_multiplies_both_sides() -> None:
    by = Fraction(-3, 4)
    for equation in EQUATIONS:
        for before, after in both_printed(equation, equation.scale(by)):
            for x in POINTS:
                assert value_of_text(after, x) == by * value_of_text(before, x)


def test_collecting_gives_the_value_of_a_side() -> None:
    for equation in EQUATIONS:
        linear = collect(equation.left)
        for x in POINTS:
            assert linear.x * x + linear.number == value_of_text(str(equation).split("=")[0], x)


@pytest.mark.parametrize(
    ("left", "printed"),
    [
        ((variable(3), number(7)), "3x + 7 = 16"),
        ((variable(Fraction(1, 4)), number(-3)), "x/4 - 3 = 16"),
        ((variable(Fraction(-3, 4)), number(Fraction(1, 2))), "-3x/4 + 1/2 = 16"),
        ((bracket(2, (variable(1), number(3))),), "2(x + 3) = 16"),
        ((bracket(Fraction(1, 4), (variable(2), number(3))),), "(2x + 3)/4 = 16"),
        ((number(1), bracket(-1, (variable(1), number(3)))), "1 - (x + 3) = 16"),
        ((bracket(Fraction(-3, 4), (variable(1), number(-1))),), "-3(x - 1)/4 = 16"),
        ((variable(-1),), "-x = 16"),
    ],
)
def test_equations_read_well(left: Side, printed: str) -> None:
    assert str(Equation(left=left, right=(number(16),))) == printed


def test_an_empty_side_reads_0() -> None:
    equation = parse_equation("3x + 6 = 0")
    assert str(equation.add(number(-6))) == "3x = -6"
    assert str(equation) == "3x + 6 = 0"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("2(x + 3) + 4 = 18", "2x + 10 = 18"),
        ("3(x - 1)/4 = 2", "(3x - 3)/4 = 2"),
        ("(2x + 3)/4 = 5", "(2x + 3)/4 = 5"),
        ("(4x + 8)/4 = 5", "x + 2 = 5"),
        ("2x + 3 + 3x = 4 + 9", "5x + 3 = 13"),
        ("5 - (x - 2) = 1", "7 - x = 1"),
    ],
)
def test_simplify_expands_and_collects(before: str, after: str) -> None:
    assert str(parse_equation(before).simplify()) == after


def test_a_term_cancels_its_exact_opposite_before_it_joins_a_like_term() -> None:
    assert str(parse_equation("3x + 4 + 5 = 18").add(number(-5))) == "3x + 4 = 13"
    assert str(parse_equation("3x + 4 + 5 = 18").add(number(-9))) == "3x - 5 + 5 = 9"


def test_clearing_a_denominator_opens_the_bracket() -> None:
    assert str(parse_equation("(2x + 3)/4 = x - 1").scale(Fraction(4))) == "2x + 3 = 4x - 4"


def test_multiplying_by_0_is_refused() -> None:
    with pytest.raises(ValueError, match="by 0"):
        parse_equation("3x = 9").scale(Fraction(0))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("x = 3", Fraction(3)),
        ("-2/3 = x", Fraction(-2, 3)),
        ("x = 0", Fraction(0)),
        ("3x = 9", None),
        ("-x = 9", None),
        ("x + 1 = 4", None),
        ("x = 2 + 1", None),
        ("x = 9 - 2x", None),
    ],
)
def test_an_answer_is_shown_only_when_x_stands_alone(text: str, shown: Fraction | None) -> None:
    assert parse_equation(text).shown_answer == shown
