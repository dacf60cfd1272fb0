"""The shapes of equation each level is made of.

A form spans a grid of whole numbers; each point of the grid is one equation, or none where the
numbers would make a poor one.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from practicum.environments.discrete.math.equation import (
    Equation,
    Side,
    Term,
    bracket,
    number,
    variable,
)

__all__ = ["LEVELS", "Form"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """One shape of problem."""

    ranges: tuple[Sequence[int], ...]
    """The values each number of the shape may take."""
    build: Callable[..., Equation | None]
    in_words: bool = False
    weight: int = 1
    """How often it is drawn, beside the other forms of its level."""

    @property
    def size(self) -> int:
        """Points of its grid."""
        return math.prod(len(values) for values in self.ranges)

    def equation_at(self, index: int) -> Equation | None:
        """The equation at one point of the grid."""
        chosen = []
        for values in self.ranges:
            index, at = divmod(index, len(values))
            chosen.append(values[at])
        return self.build(*chosen)


def _side(*terms: Term) -> Side:
    return tuple(term for term in terms if term.factor)


def _equation(left: Side, right: Side) -> Equation | None:
    equation = Equation(left=left, right=right)
    solution = equation.solution
    if solution is None or abs(solution.numerator) > 99 or solution.denominator > 12:
        return None
    return equation


def _scaled_plus(factor: Fraction, plus: int, x: int, *, reverse: bool = False) -> Equation | None:
    left = _side(variable(factor), number(plus))
    return _equation(left[::-1] if reverse else left, _side(number(factor * x + plus)))


def _times(a: int, b: int, x: int) -> Equation | None:
    """`ax + b = c`, with a result above 0."""
    return _scaled_plus(Fraction(a), b, x) if a * x + b > 0 else None


def _over(a: int, b: int, quotient: int) -> Equation | None:
    """`x/a + b = c`, with a result above 0."""
    return _scaled_plus(Fraction(1, a), b, a * quotient) if quotient + b > 0 else None


def _over_signed(a: int, b: int, quotient: int) -> Equation | None:
    return _scaled_plus(Fraction(1, a), b, a * quotient)


def _times_signed(a: int, b: int, x: int) -> Equation | None:
    return _scaled_plus(Fraction(a), b, x)


def _number_first(a: int, b: int, x: int) -> Equation | None:
    """`b + ax = c`."""
    return _scaled_plus(Fraction(a), b, x, reverse=True)


def _both_sides(a: int, b: int, c: int, d: int) -> Equation | None:
    """`ax + b = cx + d`."""
    return _equation(_side(variable(a), number(b)), _side(variable(c), number(d)))


def _like_terms(a: int, b: int, c: int, d: int) -> Equation | None:
    """`ax + b + cx = d`."""
    return _equation(_side(variable(a), number(b), variable(c)), _side(number(d)))


def _bracket_is(a: int, b: int, c: int) -> Equation | None:
    """`a(x + b) = c`."""
    return _equation((bracket(a, _side(variable(1), number(b))),), _side(number(c)))


def _bracket_plus(a: int, b: int, c: int, d: int) -> Equation | None:
    """`a(x + b) + c = d`."""
    return _equation((bracket(a, _side(variable(1), number(b))), number(c)), _side(number(d)))


def _bracket_both_sides(a: int, b: int, c: int, d: int) -> Equation | None:
    """`a(x + b) = cx + d`."""
    left = (bracket(a, _side(variable(1), number(b))),)
    return _equation(left, _side(variable(c), number(d)))


def _fraction(a: int, b: int, under: int) -> Term | None:
    """`(ax + b)/under`, None where the fraction could be reduced."""
    if math.gcd(a, b, under) > 1:
        return None
    return bracket(Fraction(1, under), (variable(a), number(b)))


def _fraction_is(a: int, b: int, under: int, d: int, e: int) -> Equation | None:
    """`(ax + b)/c = dx + e`."""
    left = _fraction(a, b, under)
    return _equation((left,), _side(variable(d), number(e))) if left else None


def _fraction_and_bracket(a: int, b: int, under: int, d: int, e: int) -> Equation | None:
    """`(ax + b)/c = d(x + e)`."""
    left = _fraction(a, b, under)
    return _equation((left,), (bracket(d, (variable(1), number(e))),)) if left else None


def _fraction_plus(a: int, b: int, under: int, d: int, e: int, f: int) -> Equation | None:
    """`(ax + b)/c + d = ex + f`."""
    left = _fraction(a, b, under)
    return _equation((left, number(d)), _side(variable(e), number(f))) if left else None


def _two_fractions(a: int, b: int, c: int, d: int, e: int, f: int) -> Equation | None:
    """`(ax + b)/c = (dx + e)/f`."""
    left, right = _fraction(a, b, c), _fraction(d, e, f)
    return _equation((left,), (right,)) if left and right else None


def _bracket_and_quotient(a: int, b: int, under: int, d: int) -> Equation | None:
    """`a(x + b) = x/c + d`."""
    left = (bracket(a, (variable(1), number(b))),)
    return _equation(left, _side(variable(Fraction(1, under)), number(d)))


def _without_zero(first: int, last: int) -> tuple[int, ...]:
    return tuple(n for n in range(first, last + 1) if n)


SMALL = range(2, 10)
PLUS = range(1, 21)
MINUS = range(-20, 0)
NEGATIVE = range(-9, -1)
NEAR = _without_zero(-9, 9)
NEARER = _without_zero(-6, 6)
MULTIPLE = tuple(n for n in NEARER if n != 1)
"""Factors of a bracket: 1 would leave no bracket."""
WIDE = _without_zero(-20, 20)
RESULT = _without_zero(-40, 40)

TIMES = (
    Form(ranges=(SMALL, PLUS, PLUS), build=_times),
    Form(ranges=(SMALL, MINUS, PLUS), build=_times),
)
OVER = (
    Form(ranges=(SMALL, PLUS, PLUS), build=_over),
    Form(ranges=(SMALL, MINUS, PLUS), build=_over),
)


def _told(forms: tuple[Form, ...]) -> tuple[Form, ...]:
    return tuple(Form(ranges=f.ranges, build=f.build, in_words=True) for f in forms)


def _twice(forms: tuple[Form, ...]) -> tuple[Form, ...]:
    return tuple(Form(ranges=f.ranges, build=f.build, weight=2) for f in forms)


LEVELS: dict[int, tuple[Form, ...]] = {
    1: TIMES,
    2: (*_twice(TIMES + OVER), *_told(TIMES + OVER)),
    3: (
        *TIMES,
        *OVER,
        *_told(TIMES + OVER),
        Form(ranges=(NEGATIVE, WIDE, NEAR), build=_times_signed, weight=4),
        Form(ranges=(NEGATIVE, WIDE, NEAR), build=_over_signed, weight=2),
        Form(ranges=(NEAR, WIDE, NEAR), build=_number_first, weight=4),
    ),
    4: (
        Form(ranges=(NEAR, WIDE, NEAR, WIDE), build=_both_sides, weight=2),
        Form(ranges=(NEAR, WIDE, NEAR, RESULT), build=_like_terms),
        Form(ranges=(SMALL, NEAR, RESULT), build=_bracket_is),
        Form(ranges=(SMALL, NEAR, WIDE, RESULT), build=_bracket_plus),
        Form(ranges=(SMALL, NEAR, NEAR, WIDE), build=_bracket_both_sides),
    ),
    5: (
        Form(ranges=(NEAR, NEAR, SMALL, NEARER, WIDE), build=_fraction_is),
        Form(ranges=(NEAR, NEAR, SMALL, MULTIPLE, NEARER), build=_fraction_and_bracket),
        Form(ranges=(NEAR, NEAR, SMALL, NEAR, NEARER, NEAR), build=_fraction_plus),
        Form(ranges=(NEAR, NEAR, SMALL, NEAR, NEAR, SMALL), build=_two_fractions),
        Form(ranges=(SMALL, NEAR, SMALL, NEAR), build=_bracket_and_quotient),
    ),
}
"""The forms of each level; a problem in words stands beside the equation that it tells."""
