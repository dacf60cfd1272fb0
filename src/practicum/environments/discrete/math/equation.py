"""Linear equations in x, as written: brackets, fractions and like terms are kept until undone.

A side is a sum of terms. A term is a factor times one of three things: nothing (a number), x, or a
bracket that holds a sum. All arithmetic is exact.

>>> equation = Equation(left=(variable(3), number(7)), right=(number(16),))
>>> str(equation.add(number(-7)))
'3x = 9'
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, NamedTuple

__all__ = [
    "Equation",
    "Linear",
    "Side",
    "Term",
    "bracket",
    "collect",
    "common_denominator",
    "number",
    "simplify_side",
    "variable",
]

Kind = Literal["number", "x", "bracket"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """`factor`, `factor * x` or `factor * (inside)`."""

    factor: Fraction
    kind: Kind
    inside: "Side" = ()

    def scaled(self, by: Fraction) -> "Term":
        """The term times a number."""
        return Term(factor=self.factor * by, kind=self.kind, inside=self.inside)

    def __str__(self) -> str:
        return f"-{_unsigned(self)}" if self.factor < 0 else _unsigned(self)


Side = tuple[Term, ...]
"""A sum of terms; the empty sum is 0."""


def number(value: Fraction | int) -> Term:
    """A constant term."""
    return Term(factor=Fraction(value), kind="number")


def variable(factor: Fraction | int) -> Term:
    """A multiple of x."""
    return Term(factor=Fraction(factor), kind="x")


def bracket(factor: Fraction | int, inside: Iterable[Term]) -> Term:
    """A multiple of a sum in brackets."""
    return Term(factor=Fraction(factor), kind="bracket", inside=tuple(inside))


class Linear(NamedTuple):
    """What a side comes to: `x` times the unknown, plus `number`."""

    x: Fraction
    number: Fraction


def collect(side: Side) -> Linear:
    """What a side comes to with every bracket expanded.

    >>> collect((bracket(2, (variable(1), number(3))), number(1)))
    Linear(x=Fraction(2, 1), number=Fraction(7, 1))
    """
    x = constant = Fraction(0)
    for term in side:
        if term.kind == "number":
            constant += term.factor
        elif term.kind == "x":
            x += term.factor
        else:
            inner = collect(term.inside)
            x += term.factor * inner.x
            constant += term.factor * inner.number
    return Linear(x, constant)


def _add(side: Side, term: Term) -> Side:
    """The side plus one number or multiple of x, merged with a like term where there is one.

    An exact opposite is cancelled first; otherwise the first like term takes it.
    """
    if term.factor == 0:
        return side
    like = [i for i, other in enumerate(side) if other.kind == term.kind]
    if not like:
        return (*side, term)
    at = next((i for i in like if side[i].factor == -term.factor), like[0])
    total = side[at].factor + term.factor
    merged = (Term(factor=total, kind=term.kind),) if total else ()
    return (*side[:at], *merged, *side[at + 1 :])


def _scale(side: Side, by: Fraction) -> Side:
    """Every term times a number; a bracket left with the factor 1 is opened."""
    terms: list[Term] = []
    for term in side:
        scaled = term.scaled(by)
        if scaled.kind == "bracket" and scaled.factor == 1:
            terms.extend(scaled.inside)
        else:
            terms.append(scaled)
    return tuple(terms)


def simplify_side(side: Side) -> Side:
    """Brackets expanded and like terms collected; a fraction line over a sum stays.

    `2(x + 3) + 4` becomes `2x + 10` and `3(x - 1)/4` becomes `(3x - 3)/4`, but `(2x + 3)/4` is
    already as simple as it reads: only multiplying both sides removes its denominator.
    """
    flat = [part for term in side for part in _expand(term)]
    plain = collect(tuple(t for t in flat if t.kind != "bracket"))
    totals = {"x": plain.x, "number": plain.number}
    result: list[Term] = []
    for term in flat:
        if term.kind == "bracket":
            result.append(term)
        elif total := totals.pop(term.kind, Fraction(0)):
            result.append(Term(factor=total, kind=term.kind))
    return tuple(result)


def _expand(term: Term) -> Side:
    if term.kind != "bracket":
        return (term,)
    denominator = term.factor.denominator
    inside = simplify_side(_scale(term.inside, Fraction(term.factor.numerator)))
    divided = _scale(inside, Fraction(1, denominator))
    whole = all(t.kind != "bracket" and t.factor.denominator == 1 for t in divided)
    if denominator == 1 or whole or len(inside) < 2:
        return divided
    return (bracket(Fraction(1, denominator), inside),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Equation:
    """Two sides that are equal for exactly one x. Operations act on both and give a new one."""

    left: Side
    right: Side

    def __str__(self) -> str:
        return f"{_format_side(self.left)} = {_format_side(self.right)}"

    def add(self, term: Term) -> "Equation":
        """A number or a multiple of x added to both sides."""
        return self._on_both(lambda side: _add(side, term))

    def scale(self, by: Fraction) -> "Equation":
        """Both sides times a number that is not 0."""
        if by == 0:
            raise ValueError("multiplying both sides by 0 loses the equation")
        return self._on_both(lambda side: _scale(side, by))

    def simplify(self) -> "Equation":
        """Brackets expanded and like terms collected on both sides."""
        return self._on_both(simplify_side)

    def _on_both(self, change: Callable[[Side], Side]) -> "Equation":
        return Equation(left=change(self.left), right=change(self.right))

    @property
    def coefficients(self) -> tuple[Linear, Linear]:
        """What the two sides come to."""
        return collect(self.left), collect(self.right)

    @property
    def solution(self) -> Fraction | None:
        """The x that makes both sides equal; None when there is none, or not just one.

        >>> Equation(left=(variable(3), number(7)), right=(number(16),)).solution
        Fraction(3, 1)
        """
        left, right = self.coefficients
        if left.x == right.x:
            return None
        return (right.number - left.number) / (left.x - right.x)

    @property
    def shown_answer(self) -> Fraction | None:
        """The number in `x = number` or `number = x`; None while x is not alone."""
        for alone, other in ((self.left, self.right), (self.right, self.left)):
            if alone == (variable(1),) and not other:
                return Fraction(0)
            if alone == (variable(1),) and len(other) == 1 and other[0].kind == "number":
                return other[0].factor
        return None

    @property
    def is_plain(self) -> bool:
        """Whether each side is at most one multiple of x and one number, without brackets."""
        return all(
            all(t.kind != "bracket" for t in side) and len({t.kind for t in side}) == len(side)
            for side in (self.left, self.right)
        )

    @property
    def largest(self) -> int:
        """The largest numerator or denominator written anywhere in it."""
        return max(_largest(self.left), _largest(self.right))


def _largest(side: Side) -> int:
    return max(
        (max(abs(t.factor.numerator), t.factor.denominator, _largest(t.inside)) for t in side),
        default=0,
    )


def _unsigned(term: Term) -> str:
    over, under = abs(term.factor.numerator), term.factor.denominator
    below = "" if under == 1 else f"/{under}"
    if term.kind == "number":
        return f"{over}{below}"
    body = "x" if term.kind == "x" else f"({_format_side(term.inside)})"
    return f"{'' if over == 1 else over}{body}{below}"


def _format_side(side: Side) -> str:
    if not side:
        return "0"
    first, *rest = side
    signs = (f" {'-' if t.factor < 0 else '+'} {_unsigned(t)}" for t in rest)
    return str(first) + "".join(signs)


def common_denominator(side: Side) -> int:
    """Least common multiple of the denominators its brackets stand over."""
    return math.lcm(*(t.factor.denominator for t in side if t.kind == "bracket"))
