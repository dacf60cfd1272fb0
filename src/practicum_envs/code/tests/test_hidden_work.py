"""Whatever goes through many items is counted as many operations, however it is written."""

import pytest

from practicum_envs.code.countable import counted
from practicum_envs.code.inside_program import encoded, results_of

EACH = (
    "list.count(xs, x)",
    "x in iter(xs)",
    "x in d.values()",
    "x in deque(xs)",
    "x in xs != None",
    "max(d.values())",
    "sum(iter(xs))",
    "max(*xs)",
    "[*xs]",
    "[*iter(xs)]",
    "{**d}",
    "s | {x}",
    "c.most_common(1)",
    "max(c)",
    "nlargest(1, xs)",
    "sum(chain.from_iterable(rows))",
    "xs == ys",
    "findall('b', t)",
)
"""What goes through all items, to be done for each."""
AT_ONCE = (
    "max(set(xs), key=xs.count)",
    "sorted(xs, key=xs.index)",
    "max([xs] * len(xs), key=set)",
    "list(map(xs.count, xs))",
    "list(filter(xs.index, xs))",
)
"""What does that by itself."""
STEPS = (
    "ys = [*ys, x]",
    "a, *ys = xs",
    "ys[:] = xs",
    "t = ''.join((t, str(x)))",
    "t = f'{t}{x}'",
    "t = '%s%s' % (t, x)",
)
"""What goes through what there is so far, in a loop."""
BEGUN = """
from collections import Counter, deque
from functools import reduce
from heapq import nlargest
from itertools import chain
from re import findall

def f(xs):
    d, s, c, ys, rows, t = dict(enumerate(xs)), set(xs), Counter(xs), list(xs), [xs], "a" * len(xs)
"""
LINEAR = """
    seen = set()
    for x in xs:
        if x not in seen:
            seen.add(x)
    return len(seen)
"""
QUADRATIC = {
    **{one: f"    return len([{one} for x in xs])" for one in EACH},
    **{one: f"    return {one} is None" for one in AT_ONCE},
    **{one: f"    for x in xs:\n        {one}\n    return len(ys)" for one in STEPS},
}


def operations(body: str, size: int) -> int:
    """Of a program on a list of so many numbers."""
    call = {"via": "function", "function": "f", "args": [encoded(list(range(size)))]}
    (result,) = results_of(counted(BEGUN + body), [call], 10**7)
    assert "error" not in result, result
    return int(result["operations"])


@pytest.mark.parametrize("what", QUADRATIC)
def test_work_on_all_items_for_each_item_is_counted_as_such(what: str) -> None:
    small, large = (operations(QUADRATIC[what], size) for size in (60, 240))
    assert large > 9 * small
    assert large > 5 * operations(LINEAR, 240)


@pytest.mark.parametrize("body", [LINEAR, "    return reduce(max, iter(xs))"])
def test_one_pass_is_counted_as_one(body: str) -> None:
    assert operations(body, 240) < 5 * operations(body, 60)
