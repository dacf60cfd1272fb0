"""What messages are about: words without endings, numbers, synonyms, what only tells something."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from practicum_envs.office.understanding import (
    NUMBERS,
    SYNONYMS,
    asking_parts,
    matches,
    means,
    places,
    states,
    stem,
    words,
)

NONE: frozenset[str] = frozenset()


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ("price", "How much is one desk lamp?"),
        ("price", "What does the desk lamp cost?"),
        ("price|cost", "What do you charge for it?"),
        ("salary", "What would they earn?"),
        ("participant", "Who was there?"),
        ("participant", "Which people took part?"),
        ("score", "Out of five, what would you give it?"),
        ("deadline", "By when do you need it?"),
        ("half", "Could we get 50% back?"),
        ("qualification", "Which qualifcations are needed?"),
        ("cost center", "Which cost-centers are there?"),
        ("1234.50", "The total is $1,234.5, all in all."),
        ("17", "They want seventeen pieces."),
    ],
)
def test_several_wordings_mean_the_same(wanted: str, said: str) -> None:
    assert matches([wanted], words(said), NONE)


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ("budget", "How are you?"),
        ("17", "It is 17.50 dollars."),
        ("desk lamp", "I have a lamp on my desk."),
        ("destination", "What is your vacation budget?"),
        ("price", "Which colour has it?"),
    ],
)
def test_what_means_something_else_does_not_match(wanted: str, said: str) -> None:
    assert not matches([wanted], words(said), NONE)


def test_a_word_that_a_fact_has_itself_is_no_synonym_of_another() -> None:
    said = words("What is the cost of it?")
    assert places("price", said, NONE)
    assert not places("price", said, frozenset(words("cost")))


def test_what_is_denied_is_not_stated() -> None:
    assert states("approved", "Ann has approved it.", NONE)
    assert not states("approved", "Ann has not approved it yet.", NONE)
    assert not states("approval", "There is no approval.", NONE)
    assert states("unavailable", "Ann can't do it.", NONE)


def test_who_only_tells_something_asks_for_nothing() -> None:
    assert not list(asking_parts("Your date of filing is January 1st. Thank you!"))
    assert not list(asking_parts("I have sent the budget to Ann."))
    assert list(asking_parts("the budget of the server"))
    assert next(iter(asking_parts("We buy a server. What may it cost?"))) == "What may it cost?"


WORD = st.text(string.ascii_lowercase, min_size=1, max_size=14)


@given(WORD)
def test_a_stem_is_its_own_stem(word: str) -> None:
    assert stem(stem(word)) == stem(word)


@given(st.text(max_size=200))
def test_any_text_has_words_and_those_are_its_own(text: str) -> None:
    once = words(text)
    assert all(one and one == one.strip() for one in once)
    assert not matches([], once, NONE)
    list(asking_parts(text))


@given(st.integers(0, 10**9), st.integers(0, 99))
def test_a_number_is_the_same_however_it_is_written(whole: int, cents: int) -> None:
    plain, grouped = f"{whole}.{cents:02}", f"${whole:,}.{cents:02}"
    assert words(plain) == words(grouped)
    assert matches([plain], words(f"That is {grouped} in all."), NONE)


def test_every_synonym_is_one_word_and_stands_for_the_others_of_its_line() -> None:
    for line in SYNONYMS.strip().splitlines():
        both, _, only_said = line.partition(">")
        for one in [*both.split(), *only_said.split()]:
            assert one not in NUMBERS, "a number is no synonym"
            assert all(means(words(one)[0], words(other)[0]) for other in both.split())
