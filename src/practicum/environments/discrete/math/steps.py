"""Algebra steps: what an action does to both sides, and how it is written.

At the lower levels an action's name is the whole of it and the equation supplies the number
(`subtract_terms` on `3x + 7 = 16` subtracts 7). From `FIRST_WRITTEN_LEVEL` the policy writes the
term itself (`subtract_terms 7`).
"""

from dataclasses import dataclass
from fractions import Fraction

from practicum.environments.discrete.math.equation import Equation, Term, number

__all__ = [
    "ALGEBRA",
    "FIRST_WRITTEN_LEVEL",
    "LARGEST_NUMBER",
    "PRICE",
    "Step",
    "apply_step",
    "implied_step",
    "scale_away",
    "take_away",
]

FIRST_WRITTEN_LEVEL = 3
"""From here on the policy writes the argument."""

LARGEST_NUMBER = 99_999
"""A step that would write a larger numerator or denominator is refused, so that no play can make
the conversation grow without bound."""

PRICE = {
    "add_terms": 2.0,
    "subtract_terms": 2.0,
    "multiply_terms": 2.0,
    "divide_terms": 2.0,
    "simplify": 1.0,
}
"""What a useful algebra step pays."""

ALGEBRA = tuple(PRICE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One algebra action and the term it acts with; `simplify` has none."""

    action: str
    term: Term | None = None

    def __str__(self) -> str:
        return self.action if self.term is None else f"{self.action} {self.term}"


def apply_step(equation: Equation, step: Step) -> Equation | None:
    """Both sides after the step; None when it is not algebra that keeps the equation.

    >>> from practicum.environments.discrete.math.parse import parse_equation
    >>> str(apply_step(parse_equation("x/4 = 2"), Step(action="multiply_terms", term=number(4))))
    'x = 8'
    """
    if step.term is None:
        return equation.simplify() if step.action == "simplify" else None
    if step.action == "add_terms":
        return equation.add(step.term)
    if step.action == "subtract_terms":
        return equation.add(step.term.scaled(Fraction(-1)))
    by = step.term.factor
    if step.term.kind != "number" or by == 0:
        return None
    if step.action == "multiply_terms":
        return equation.scale(by)
    return equation.scale(1 / by) if step.action == "divide_terms" else None


def take_away(term: Term) -> Step:
    """The step that removes a number or a multiple of x from its side.

    >>> str(take_away(number(-3)))
    'add_terms 3'
    """
    action = "subtract_terms" if term.factor > 0 else "add_terms"
    return Step(action=action, term=Term(factor=abs(term.factor), kind=term.kind))


def scale_away(factor: Fraction) -> Step:
    """The step that turns a factor into 1.

    >>> str(scale_away(Fraction(1, 4))), str(scale_away(Fraction(-3)))
    ('multiply_terms 4', 'divide_terms -3')
    """
    if factor.denominator > 1 and abs(factor.numerator) == 1:
        return Step(action="multiply_terms", term=number(1 / factor))
    return Step(action="divide_terms", term=number(factor))


def implied_step(equation: Equation, action: str) -> Step | None:
    """The step an action stands for where the policy writes no argument.

    It acts on the side of x in `ax + b = c`; None where the action does not fit what stands there:
    there is nothing to subtract in `3x - 7 = 2`, and nothing to divide by in `x/4 = 5`.
    """
    if action == "simplify":
        return Step(action=action)
    of_kind = {term.kind: term.factor for term in equation.left}
    x, constant = of_kind.get("x", Fraction(0)), of_kind.get("number", Fraction(0))
    if action in {"add_terms", "subtract_terms"}:
        step = take_away(number(constant))
        return step if constant and step.action == action else None
    by = x.numerator if action == "divide_terms" else x.denominator
    return Step(action=action, term=number(by)) if by != 1 else None
