"""Text to an equation or a term.

>>> str(parse_equation("2*(x+3) = 10"))
'2(x + 3) = 10'
>>> str(parse_term("-3/4 x"))
'-3x/4'
"""

import re
from fractions import Fraction

from practicum.core.errors import UserError
from practicum.environments.discrete.math.equation import (
    Equation,
    Side,
    Term,
    bracket,
    collect,
    number,
    variable,
)

__all__ = ["parse_equation", "parse_term"]

MAX_LENGTH = 120
"""Longer text is refused before it is read: no equation of any level comes near it."""

MAX_DEPTH = 2
"""Brackets within brackets: deeper ones would take more turns than an episode has."""

TOKEN = re.compile(r"\s*(?:(\d{1,9}(?:\.\d{1,6})?)(?![\d.])|([xX])|([-+*/()]))")
SIGNS = str.maketrans({"−": "-", "–": "-", "·": "*", "×": "*", "÷": "/", ":": "/"})


def parse_equation(text: str) -> Equation:
    """The equation a text such as `2(x + 3) = x/4 - 1` says.

    Products and quotients are read from left to right, so `1/2x` is half of x.
    """
    sides = text.split("=")
    if len(sides) != 2:
        raise _refuse(text, "an equation has one = sign")
    if len(text) > MAX_LENGTH:
        raise _refuse(text[:20] + "...", f"an equation has at most {MAX_LENGTH} characters")
    equation = Equation(left=_Reader(text, sides[0]).side(), right=_Reader(text, sides[1]).side())
    if equation.solution is None:
        raise _refuse(text, "it must hold for exactly one x")
    return equation


def parse_term(text: str) -> Term | None:
    """The one number or multiple of x a text says, or None if it says anything else."""
    if len(text) > MAX_LENGTH:
        return None
    try:
        side = _Reader(text, text).side()
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


class _Reader:
    """Reads one side: sums of products of numbers, x and brackets."""

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
    """A bracket as a term; one that holds a single term, or only numbers, is that term."""
    if len(inside) == 1:
        return inside[0]
    if all(term.kind == "number" for term in inside):
        return number(collect(inside).number)
    return bracket(1, inside)


def _opened(term: Term) -> Side:
    if term.factor == 0:
        return ()
    return term.inside if term.kind == "bracket" and term.factor == 1 else (term,)
