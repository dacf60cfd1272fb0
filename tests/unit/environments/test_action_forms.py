import random

import pytest

from practicum.core.errors import UserError
from practicum.core.sampling import ActionForm, NextCharacters
from practicum.environments.reference_policies import is_writable, random_action_text


def two_letters(written: str) -> NextCharacters:
    """Exactly two letters a or b."""
    return NextCharacters(allowed="ab" if len(written) < 2 else "", may_end=len(written) == 2)


def no_end(written: str) -> NextCharacters:
    return NextCharacters(allowed="a", may_end=False)


def dead_end(written: str) -> NextCharacters:
    return NextCharacters(allowed="", may_end=False)


FORMS = (ActionForm(name="stop"), ActionForm(name="spell", argument=two_letters))


@pytest.mark.parametrize("text", ["stop", "spell ab", "spell ba"])
def test_what_the_forms_allow_is_writable(text: str) -> None:
    assert is_writable(FORMS, text)


@pytest.mark.parametrize(
    "text", ["", "stop ", "stop ab", "spell", "spell ", "spell a", "spell abc", "spell  ab", "go"]
)
def test_anything_else_is_not(text: str) -> None:
    assert not is_writable(FORMS, text)


def test_random_actions_are_writable_and_reach_every_one() -> None:
    chance = random.Random(0)
    drawn = {random_action_text(FORMS, chance) for _ in range(200)}
    assert drawn == {"stop", "spell aa", "spell ab", "spell ba", "spell bb"}
    assert all(is_writable(FORMS, text) for text in drawn)


@pytest.mark.parametrize("syntax", [no_end, dead_end])
def test_a_syntax_that_cannot_end_is_reported(syntax: object) -> None:
    form = ActionForm(name="spell", argument=syntax)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="spell"):
        random_action_text((form,), random.Random(0))


def test_acting_at_random_without_listed_actions_is_the_users_mistake() -> None:
    with pytest.raises(UserError, match=r"env\.actions=constrained"):
        random_action_text((), random.Random(0))
