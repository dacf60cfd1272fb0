"""Families about reading values out of texts."""

import random
import re

from practicum_envs.code.families.drafting import WORDS, Draft, Shelf, Twist

PARSING = Shelf("parsing")


def sign_for(rng: random.Random, level: int) -> str:
    """What begins a remark; lines have none at level 1."""
    return "" if level == 1 else rng.choice("#%")


def before(sign: str) -> tuple[Twist, ...]:
    """What may be asked of a line first."""
    return (
        Twist(
            says=f"What comes after the first {sign!r} is a remark and is left out, with the sign.",
            line=f"s = s.split({sign!r})[0]",
            change=lambda s: re.sub(rf"{sign}.*", "", s, flags=re.DOTALL),
        ),
    )


def remark(rng: random.Random, sign: str, text: str) -> str:
    """Now and then, a remark at the end of a line; none without a sign for it."""
    return "" if not sign or rng.random() < 0.4 else sign + rng.choice(["", text, text])


@PARSING.family()
def read_pairs(rng: random.Random, level: int) -> Draft:
    """Settings such as a=1;b=2."""
    outer, inner = rng.sample([";", ",", "&", "|", ":", "="], 2)
    sign = sign_for(rng, level)

    def sample(rng: random.Random, size: int) -> tuple[str]:
        pairs = [
            f"{rng.choice('abcdxyz')}{inner}{rng.randint(0, 60)}" for _ in range(rng.randint(1, 4))
        ]
        return (outer.join(pairs) + remark(rng, sign, f"{outer}q{inner}5"),)

    def answer(s: str) -> dict[str, str]:
        found = {}
        for pair in re.split(re.escape(outer), s):
            at = pair.find(inner)
            if at >= 0:
                found[pair[:at]] = pair[at + 1 :]
        return found

    return Draft(
        says=f"The text holds pairs, separated by {outer!r}, each a key and a value with {inner!r} "
        "between them. Return a dict of them; the last of equal keys counts, and a part without "
        f"{inner!r} is left out.",
        args=("s",),
        body=f"pairs = {{}}\nfor part in s.split({outer!r}):\n    if {inner!r} in part:\n"
        f"        key, value = part.split({inner!r}, 1)\n        pairs[key] = value\nreturn pairs",
        answer=answer,
        sample=sample,
        twists=before(sign),
    )


@PARSING.family()
def sum_numbers(rng: random.Random, level: int) -> Draft:
    """The numbers in a text."""
    k, sign = rng.randint(1, 9), sign_for(rng, level)

    def sample(rng: random.Random, size: int) -> tuple[str]:
        parts = [
            rng.choice([rng.choice(WORDS), str(rng.randint(0, 30))])
            for _ in range(rng.randint(0, 6))
        ]
        return (" ".join(parts) + remark(rng, sign, " 17"),)

    return Draft(
        says="The text holds words and whole numbers, separated by spaces. Return the sum of the "
        f"numbers that are at least {k}.",
        args=("s",),
        body="numbers = [int(w) for w in s.split() if w.isdigit()]\n"
        f"return sum(n for n in numbers if n >= {k})",
        answer=lambda s: sum(
            n for n in map(int, re.findall(r"(?<!\S)[0-9]+(?!\S)", s)) if not n < k
        ),
        sample=sample,
        twists=before(sign),
    )


@PARSING.family()
def read_duration(rng: random.Random, level: int) -> Draft:
    """Durations such as 1h30m."""
    unit, size_of = rng.choice(
        [("seconds", {"h": 3600, "m": 60, "s": 1}), ("minutes", {"d": 1440, "h": 60, "m": 1})]
    )
    sign = sign_for(rng, level)

    def sample(rng: random.Random, size: int) -> tuple[str]:
        parts = [f"{rng.randint(0, 30)}{u}" for u in size_of if rng.random() < 0.7]
        return ("".join(parts) + remark(rng, sign, "5m"),)

    units = ", ".join(f"{u} is {n}" for u, n in size_of.items())
    return Draft(
        says=f"The text is a duration such as 2{next(iter(size_of))}15m. Return it in {unit}, "
        f"where {units}; 0 for an empty text.",
        args=("s",),
        body=f"total = 0\nnumber = ''\nfor c in s:\n    if c.isdigit():\n        number += c\n"
        f"    elif c in {size_of!r}:\n        total += int(number) * {size_of!r}[c]\n"
        "        number = ''\nreturn total",
        answer=lambda s: sum(
            int(n) * size_of[u] for n, u in re.findall(rf"([0-9]+)([{''.join(size_of)}])", s)
        ),
        sample=sample,
        twists=before(sign),
    )


@PARSING.family(heldout=True)
def bracket_depth(rng: random.Random, level: int) -> Draft:
    """How deeply brackets are nested."""
    left, right = rng.choice([("(", ")"), ("[", "]"), ("{", "}"), ("<", ">")])
    sign = sign_for(rng, level)

    def sample(rng: random.Random, size: int) -> tuple[str]:
        text = "".join(rng.choice(left * 3 + right * 2 + "ab") for _ in range(rng.randint(0, 9)))
        if rng.random() < 0.6:
            text = "".join(rng.choice([left, left + "a"]) for _ in range(rng.randint(1, 4)))
            text += right * text.count(left)
        return (text + remark(rng, sign, left + right + right),)

    def answer(s: str) -> int:
        depths = [s[:at].count(left) - s[:at].count(right) for at in range(len(s) + 1)]
        return max(depths) if min(depths) == 0 and depths[-1] == 0 else -1

    return Draft(
        says=f"Return how deeply the brackets {left}{right} of the text are nested; -1 where they "
        "do not match.",
        args=("s",),
        body=f"depth = deepest = 0\nfor c in s:\n    if c == {left!r}:\n        depth += 1\n"
        f"        deepest = max(deepest, depth)\n    elif c == {right!r}:\n        depth -= 1\n"
        "        if depth < 0:\n            return -1\nreturn deepest if depth == 0 else -1",
        answer=answer,
        sample=sample,
        twists=before(sign),
    )


@PARSING.family()
def read_row(rng: random.Random, level: int) -> Draft:
    """One field of a row."""
    between, at = rng.choice([",", ";", "|", "/"]), rng.randint(0, 2)
    sign = sign_for(rng, level)
    place = ["first", "second", "third"][at]

    def sample(rng: random.Random, size: int) -> tuple[str]:
        fields = [
            rng.choice(["", " "]) + rng.choice([*WORDS[:8], "7", ""]) + rng.choice(["", "  "])
            for _ in range(rng.randint(1, 4))
        ]
        return (between.join(fields) + remark(rng, sign, f"x{between}y"),)

    return Draft(
        says=f"The text is a row of fields with {between!r} between them. Return the {place} field "
        "without the spaces around it; None where the row has no such field.",
        args=("s",),
        body=f"fields = s.split({between!r})\n"
        f"return fields[{at}].strip() if len(fields) > {at} else None",
        answer=lambda s: (
            re.split(re.escape(between), s)[at].strip() if s.count(between) >= at else None
        ),
        sample=sample,
        twists=before(sign),
    )
