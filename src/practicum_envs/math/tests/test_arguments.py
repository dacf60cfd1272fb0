import random
import re
from collections.abc import Callable

import pytest

from practicum.core.sampling import NextCharacters
from practicum.environments.reference_policies import accepts
from practicum_envs.math.equation import parse_term
from practicum_envs.math.rules import answer_syntax, factor_syntax, term_syntax

Syntax = Callable[[str], NextCharacters]

FULL: dict[Syntax, str] = {
    term_syntax: r"-?([1-9]\d{0,3}x?|x)(/([2-9]|[1-9]\d{1,2}))?",
    factor_syntax: r"-?[1-9]\d{0,3}(/([2-9]|[1-9]\d{1,2}))?",
    answer_syntax: r"0|-?[1-9]\d{0,3}(/([2-9]|[1-9]\d{1,2}))?",
}
"""The same three languages, written as patterns."""


@pytest.mark.parametrize("syntax", FULL)
def test_every_walk_ends_in_a_term_of_the_language(syntax: Syntax) -> None:
    chance = random.Random(0)
    for _ in range(2000):
        written = ""
        while True:
            following = syntax(written)
            options = [*following.allowed, *([""] if following.may_end else [])]
            assert options, f"no way on after {written!r}"
            character = chance.choice(options)
            if not character:
                break
            written += character
        assert re.fullmatch(FULL[syntax], written)
        assert parse_term(written) is not None
        assert len(written) <= 10


@pytest.mark.parametrize("syntax", FULL)
def test_the_syntax_and_the_pattern_accept_the_same_texts(syntax: Syntax) -> None:
    chance = random.Random(1)
    texts = ["".join(chance.choices("-0123/x", k=chance.randint(0, 6))) for _ in range(5000)]
    agreed = [accepts(syntax, t) for t in texts]
    assert agreed == [re.fullmatch(FULL[syntax], t) is not None for t in texts]
    assert any(agreed)


def test_only_an_answer_may_be_0_and_only_a_term_may_hold_x() -> None:
    assert accepts(answer_syntax, "0")
    assert not accepts(factor_syntax, "0")
    assert not accepts(term_syntax, "0")
    assert accepts(term_syntax, "-3x/4")
    assert not accepts(factor_syntax, "2x")
    assert not accepts(answer_syntax, "x")


def test_nothing_may_follow_what_is_already_wrong() -> None:
    assert term_syntax("x2") == NextCharacters(allowed="", may_end=False)
