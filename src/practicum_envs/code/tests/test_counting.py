"""Counted programs: they do what they did, cost what they cost, and cannot reach the counter."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from practicum_envs.code.countable import NotCountable, counted
from practicum_envs.code.inside_program import decoded, encoded, results_of, same


def run(source: str, *args: object, most: int = 10**6) -> dict[str, object]:
    call = {"function": "f", "via": "call", "args": [encoded(one) for one in args]}
    return next(iter(results_of(counted(source), [call], most)))  # type: ignore[no-any-return]


SUMS = {
    "a loop": "def f(xs):\n    t = 0\n    for x in xs:\n        t += x\n    return t\n",
    "a builtin": "def f(xs):\n    return sum(xs)\n",
    "a comprehension": "def f(xs):\n    return sum([x for x in xs])\n",
    "a while": "def f(xs):\n    t = i = 0\n    while i < len(xs):\n        t += xs[i]\n"
    "        i += 1\n    return t\n",
    "recursion": "def f(xs):\n    return xs[0] + f(xs[1:]) if xs else 0\n",
}


@given(st.lists(st.integers(-99, 99), max_size=30))
def test_counting_changes_no_value(xs: list[int]) -> None:
    for source in SUMS.values():
        assert decoded(run(source, xs)["value"]) == sum(xs)


@pytest.mark.parametrize("name", ["a loop", "a builtin", "a comprehension", "a while"])
def test_a_walk_through_a_list_costs_in_proportion_to_its_length(name: str) -> None:
    small, large = (run(SUMS[name], [1] * n)["operations"] for n in (50, 500))
    assert isinstance(small, int)
    assert isinstance(large, int)
    assert 8 * small <= large <= 11 * small


@pytest.mark.parametrize(
    "body",
    [
        "[x for x in xs if xs.count(x) > 1]",
        "[x for i, x in enumerate(xs) if x in xs[:i]]",
        "sorted(xs, key=lambda x: xs.index(x))",
        "[sum(xs[:i]) for i in range(len(xs))]",
        "[min(xs) for x in xs]",
    ],
)
def test_what_builtins_go_through_is_counted(body: str) -> None:
    source = f"def f(xs):\n    return {body}\n"
    small, large = (run(source, list(range(n)))["operations"] for n in (20, 200))
    assert isinstance(small, int)
    assert isinstance(large, int)
    assert large > 50 * small


def test_a_loop_without_end_ends() -> None:
    assert run("def f():\n    while True:\n        pass\n", most=500)["error"] == (
        "it takes too many operations"
    )
    caught = (
        "def f():\n    try:\n        while True:\n            pass\n    except BaseException:\n"
    )
    assert "value" not in run(caught + "        return 1\n", most=500)


def test_work_done_before_the_calls_is_part_of_each() -> None:
    table = "T = [x for x in range(900)]\n\n\ndef f():\n    return T[3]\n"
    operations = run(table)["operations"]
    assert isinstance(operations, int)
    assert operations >= 900


@pytest.mark.parametrize(
    "code",
    [
        "import os",
        "import sys",
        "from datetime import sys",
        "import re as _tick",
        "_tick = print",
        "x = ().__class__",
        "def g():\n    yield g.gi_frame",
        "getattr(f, 'x')",
        "eval('1')",
        "globals()",
        "from math import *",
        "def _made(x):\n    return x",
        "def g(_tick):\n    return 1",
        "g(_called=1)",
        "class _A:\n    pass",
        "try:\n    pass\nexcept Exception as _tick:\n    pass",
        "type(f)",
        "def g():\n    global _tick",
        "match 1:\n    case _tick:\n        pass",
        "vars()",
        "open('/etc/passwd')",
        "f.__globals__",
        "__builtins__",
        "for _tick in []:\n    pass",
        "(_tick := 1)",
        "lambda _tick: 1",
        "def g():\n    nonlocal _tick",
    ],
)
def test_a_program_that_could_reach_the_counter_is_not_counted(code: str) -> None:
    with pytest.raises((NotCountable, SyntaxError)):
        counted(f"def f():\n    return 1\n{code}\n")


def test_modules_of_counted_programs_hold_what_is_known_and_no_more() -> None:
    source = "import datetime\n\n\ndef f():\n    return str(datetime.date(2031, 4, 9))\n"
    assert decoded(run(source)["value"]) == "2031-04-09"
    assert "AttributeError" in str(run("import re\n\n\ndef f():\n    return re.enum\n")["error"])


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(st.text(max_size=4), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(plain)
def test_values_come_back_as_they_were(value: object) -> None:
    assert same(decoded(encoded(value)), value)


@given(plain, plain)
def test_values_of_other_types_are_not_the_same(one: object, other: object) -> None:
    if type(one) is not type(other):
        assert not same(one, other)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=9))
def test_what_is_no_encoded_value_is_refused_in_one_way(data: object) -> None:
    with contextlib.suppress(ValueError):
        decoded(data)
