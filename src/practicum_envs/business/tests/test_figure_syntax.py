import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from practicum.core.sampling import ActionForm
from practicum.environments.reference_policies import is_writable, random_action_text
from practicum_envs.business.figure_syntax import figures_syntax, read_figures, write_figures

NAMES = ("good", "goodwill", "profit", "risk")
numbers = st.integers(min_value=-9_999_999, max_value=9_999_999)
stated = st.dictionaries(st.sampled_from(NAMES), st.tuples(numbers, numbers), min_size=1)


def in_order(figures: dict[str, tuple[int, int]]) -> dict[str, tuple[int, int]]:
    return {name: figures[name] for name in NAMES if name in figures}


@given(stated)
def test_what_is_written_is_read_back_and_can_be_written_by_a_policy(
    figures: dict[str, tuple[int, int]],
) -> None:
    text = write_figures(in_order(figures))
    form = ActionForm(name="say", argument=figures_syntax(NAMES, each=2))
    assert read_figures(text, NAMES, each=2) == in_order(figures)
    assert is_writable((form,), f"say {text}")


@given(st.integers(min_value=0), st.booleans())
def test_what_the_syntax_lets_anyone_write_is_read(seed: int, every: bool) -> None:
    form = ActionForm(name="say", argument=figures_syntax(NAMES, every=every))
    text = random_action_text((form,), random.Random(seed)).removeprefix("say ")
    found = read_figures(text, NAMES, every=every)
    assert found is not None
    assert not every or set(found) == set(NAMES)


@pytest.mark.parametrize(
    "text",
    [
        "profit=3 profit=4",
        "profit=3 good=4",
        "good",
        "good=",
        "good=03",
        "good=--3",
        "good=1.5",
        "good=3/4",
        "goods=3",
        "good=99999999",
        "good=٣",
        "",
        "none",
    ],
)
def test_figures_out_of_order_or_twice_or_in_other_signs_are_not_read(text: str) -> None:
    form = ActionForm(name="say", argument=figures_syntax(NAMES))
    assert read_figures(text, NAMES) is None
    assert not is_writable((form,), f"say {text}")


def test_none_stands_alone_where_it_may_stand() -> None:
    form = ActionForm(name="say", argument=figures_syntax(NAMES, or_none=True))
    assert is_writable((form,), "say none")
    assert not is_writable((form,), "say none good=3")
    assert not is_writable((form,), "say good=3 none")


def test_a_plan_begins_with_its_option() -> None:
    form = ActionForm(name="plan", argument=figures_syntax(("a", "b"), every=True, first="AB"))
    assert is_writable((form,), "plan option=B a=1 b=2")
    for other in ("option=C a=1 b=2", "option=AB a=1 b=2", "a=1 b=2", "option=A a=1", "option=A"):
        assert not is_writable((form,), f"plan {other}")
