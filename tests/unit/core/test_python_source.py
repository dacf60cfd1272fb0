import ast
import gc
from collections.abc import Iterator
from typing import Any

import pytest

from practicum.core.python_source import parse_python

SOURCE = "def f(xs):\n    return [[x + 1 for x in xs] for _ in range(3)]\n" * 40


@pytest.fixture
def parses_in_between() -> Iterator[list[Any]]:
    """Every collection parses something, and collections are as frequent as can be."""
    trees: list[Any] = []
    before = gc.get_threshold()

    def collected(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            trees.append(ast.parse("x = 1"))

    gc.callbacks.append(collected)
    gc.set_threshold(1, 1, 1)
    yield trees
    gc.set_threshold(*before)
    gc.callbacks.remove(collected)


def test_a_tree_is_made_although_the_collector_runs_code_that_parses(
    parses_in_between: list[Any],
) -> None:
    for _ in range(20):
        assert len(parse_python(SOURCE).body) == 40
    assert gc.isenabled()
    assert parses_in_between  # between the calls


def test_an_expression_is_a_tree_too_and_what_is_no_python_is_told_as_ever() -> None:
    assert isinstance(parse_python("1 + 1", "eval"), ast.Expression)
    with pytest.raises(SyntaxError):
        parse_python("def f(")
    assert gc.isenabled()
