"""Families about tools for texts of several lines, as on a command line."""

import random

from practicum_envs.code.families.drafting import WORDS, Draft, Shelf, Twist

TEXT_TOOLS = Shelf("text tools")


def some_lines(rng: random.Random, size: int) -> tuple[str]:
    """Lines of words, of which some are equal, some empty and some remarks."""
    lines = []
    for _ in range(rng.randint(0, max(2, size))):
        line = " ".join(rng.choice(WORDS) for _ in range(rng.randint(0, 2)))
        lines.append(rng.choice(["", "", "", "#"]) + line)
        if rng.random() < 0.2:
            lines.append(line)
    return ("\n".join(lines),)


def line_twists(rng: random.Random) -> tuple[Twist, ...]:
    """What may be asked of a text of lines first."""
    sign = "#"
    return (
        Twist(
            says="Lines that begin with '#' are left out first.",
            line='s = "\\n".join(x for x in s.split("\\n") if not x.startswith("#"))',
            change=lambda s: "\n".join(x for x in s.split("\n") if x[:1] != sign),
        ),
        Twist(
            says="Empty lines are left out first.",
            line='s = "\\n".join(x for x in s.split("\\n") if x)',
            change=lambda s: "\n".join(filter(None, s.split("\n"))),
        ),
        Twist(
            says="Capital letters count as small ones.",
            line="s = s.lower()",
            change=lambda s: "".join(chr(ord(c) + 32) if "A" <= c <= "Z" else c for c in s),
        ),
    )


@TEXT_TOOLS.family()
def number_lines(rng: random.Random, level: int) -> Draft:
    """Lines with their numbers."""
    start, sign = rng.randint(0, 5), rng.choice([": ", ") ", " ", ". ", "- "])
    return Draft(
        says=f"Return the text with a number and {sign!r} before each line, from {start} on.",
        args=("s",),
        body='lines = s.split("\\n")\n'
        f'return "\\n".join(str(i) + {sign!r} + x for i, x in enumerate(lines, {start}))',
        answer=lambda s: "".join(
            f"{chr(10) if at else ''}{at + start}{sign}{line}"
            for at, line in enumerate(s.split("\n"))
        ),
        sample=some_lines,
        twists=line_twists(rng),
    )


@TEXT_TOOLS.family()
def grep_lines(rng: random.Random, level: int) -> Draft:
    """Lines that hold a text."""
    word, inverse = rng.choice(["o", "e", "in", "st", "l", "u"]), rng.random() < 0.4
    says, negation = ("do not contain", "not ") if inverse else ("contain", "")
    return Draft(
        says=f"Return a list of the lines of the text that {says} {word!r}.",
        args=("s",),
        body=f'return [x for x in s.split("\\n") if {word!r} {negation}in x]',
        answer=lambda s: [x for x in s.split("\n") if (x.find(word) < 0) == inverse],
        sample=some_lines,
        twists=line_twists(rng),
    )


@TEXT_TOOLS.family()
def longest_line(rng: random.Random, level: int) -> Draft:
    """The longest line, or the shortest."""
    what = rng.choice(["longest", "shortest"])
    name = {"longest": "max", "shortest": "min"}[what]
    return Draft(
        says=f"Return the {what} line of the text; the first of several.",
        args=("s",),
        body=f'return {name}(s.split("\\n"), key=len)',
        answer=lambda s: sorted(
            s.split("\n"), key=lambda x: -len(x) if what == "longest" else len(x)
        )[0],
        sample=some_lines,
        twists=line_twists(rng),
    )


@TEXT_TOOLS.family()
def wrap_text(rng: random.Random, level: int) -> Draft:
    """A text cut into pieces."""
    k = rng.randint(5, 12)
    return Draft(
        says=f"Return a list of the pieces of the text with {k} characters each; the last may be "
        "shorter. Line breaks are characters like others.",
        args=("s",),
        body=f"return [s[i:i + {k}] for i in range(0, len(s), {k})]",
        answer=lambda s: ["".join(p) for p in _pieces(s, k)],
        sample=some_lines,
        twists=line_twists(rng),
    )


def _pieces(s: str, k: int) -> list[list[str]]:
    pieces: list[list[str]] = []
    for at, character in enumerate(s):
        if at % k == 0:
            pieces.append([])
        pieces[-1].append(character)
    return pieces


@TEXT_TOOLS.family(heldout=True)
def merge_repeats(rng: random.Random, level: int) -> Draft:
    """Repeated lines, once each."""
    sign = rng.choice([" x", " *", " ="])
    return Draft(
        says="Return a list of the lines of the text, where equal lines one after the other come "
        f"once, followed by '{sign}' and how many they were, as in 'abc{sign}2'; also for 1.",
        args=("s",),
        body='runs = []\nfor x in s.split("\\n"):\n    if runs and runs[-1][0] == x:\n'
        "        runs[-1][1] += 1\n    else:\n        runs.append([x, 1])\n"
        f"return [x + {sign!r} + str(count) for x, count in runs]",
        answer=lambda s: _runs(s.split("\n"), sign),
        sample=some_lines,
        twists=line_twists(rng),
    )


def _runs(lines: list[str], sign: str) -> list[str]:
    starts = [at for at, line in enumerate(lines) if at == 0 or lines[at - 1] != line]
    ends = [*starts[1:], len(lines)]
    return [f"{lines[a]}{sign}{b - a}" for a, b in zip(starts, ends, strict=True)]
