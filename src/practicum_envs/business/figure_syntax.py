"""The small syntax of figures, such as `margin=4 profit=24`: writing it, and reading it.

Names come in a given order, each at most once, so that nothing can be said twice. A name may have
several figures, as in `A=4/24`.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction

from practicum.core.sampling import NextCharacters

DIGITS = "0123456789"
MOST_DIGITS = 7
NONE = "none"
NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,6})")

Syntax = Callable[[str], NextCharacters]


def figures_syntax(
    names: Sequence[str],
    *,
    every: bool = False,
    or_none: bool = False,
    first: str = "",
    each: int = 1,
) -> Syntax:
    """The syntax of figures with these names, as an argument's syntax.

    Args:
        names: The names, in order.
        every: Whether each must be there; otherwise at least one.
        or_none: Whether `none` may stand for no figure at all.
        first: Letters of which one comes before all figures, as in `option=B`.
        each: How many figures each name has.

    >>> figures_syntax(["margin", "profit"], every=True)("margin=4 ")
    NextCharacters(allowed='p', may_end=False)
    """

    def following(written: str) -> NextCharacters:
        *done, last = written.split(" ")
        words = _words(names, done, every=every, or_none=or_none, first=first)
        name, equals, numbers = last.partition("=")
        if not equals:
            return _within_words(last, words)
        if first and not done:
            return NextCharacters(allowed=" " if numbers else first, may_end=False)
        rest = names[names.index(name) + 1 :]
        *before, digits = numbers.split("/")
        if len(before) + 1 < each:
            return _within_number(digits, go_on="/", may_end=False)
        return _within_number(digits, go_on=" " if rest else "", may_end=not (every and rest))

    return following


def _words(
    names: Sequence[str], done: Sequence[str], *, every: bool, or_none: bool, first: str
) -> list[str]:
    """What may come after the figures that are done, each with what ends it."""
    if first and not done:
        return ["option="]
    figures = [one.partition("=")[0] for one in done if not (first and one == done[0])]
    left = names[names.index(figures[-1]) + 1 :] if figures else names
    words = [f"{name}=" for name in (left[:1] if every else left)]
    return [*words, NONE] if or_none and not done else words


def _within_words(last: str, words: Sequence[str]) -> NextCharacters:
    going_on = [word for word in words if word.startswith(last) and word != last]
    allowed = "".join(dict.fromkeys(word[len(last)] for word in going_on))
    return NextCharacters(allowed=allowed, may_end=last == NONE and NONE in words)


def _within_number(digits: str, *, go_on: str, may_end: bool) -> NextCharacters:
    plain = digits.removeprefix("-")
    if not plain:
        return NextCharacters(allowed=DIGITS[1:] if digits else f"{DIGITS}-", may_end=False)
    more = DIGITS if plain != "0" and len(plain) < MOST_DIGITS else ""
    return NextCharacters(allowed=f"{more}{go_on}", may_end=may_end)


Stated = Mapping[str, tuple[int, ...]]
"""Figures as they were stated, by name."""


def read_figures(
    text: str, names: Sequence[str], *, every: bool = False, each: int = 1
) -> Stated | None:
    """The figures that a text states; None where it is not in the syntax.

    >>> read_figures("margin=4 profit=24", ["margin", "profit"])
    {'margin': (4,), 'profit': (24,)}
    >>> read_figures("profit=24 profit=25", ["margin", "profit"])
    """
    found: dict[str, tuple[int, ...]] = {}
    left = list(names)
    for word in text.split():
        name, _, written = word.partition("=")
        numbers = written.split("/")
        if name not in left or len(numbers) != each or not all(map(NUMBER.fullmatch, numbers)):
            return None
        left = left[left.index(name) + 1 :]
        found[name] = tuple(map(int, numbers))
    return None if not found or (every and len(found) < len(names)) else found


def write_figures(figures: Mapping[str, Sequence[Fraction | int]]) -> str:
    """Figures in the syntax; of a fraction its whole part.

    >>> write_figures({"A": (4, 24), "C": (3, 30)})
    'A=4/24 C=3/30'
    """
    return " ".join(f"{name}={'/'.join(map(str, map(int, n)))}" for name, n in figures.items())
