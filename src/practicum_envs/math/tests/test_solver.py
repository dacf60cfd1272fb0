"""The reference is right, works from anywhere, and no path is cheaper."""

import heapq
import random
from collections.abc import Iterator
from fractions import Fraction
from itertools import count, islice

import pytest

from practicum_envs.math.equation import Equation, number, parse_equation, variable
from practicum_envs.math.problems import generate
from practicum_envs.math.rules import (
    PRICE,
    Step,
    apply_step,
    implied_step,
    remaining_pay,
    remaining_steps,
    removal_of,
    scaling_to_one,
)


@pytest.mark.parametrize(
    ("equation", "steps"),
    [
        ("x = 3", []),
        ("3 = x", []),
        ("3x + 7 = 16", ["subtract_terms 7", "divide_terms 3"]),
        ("x/4 - 3 = 2", ["add_terms 3", "multiply_terms 4"]),
        ("-x + 5 = 0", ["add_terms x"]),
        ("2x + 1 = 5x - 8", ["subtract_terms 2x", "add_terms 8", "divide_terms 3"]),
        ("2(x + 3) = 10", ["divide_terms 2", "subtract_terms 3"]),
        ("2x + 3x = 10", ["simplify", "divide_terms 5"]),
        ("(-3x + 6)/2 + 7 + x = -1", ["multiply_terms -2", "simplify", "add_terms 20"]),
        (
            "(2x + 3)/4 + 1 = 3(x - 1)",
            [
                "multiply_terms 4",
                "simplify",
                "subtract_terms 2x",
                "add_terms 12",
                "divide_terms 10",
            ],
        ),
    ],
)
def test_the_reference_solves_as_a_textbook_does(equation: str, steps: list[str]) -> None:
    found = remaining_steps(parse_equation(equation), written=True)
    assert [str(step) for step in found] == steps


@pytest.mark.parametrize("level", [1, 2, 3, 4, 5])
def test_the_steps_end_with_x_alone_and_the_right_number(level: int) -> None:
    for problem in islice(generate([level], "train", 5), 60):
        equation = problem.equation
        for step in remaining_steps(equation, written=level >= 3):
            after = apply_step(equation, step)
            assert after is not None
            equation = after
        assert equation.shown_answer == problem.equation.solution


def many_steps(equation: Equation) -> Iterator[Step]:
    """More steps than the solver itself considers."""
    both = equation.left + equation.right
    left, right = equation.coefficients
    yield Step(action="simplify")
    plain = {t: None for t in both if t.kind != "bracket"}
    collected = [variable(left.x), variable(right.x), number(left.number), number(right.number)]
    for term in [*plain, *(t for t in collected if t.factor)]:
        yield removal_of(term)
        yield removal_of(term.scaled(Fraction(-1)))
    factors = [t.factor for t in both] + [left.x - right.x]
    for factor in {f * sign for f in factors for sign in (1, -1)} - {Fraction(1)}:
        yield scaling_to_one(factor)
        yield Step(action="multiply_terms", term=number(factor.denominator))


def cheapest(equation: Equation, below: float) -> float:
    """The least cost found by trying everything that costs less than `below`."""
    order = count()
    open_states = [(0.0, next(order), equation)]
    costs: dict[Equation, float] = {equation: 0.0}
    while open_states:
        cost, _, at = heapq.heappop(open_states)
        if at.shown_answer is not None:
            return cost
        for step in many_steps(at):
            after = apply_step(at, step)
            reached = cost + PRICE[step.action]
            if after and reached < below and reached < costs.get(after, below):
                costs[after] = reached
                heapq.heappush(open_states, (reached, next(order), after))
    return below


@pytest.mark.parametrize("level", [3, 4, 5])
def test_no_path_is_cheaper_than_the_reference(level: int) -> None:
    costs = {
        problem.equation: remaining_pay(problem.equation, written=True)
        for problem in islice(generate([level], "heldout", 11), 30)
    }
    small = [equation for equation, cost in costs.items() if cost <= 7][:4]
    assert len(small) == 4
    for equation in small:
        assert cheapest(equation, below=costs[equation]) == costs[equation], str(equation)


@pytest.mark.parametrize("level", [3, 4, 5])
def test_one_step_never_saves_more_than_its_price(level: int) -> None:
    """So the potential is exact, and every path that ends right earns the same in the end."""
    chance = random.Random(level)
    for problem in islice(generate([level], "train", level), 40):
        equation = problem.equation
        for _ in range(4):
            step = chance.choice([*many_steps(equation), scaling_to_one(Fraction(5, 3))])
            after = apply_step(equation, step)
            if after is None or after.largest > 10**5:
                continue
            saved = remaining_pay(equation, written=True) - remaining_pay(after, written=True)
            assert saved <= PRICE[step.action], f"{equation} by {step} to {after}"
            equation = after


def test_actions_without_arguments_have_a_count_from_every_state_they_reach() -> None:
    actions = ("add_terms", "subtract_terms", "multiply_terms", "divide_terms")
    for problem in islice(generate([2], "train", 0), 30):
        reached = {problem.equation}
        for _ in range(3):
            for equation in list(reached):
                steps = [implied_step(equation, action) for action in actions]
                reached |= {e for s in steps if s and (e := apply_step(equation, s)) is not None}
        assert all(remaining_pay(equation, written=False) <= 4.0 for equation in reached)


def test_an_equation_that_needs_arguments_is_refused_without_them() -> None:
    with pytest.raises(ValueError, match="without arguments"):
        remaining_steps(parse_equation("2(x + 3) = 10"), written=False)
