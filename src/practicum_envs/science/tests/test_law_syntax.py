import random
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from practicum.environments.reference_policies import accepts
from practicum_envs.science.conclusion_scoring import CERTAINTIES
from practicum_envs.science.law_spaces import LEVELS, law_space
from practicum_envs.science.law_syntax import Conclusion, Phrases, syntax_of
from practicum_envs.science.laws import SETTINGS, START, law_text, setting_text

NAMES = ("water", "light", "salt")
EVERY_LEVEL = sorted(LEVELS)


@pytest.mark.parametrize("level", EVERY_LEVEL)
def test_every_law_can_be_written_and_is_read_as_what_it_is(level: int) -> None:
    syntax = syntax_of(level, NAMES)
    for law in law_space(level).laws:
        text = law_text(law, NAMES)
        assert accepts(syntax.law_argument, text)
        assert syntax.read_law(text) == law
        percent = CERTAINTIES[len(text) % len(CERTAINTIES)]
        assert accepts(syntax.conclusion_argument, f"{text} sure {percent}")
        assert syntax.read_conclusion(f"{text} sure {percent}") == Conclusion(law, percent)


def test_every_setting_but_the_start_can_be_written_and_read() -> None:
    syntax = syntax_of(1, NAMES)
    for setting in SETTINGS:
        text = setting_text(setting, NAMES)
        assert accepts(syntax.setting_argument, text) == (setting != START)
        assert syntax.read_setting(text) == (setting if setting != START else None)


@pytest.mark.parametrize("level", EVERY_LEVEL)
def test_whatever_the_forms_let_through_can_be_read(level: int) -> None:
    syntax, rng = syntax_of(level, NAMES), random.Random(level)
    readers = (
        (syntax.law_argument, syntax.read_law),
        (syntax.setting_argument, syntax.read_setting),
        (syntax.conclusion_argument, syntax.read_conclusion),
    )
    for following, read in readers:
        for _ in range(150):
            written = ""
            while (after := following(written)).allowed and not (
                after.may_end and rng.random() < 0.3
            ):
                written += rng.choice(after.allowed)
            assert following(written).may_end
            assert read(written) is not None, written


@pytest.mark.parametrize(
    "text",
    [
        "water +3 sure 90 sure 10",
        "water +3, water +3 sure 90",
        "water +3 sure",
        "water +3 sure 100",
        "water +3 sure 0",
        "sure 90",
        "water +9 sure 90",
        "sugar +3 sure 90",
        "none, water +3 sure 90",
        "water +3 sure 90, none sure 90",
    ],
)
def test_a_conclusion_that_says_two_things_or_none_is_not_read(text: str) -> None:
    assert syntax_of(1, NAMES).read_conclusion(text) is None


def test_free_text_may_have_other_spaces_and_another_order() -> None:
    syntax = syntax_of(4, NAMES)
    law = syntax.read_law("water +2, salt>1 -8")
    assert law is not None
    assert syntax.read_law("Salt > 1 -8 and water +2") == law
    assert syntax.read_conclusion("salt>1 -8; water +2, sure: 90%") == Conclusion(law, 90)
    assert syntax.read_setting("light=2 and water=4") == (4, 2, 0)
    assert syntax.read_setting("water 4, water 4") is None
    assert syntax.read_setting("water 9") is None


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    syntax = syntax_of(5, NAMES)
    for read in (syntax.read_law, syntax.read_setting, syntax.read_conclusion):
        read(text)


@given(st.sets(st.text(alphabet="ab +", min_size=1, max_size=5), min_size=1, max_size=8))
def test_phrases_are_the_texts_and_no_others(texts: set[str]) -> None:
    phrases = Phrases(sorted(texts))
    begun = [""]
    written = set()
    while begun:
        part = begun.pop()
        following = phrases.following(part)
        written |= {part} if following.may_end else set()
        assert len(set(following.allowed)) == len(following.allowed)
        begun += [part + one for one in following.allowed]
    assert written == texts


def test_a_syntax_of_other_names_is_another() -> None:
    assert syntax_of(1, ("oil", "ash", "salt")).read_law("water +3") is None
    assert len(list(islice(law_space(1).laws, 40))) == 31
