"""Linear equations in x as they are written, and a parser for them.

Brackets, fractions and like terms are kept until an operation removes them. A side is a sum of
terms; a term is a factor alone (a number), times x, or times a bracket, which holds a sum. All
arithmetic is exact (`Fraction`).

>>> equation = Equation(left=(variable(3), number(7)), right=(number(16),))
>>> str(equation.add(number(-7)))
'3x = 9'

>>> str(parse_equation("2*(x+3) = 10"))
'2(x + 3) = 10'
>>> str(parse_term("-3/4 x"))
'-3x/4'
"""

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, NamedTuple

from practicum.core.errors import UserError

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
    """A side in normal form: `x` times the unknown, plus `number`."""

    x: Fraction
    number: Fraction


def collect(side: Side) -> Linear:
    """The normal form of a side, every bracket expanded.

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
    """The side plus a number or a multiple of x, merged into a like term where there is one.

    That is the exact opposite, which cancels, if the side has it; else the first like term.
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
    """Brackets expanded and like terms collected; a denominator under a sum stays.

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
    """Two sides that are equal for exactly one x; an operation on both gives a new equation."""

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
        """Both sides in normal form."""
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
    """Least common multiple of the denominators under its brackets."""
    return math.lcm(*(t.factor.denominator for t in side if t.kind == "bracket"))


MAX_LENGTH = 120
"""Characters; longer text is refused unread. Equations of all levels are much shorter."""

MAX_DEPTH = 2
"""Brackets within brackets: deeper ones would take more turns than an episode has."""

TOKEN = re.compile(r"\s*(?:(\d{1,9}(?:\.\d{1,6})?)(?![\d.])|([xX])|([-+*/()]))")
SIGNS = str.maketrans({"−": "-", "–": "-", "·": "*", "×": "*", "÷": "/", ":": "/"})


def parse_equation(text: str) -> Equation:
    """The equation in a text such as `2(x + 3) = x/4 - 1`.

    Products and quotients are read from left to right, so `1/2x` is half of x.
    """
    sides = text.split("=")
    if len(sides) != 2:
        raise _refuse(text, "an equation has one = sign")
    if len(text) > MAX_LENGTH:
        raise _refuse(text[:20] + "...", f"an equation has at most {MAX_LENGTH} characters")
    equation = Equation(left=_Parser(text, sides[0]).side(), right=_Parser(text, sides[1]).side())
    if equation.solution is None:
        raise _refuse(text, "it must hold for exactly one x")
    return equation


def parse_term(text: str) -> Term | None:
    """The number or multiple of x in a text; None if it is anything else."""
    if len(text) > MAX_LENGTH:
        return None
    try:
        side = _Parser(text, text).side()
    except UserError:
        return None
    if not side:
        return number(0)
    return side[0] if len(side) == 1 and side[0].kind != "bracket" else None


def _refuse(text: str, why: str) -> UserError:
    return UserError(
        f"{text!r} is not an equation in x that can be read: {why}; "
        "write one such as '3x + 7 = 16' or '2(x + 3) = x/4 - 1'"
    )


class _Parser:
    """Recursive-descent parser of one side: sums of products of numbers, x and brackets."""

    def __init__(self, text: str, side: str) -> None:
        self._text = text
        self._tokens = self._split(side.translate(SIGNS))
        self._at = 0
        self._depth = 0

    def _split(self, side: str) -> list[str]:
        tokens: list[str] = []
        at, side = 0, side.strip()
        while at < len(side):
            match = TOKEN.match(side, at)
            if match is None:
                raise _refuse(self._text, f"{side[at:].strip()[:10]!r} is not expected")
            tokens.append(match.group().strip().lower())
            at = match.end()
        return tokens

    def side(self) -> Side:
        """The whole side."""
        side = self._sum()
        if self._at < len(self._tokens):
            raise _refuse(self._text, f"{self._tokens[self._at]!r} is not expected")
        return side

    def _next(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _take(self) -> str:
        token = self._next()
        self._at += 1
        return token

    def _sum(self) -> Side:
        terms: list[Term] = []
        sign = self._take() if self._next() in {"+", "-"} else "+"
        while True:
            term = self._product()
            terms.extend(_opened(term.scaled(Fraction(-1 if sign == "-" else 1))))
            if self._next() not in {"+", "-"}:
                return tuple(terms)
            sign = self._take()

    def _product(self) -> Term:
        product = self._atom()
        while (token := self._next()) and token not in {"+", "-", ")"}:
            if token in {"*", "/"}:
                self._take()
            elif token[0].isdigit():
                raise _refuse(self._text, f"there is no sign before {token!r}")
            atom = self._atom()
            product = self._divided(product, atom) if token == "/" else self._times(product, atom)
        return product

    def _atom(self) -> Term:
        token = self._take()
        if token == "x":
            return variable(1)
        if token == "(":
            return self._bracket()
        if token[:1].isdigit():
            return number(Fraction(token))
        raise _refuse(self._text, f"{token!r} is not expected" if token else "it ends too early")

    def _bracket(self) -> Term:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise _refuse(self._text, f"brackets may stand at most {MAX_DEPTH} deep")
        inside = self._sum()
        if self._take() != ")":
            raise _refuse(self._text, "a bracket is not closed")
        self._depth -= 1
        return _bracketed(inside)

    def _times(self, one: Term, other: Term) -> Term:
        if one.kind == "number":
            return other.scaled(one.factor)
        if other.kind == "number":
            return one.scaled(other.factor)
        raise _refuse(self._text, "x may not be multiplied by x")

    def _divided(self, one: Term, other: Term) -> Term:
        if other.kind != "number" or other.factor == 0:
            raise _refuse(self._text, "only a number other than 0 may stand under a fraction line")
        return one.scaled(1 / other.factor)


def _bracketed(inside: Side) -> Term:
    """A bracket as a term; one with a single term, or only numbers, is reduced to it."""
    if len(inside) == 1:
        return inside[0]
    if all(term.kind == "number" for term in inside):
        return number(collect(inside).number)
    return bracket(1, inside)


def _opened(term: Term) -> Side:
    """A term as part of a sum: a bracket with the factor 1 is dropped, 0 is left out."""
    if term.factor == 0:
        return ()
    return term.inside if term.kind == "bracket" and term.factor == 1 else (term,)
