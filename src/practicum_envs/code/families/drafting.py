"""What a family draws: a statement, a program, an independent answer, inputs, and a twist.

Programs are written with the argument names of their kind (`xs`, `s`, `n` and so on); a task gives
them and the function other names. A twist is a further requirement on the first argument, met by
one line at the start of the function.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Via = Literal["call", "class", "sql"]
Sample = Callable[[random.Random, int], tuple[Any, ...]]
"""Draws arguments; the number is how large they are, about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Twist:
    """A further requirement on the first argument."""

    says: str
    line: str
    change: Callable[[Any], Any]
    """What the line does to the argument, computed in another way than by running it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """One task as its family draws it."""

    says: str
    args: tuple[str, ...]
    body: str
    """Of the function, not indented; of a class or several functions the whole text."""
    answer: Callable[..., Any]
    """The right value, computed without the program."""
    sample: Sample
    slow: str = ""
    """A body that does the same with far more operations."""
    twists: tuple[Twist, ...] = ()
    more: str = ""
    """A requirement that the body meets already and that is told at level 2 and above."""
    via: Via = "call"
    schema: str = ""
    """The statement that makes the table of an SQL task."""
    names: tuple[str, ...] = ()
    """Names that the function or class may have; from the family's name unless given."""


Draw = Callable[[random.Random, int], Draft]
"""Draws a task at a level."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """A family of tasks."""

    name: str
    domain: str
    draw: Draw
    heldout: bool = False
    """Whether it is never trained on, where kinds are held out."""
    levels: tuple[int, ...] = (1, 2)


class Shelf:
    """Families of one domain, in the order they are written."""

    def __init__(self, domain: str) -> None:
        self.domain = domain
        self.families: list[Family] = []

    def family(self, *, heldout: bool = False, fast: bool = False) -> Callable[[Draw], Draw]:
        """Add a function that draws tasks; `fast` where its drafts have a slow body."""

        def add(draw: Draw) -> Draw:
            levels = (1, 2, 3) if fast else (1, 2)
            self.families.append(
                Family(
                    name=draw.__name__,
                    domain=self.domain,
                    draw=draw,
                    heldout=heldout,
                    levels=levels,
                )
            )
            return draw

        return add


LETTERS = "abcdefghijklmnopqrstuvwxyz"
WORDS = (
    *("river", "stone", "Lamp", "cloud", "bird", "Tree", "gold", "paper", "Wind", "salt", "moon"),
    *(
        "apple",
        "ink",
        "Oak",
        "level",
        "noon",
        "radar",
        "sun",
        "ice",
        "Ant",
        "eye",
        "music",
        "kayak",
    ),
)


def some_ints(low: int = -20, high: int = 40) -> Sample:
    """Lists of whole numbers, of which some are equal."""
    return lambda rng, size: ([rng.randint(low, high) for _ in range(rng.randint(0, size))],)


def some_words(rng: random.Random, size: int) -> tuple[list[str]]:
    """Lists of words, of which some are equal."""
    return ([rng.choice(WORDS) for _ in range(rng.randint(0, size))],)


def some_text(rng: random.Random, size: int) -> tuple[str]:
    """Texts of words, digits and signs."""
    parts: list[str] = []
    for _ in range(rng.randint(0, max(1, size // 2))):
        parts.append(rng.choice((rng.choice(WORDS), rng.choice(WORDS), str(rng.randint(0, 99)))))
        parts.append(rng.choice((" ", " ", "  ", ", ", "-", "!")))
    return ("".join(parts).strip() if rng.random() < 0.7 else "".join(parts),)


def int_twists(rng: random.Random) -> tuple[Twist, ...]:
    """What may be asked of a list of numbers first."""
    top = rng.randint(8, 25)
    return (
        Twist(
            says="Negative numbers are left out first.",
            line="xs = [x for x in xs if x >= 0]",
            change=lambda xs: list(filter(lambda x: not x < 0, xs)),
        ),
        Twist(
            says="Odd numbers are left out first.",
            line="xs = [x for x in xs if x % 2 == 0]",
            change=lambda xs: list(filter(lambda x: not x & 1, xs)),
        ),
        Twist(
            says="Of equal numbers only the first is kept.",
            line="xs = list(dict.fromkeys(xs))",
            change=first_of_each,
        ),
        Twist(
            says=f"Numbers above {top} count as {top}.",
            line=f"xs = [min(x, {top}) for x in xs]",
            change=lambda xs: [top if x > top else x for x in xs],
        ),
        Twist(
            says="Signs do not matter: -3 counts as 3.",
            line="xs = [abs(x) for x in xs]",
            change=lambda xs: [-x if x < 0 else x for x in xs],
        ),
    )


def text_twists(rng: random.Random) -> tuple[Twist, ...]:
    """What may be asked of a text first."""
    sign = rng.choice("-!,")
    return (
        Twist(
            says="Capital letters count as small ones.",
            line="s = s.lower()",
            change=lambda s: "".join(chr(ord(c) + 32) if "A" <= c <= "Z" else c for c in s),
        ),
        Twist(
            says=f"What comes after the first {sign!r} is left out, and so is the sign.",
            line=f"s = s.split({sign!r})[0]",
            change=lambda s: s[: s.find(sign)] if sign in s else s,
        ),
        Twist(
            says="Digits are left out first.",
            line='s = "".join(c for c in s if not c.isdigit())',
            change=lambda s: "".join(filter(lambda c: c not in "0123456789", s)),
        ),
    )


def word_twists(rng: random.Random) -> tuple[Twist, ...]:
    """What may be asked of a list of words first."""
    least = rng.randint(4, 5)
    return (
        Twist(
            says="Capital letters count as small ones.",
            line="words = [w.lower() for w in words]",
            change=lambda ws: [
                "".join(chr(ord(c) + 32) if "A" <= c <= "Z" else c for c in w) for w in ws
            ],
        ),
        Twist(
            says=f"Words shorter than {least} letters are left out first.",
            line=f"words = [w for w in words if len(w) >= {least}]",
            change=lambda ws: list(filter(lambda w: not len(w) < least, ws)),
        ),
        Twist(
            says="Of equal words only the first is kept.",
            line="words = list(dict.fromkeys(words))",
            change=first_of_each,
        ),
    )


def number_twists(rng: random.Random) -> tuple[Twist, ...]:
    """What may be asked of a number first."""
    more, top = rng.randint(2, 9), rng.randint(20, 60)
    return (
        Twist(
            says=f"{more} is added to the number first.",
            line=f"n = n + {more}",
            change=lambda n: sum((n, more)),
        ),
        Twist(
            says=f"A number above {top} counts as {top}.",
            line=f"n = min(n, {top})",
            change=lambda n: top if n > top else n,
        ),
        Twist(
            says="The number is halved first, rounded down.",
            line="n = n // 2",
            change=lambda n: n >> 1,
        ),
    )


def first_of_each(items: Sequence[Any]) -> list[Any]:
    """The items without repetitions, in the order they first come."""
    return [one for at, one in enumerate(items) if one not in items[:at]]
