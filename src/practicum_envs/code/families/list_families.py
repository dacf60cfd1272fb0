"""Families about lists of numbers."""

import random
from itertools import combinations

from practicum_envs.code.families.drafting import Draft, Shelf, int_twists, some_ints

LISTS = Shelf("lists")


@LISTS.family()
def count_above(rng: random.Random, level: int) -> Draft:
    """How many numbers are above a bound."""
    k = rng.randint(-5, 25)
    return Draft(
        says=f"Return how many of the numbers are greater than {k}.",
        args=("xs",),
        body=f"return sum(1 for x in xs if x > {k})",
        answer=lambda xs: len([x for x in xs if not x <= k]),
        sample=some_ints(),
        twists=int_twists(rng),
    )


@LISTS.family()
def sum_of_multiples(rng: random.Random, level: int) -> Draft:
    """The sum of the multiples of a number."""
    k = rng.randint(2, 9)
    return Draft(
        says=f"Return the sum of the numbers that can be divided by {k}.",
        args=("xs",),
        body=f"return sum(x for x in xs if x % {k} == 0)",
        answer=lambda xs: sum(x * (x / k == x // k) for x in xs),
        sample=some_ints(),
        twists=int_twists(rng),
    )


@LISTS.family()
def scale_all(rng: random.Random, level: int) -> Draft:
    """Every number multiplied and moved."""
    a, b = rng.randint(2, 9), rng.randint(1, 9)
    return Draft(
        says=f"Return a list of the numbers, each times {a} and then plus {b}.",
        args=("xs",),
        body=f"return [{a} * x + {b} for x in xs]",
        answer=lambda xs: [b + x * a for x in xs],
        sample=some_ints(),
        twists=int_twists(rng),
    )


@LISTS.family(fast=True)
def running_totals(rng: random.Random, level: int) -> Draft:
    """Sums of everything so far."""
    start = rng.randint(0, 9)
    return Draft(
        says=f"Return the list of running totals of the numbers, beginning with {start}: each item "
        f"is {start} plus all numbers up to there.",
        args=("xs",),
        body=f"total = {start}\nsums = []\nfor x in xs:\n    total += x\n    sums.append(total)\n"
        "return sums",
        slow=f"return [{start} + sum(xs[:i + 1]) for i in range(len(xs))]",
        answer=lambda xs: [start + sum(xs[:at]) for at in range(1, len(xs) + 1)],
        sample=some_ints(),
        twists=int_twists(rng),
    )


@LISTS.family(fast=True)
def count_pairs(rng: random.Random, level: int) -> Draft:
    """Pairs that add up to a number."""
    k = rng.randint(2, 16)
    return Draft(
        says=f"Return how many pairs of items add up to {k}; each two places are a pair once.",
        args=("xs",),
        body=f"seen = {{}}\ncount = 0\nfor x in xs:\n    count += seen.get({k} - x, 0)\n"
        "    seen[x] = seen.get(x, 0) + 1\nreturn count",
        slow="count = 0\nfor i in range(len(xs)):\n    for j in range(i + 1, len(xs)):\n"
        f"        if xs[i] + xs[j] == {k}:\n            count += 1\nreturn count",
        answer=lambda xs: sum(a + b == k for a, b in combinations(xs, 2)),
        sample=some_ints(-4, 14),
        twists=int_twists(rng),
    )


@LISTS.family(fast=True)
def repeated_items(rng: random.Random, level: int) -> Draft:
    """What is there so many times."""
    k = rng.randint(2, 3)
    return Draft(
        says=f"Return the numbers that are there at least {k} times, sorted, each once.",
        args=("xs",),
        body="counts = {}\nfor x in xs:\n    counts[x] = counts.get(x, 0) + 1\n"
        f"return sorted(x for x in counts if counts[x] >= {k})",
        slow="found = []\nfor x in xs:\n"
        f"    if xs.count(x) >= {k} and x not in found:\n"
        "        found.append(x)\nreturn sorted(found)",
        answer=lambda xs: sorted({x for x in xs if len([y for y in xs if y == x]) >= k}),
        sample=some_ints(-4, 9),
        twists=int_twists(rng),
    )


@LISTS.family()
def every_kth(rng: random.Random, level: int) -> Draft:
    """Every so many items."""
    k, start = rng.randint(2, 4), rng.randint(0, 3)
    return Draft(
        says=f"Return a list of every item at a step of {k}, beginning at index {start}.",
        args=("xs",),
        body=f"return xs[{start}::{k}]",
        answer=lambda xs: [x for at, x in enumerate(xs) if at >= start and (at - start) % k == 0],
        sample=some_ints(),
        twists=int_twists(rng),
    )


@LISTS.family(heldout=True, fast=True)
def longest_run(rng: random.Random, level: int) -> Draft:
    """The longest run of neighbours that rise."""
    k = rng.randint(0, 4)
    return Draft(
        says="Return how many items the longest run of neighbours has in which each item is more "
        f"than the one before it by at least {k + 1}; 0 for no items.",
        args=("xs",),
        body="best = 0\nlength = 0\nfor i in range(len(xs)):\n"
        f"    if i and xs[i] - xs[i - 1] > {k}:\n        length += 1\n    else:\n"
        "        length = 1\n    best = max(best, length)\nreturn best",
        slow="best = 0\nfor i in range(len(xs)):\n    for j in range(i, len(xs)):\n"
        "        part = xs[i:j + 1]\n"
        f"        if all(b - a > {k} for a, b in zip(part, part[1:])):\n"
        "            best = max(best, len(part))\nreturn best",
        answer=lambda xs: max(
            (
                j - i
                for i in range(len(xs))
                for j in range(i + 1, len(xs) + 1)
                if all(xs[at + 1] - xs[at] > k for at in range(i, j - 1))
            ),
            default=0,
        ),
        sample=some_ints(-10, 15),
        twists=int_twists(rng),
    )


@LISTS.family(heldout=True)
def second_largest(rng: random.Random, level: int) -> Draft:
    """The largest but one, or so."""
    k = rng.randint(2, 3)
    place = {2: "second", 3: "third"}[k]
    return Draft(
        says=f"Return the {place} largest of the different numbers; None where there are fewer "
        f"than {k}.",
        args=("xs",),
        body=f"found = sorted(set(xs))\nreturn found[-{k}] if len(found) >= {k} else None",
        answer=lambda xs: _by_rank(xs, k),
        sample=some_ints(-6, 20),
        twists=int_twists(rng),
    )


def _by_rank(xs: list[int], k: int) -> int | None:
    return next((x for x in xs if len({y for y in xs if y > x}) == k - 1), None)
