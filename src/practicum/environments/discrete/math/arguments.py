"""What the policy may write as an argument, character by character.

A term is written as equations print it: an optional minus, up to four digits, `x` where the action
allows it, and `/` with up to three digits: `7`, `-5`, `3/4`, `2x`, `x/4`.
"""

import re

from practicum.core.sampling import NextCharacters

__all__ = ["answer_syntax", "factor_syntax", "term_syntax"]

MAX_DIGITS_OVER = 4
MAX_DIGITS_UNDER = 3
DIGITS = "0123456789"
WRITTEN = re.compile(r"(?P<sign>-?)(?P<over>\d*)(?P<x>x?)(?:(?P<line>/)(?P<under>\d*))?")


def term_syntax(written: str) -> NextCharacters:
    """What `add_terms` and `subtract_terms` take: a number other than 0 or a multiple of x."""
    return _following(written, with_x=True, with_zero=False)


def factor_syntax(written: str) -> NextCharacters:
    """What `multiply_terms` and `divide_terms` take: a number other than 0."""
    return _following(written, with_x=False, with_zero=False)


def answer_syntax(written: str) -> NextCharacters:
    """What `state_answer` takes: a number.

    >>> answer_syntax("3/1")
    NextCharacters(allowed='0123456789', may_end=False)
    """
    return _following(written, with_x=False, with_zero=True)


def _following(written: str, *, with_x: bool, with_zero: bool) -> NextCharacters:
    match = WRITTEN.fullmatch(written)
    if match is None:
        return NextCharacters(allowed="", may_end=False)
    sign, over, x, line, under = match.group("sign", "over", "x", "line", "under")
    if line:
        return _below_the_line(under)
    if x:
        return NextCharacters(allowed="/", may_end=True)
    if over == "0":
        return NextCharacters(allowed="", may_end=True)
    letter = "x" if with_x else ""
    if over:
        more = DIGITS if len(over) < MAX_DIGITS_OVER else ""
        return NextCharacters(allowed=f"{more}/{letter}", may_end=True)
    first = DIGITS[1:] + letter
    if not sign:
        first += "-0" if with_zero else "-"
    return NextCharacters(allowed=first, may_end=False)


def _below_the_line(under: str) -> NextCharacters:
    if not under:
        return NextCharacters(allowed=DIGITS[1:], may_end=False)
    more = DIGITS if len(under) < MAX_DIGITS_UNDER else ""
    # A denominator of 1 is not written: the same number has a shorter form.
    return NextCharacters(allowed=more, may_end=under != "1")
