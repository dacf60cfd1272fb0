from fractions import Fraction

import pytest

from practicum_envs.math.equation import number, parse_equation, variable
from practicum_envs.math.rules import (
    Step,
    apply_step,
    implied_step,
    removal_of,
    scaling_to_one,
)


@pytest.mark.parametrize(
    ("equation", "action", "after"),
    [
        ("3x + 7 = 16", "subtract_terms", "3x = 9"),
        ("3x + 7 = 16", "divide_terms", "x + 7/3 = 16/3"),
        ("3x - 7 = 2", "add_terms", "3x = 9"),
        ("x/4 - 3 = 2", "multiply_terms", "x - 12 = 8"),
        ("3x/4 = 6", "divide_terms", "x/4 = 2"),
        ("3x/4 = 6", "multiply_terms", "3x = 24"),
        ("3x + 7 = 16", "simplify", "3x + 7 = 16"),
    ],
)
def test_an_action_without_argument_takes_its_number_from_the_equation(
    equation: str, action: str, after: str
) -> None:
    before = parse_equation(equation)
    step = implied_step(before, action)
    assert step is not None
    assert str(apply_step(before, step)) == after


@pytest.mark.parametrize(
    ("equation", "action"),
    [
        ("3x + 7 = 16", "add_terms"),
        ("3x - 7 = 2", "subtract_terms"),
        ("3x = 9", "subtract_terms"),
        ("3x = 9", "add_terms"),
        ("3x + 7 = 16", "multiply_terms"),
        ("x/4 = 2", "divide_terms"),
        ("x = 2", "divide_terms"),
    ],
)
def test_an_action_that_does_not_fit_the_equation_implies_no_step(
    equation: str, action: str
) -> None:
    assert implied_step(parse_equation(equation), action) is None


@pytest.mark.parametrize(
    "step",
    [
        Step(action="multiply_terms", term=number(0)),
        Step(action="divide_terms", term=number(0)),
        Step(action="multiply_terms", term=variable(1)),
        Step(action="divide_terms", term=variable(2)),
        Step(action="add_terms"),
        Step(action="juggle", term=number(2)),
    ],
)
def test_what_would_lose_the_equation_is_no_step(step: Step) -> None:
    assert apply_step(parse_equation("3x + 7 = 16"), step) is None


def test_steps_are_written_as_the_policy_writes_them() -> None:
    assert str(removal_of(variable(Fraction(1, 4)))) == "subtract_terms x/4"
    assert str(removal_of(number(-5))) == "add_terms 5"
    assert str(scaling_to_one(Fraction(-1))) == "divide_terms -1"
    assert str(scaling_to_one(Fraction(-1, 3))) == "multiply_terms -3"
    assert str(scaling_to_one(Fraction(5, 2))) == "divide_terms 5/2"
    assert str(Step(action="simplify")) == "simplify"
