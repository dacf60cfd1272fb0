"""Families about whole numbers."""

import math
import random

from practicum_envs.code.families.drafting import Draft, Sample, Shelf, number_twists

NUMBERS = Shelf("numbers")


def some_number(low: int, high: int) -> Sample:
    """A number of a range; larger ones where large inputs are wanted."""
    return lambda rng, size: (
        rng.randint(low, high) if size < 50 else rng.randint(4 * size, 5 * size),
    )


@NUMBERS.family()
def digit_sum(rng: random.Random, level: int) -> Draft:
    """The digits of a number, added."""
    power = rng.randint(1, 3)
    what = {1: "digits", 2: "squares of the digits", 3: "cubes of the digits"}[power]
    plus = rng.randint(0, 9)
    return Draft(
        says=f"Return the sum of the {what} of n, plus {plus}.",
        args=("n",),
        body=f"return sum(int(d) ** {power} for d in str(n)) + {plus}",
        answer=lambda n: plus + sum((n // 10**at % 10) ** power for at in range(12)),
        sample=some_number(0, 9999),
        twists=number_twists(rng),
    )


@NUMBERS.family()
def clamp_number(rng: random.Random, level: int) -> Draft:
    """A number held within bounds."""
    low = rng.randint(5, 20)
    high = low + rng.randint(8, 30)
    return Draft(
        says=f"Return n, but {low} where it is less than that and {high} where it is more than "
        "that.",
        args=("n",),
        body=f"return max({low}, min(n, {high}))",
        answer=lambda n: low if n < low else high if n > high else n,
        sample=some_number(0, 90),
        twists=number_twists(rng),
    )


@NUMBERS.family()
def fizz_word(rng: random.Random, level: int) -> Draft:
    """Words for multiples."""
    a, b = rng.sample([2, 3, 4, 5, 7], 2)
    one, two = rng.sample(["fizz", "buzz", "ping", "pong", "tick", "tock"], 2)
    return Draft(
        says=f"Return {one!r} where n can be divided by {a}, else {two!r} where it can be divided "
        f"by {b}, else n as text.",
        args=("n",),
        body=f'if n % {a} == 0:\n    return "{one}"\nif n % {b} == 0:\n    return "{two}"\n'
        "return str(n)",
        answer=lambda n: one if math.gcd(n, a) == a else two if math.gcd(n, b) == b else f"{n}",
        sample=some_number(1, 99),
        twists=number_twists(rng),
    )


@NUMBERS.family(fast=True)
def count_divisors(rng: random.Random, level: int) -> Draft:
    """How many divisors a number has."""
    k = rng.randint(1, 5)
    return Draft(
        says=f"Return how many whole numbers from {k} to n divide n; 0 where n is below 1.",
        args=("n",),
        body="count = 0\nd = 1\nwhile d * d <= n:\n    if n % d == 0:\n"
        f"        count += len({{e for e in (d, n // d) if e >= {k}}})\n    d += 1\nreturn count",
        slow=f"return sum(1 for d in range({k}, n + 1) if n % d == 0)",
        answer=lambda n: sum(1 for d in range(k, n + 1) if n % d == 0),
        sample=some_number(1, 120),
        twists=number_twists(rng),
    )


@NUMBERS.family(fast=True)
def stair_ways(rng: random.Random, level: int) -> Draft:
    """Ways to climb stairs."""
    steps = sorted(rng.sample([1, 2, 3, 4], 2))
    a, b = steps
    mod = rng.choice([97, 101, 1009])
    return Draft(
        says=f"Return in how many ways n stairs can be climbed with steps of {a} or {b}, in any "
        f"order, modulo {mod}; there is one way to climb 0.",
        args=("n",),
        body="ways = [1]\nfor i in range(1, n + 1):\n"
        f"    found = ways[i - {a}] if i >= {a} else 0\n"
        f"    found += ways[i - {b}] if i >= {b} else 0\n    ways.append(found % {mod})\n"
        "return ways[n]",
        slow=f"ways = [1]\nfor i in range(1, n + 1):\n"
        f"    row = [ways[j] for j in range(i) if i - j in ({a}, {b})]\n"
        f"    ways = ways + [sum(row) % {mod}]\nreturn ways[n]",
        answer=lambda n: (
            sum(
                math.comb(x + y, x)
                for x in range(n // a + 1)
                for y in [(n - a * x) // b]
                if a * x + b * y == n
            )
            % mod
        ),
        sample=some_number(0, 30),
        twists=number_twists(rng),
    )


@NUMBERS.family()
def to_base(rng: random.Random, level: int) -> Draft:
    """A number in another base."""
    base = rng.randint(2, 9)
    return Draft(
        says=f"Return n written in base {base}, as text; '0' for 0.",
        args=("n",),
        body=f'digits = ""\nwhile n > 0:\n    digits = str(n % {base}) + digits\n'
        f'    n //= {base}\nreturn digits or "0"',
        answer=lambda n: (
            "".join(str(n // base**at % base) for at in range(16, -1, -1)).lstrip("0") or "0"
        ),
        sample=some_number(0, 300),
        twists=number_twists(rng),
    )


@NUMBERS.family(heldout=True)
def collatz_steps(rng: random.Random, level: int) -> Draft:
    """Steps until a small number is reached."""
    k = rng.randint(1, 2)
    return Draft(
        says="Return how many steps it takes from n down to at most "
        f"{k}, where a step halves an even number and makes 3n + 1 of an odd one.",
        args=("n",),
        body=f"steps = 0\nwhile n > {k}:\n    n = n // 2 if n % 2 == 0 else 3 * n + 1\n"
        "    steps += 1\nreturn steps",
        answer=lambda n: _collatz(n, k),
        sample=some_number(1, 60),
        twists=number_twists(rng),
    )


def _collatz(n: int, k: int) -> int:
    return 0 if n <= k else 1 + _collatz((n >> 1) if not n & 1 else n + 2 * n + 1, k)


@NUMBERS.family(heldout=True, fast=True)
def sum_below(rng: random.Random, level: int) -> Draft:
    """The sum of what two numbers divide."""
    a, b = rng.sample([3, 4, 5, 6, 7, 9], 2)
    return Draft(
        says=f"Return the sum of all numbers from 1 to n that {a} or {b} divides.",
        args=("n",),
        body="def up_to(k):\n    m = n // k\n    return k * m * (m + 1) // 2\n\n"
        f"return up_to({a}) + up_to({b}) - up_to({math.lcm(a, b)})",
        slow=f"return sum(i for i in range(1, n + 1) if i % {a} == 0 or i % {b} == 0)",
        answer=lambda n: sum({*range(0, n + 1, a), *range(0, n + 1, b)}),
        sample=some_number(0, 90),
        twists=number_twists(rng),
    )
