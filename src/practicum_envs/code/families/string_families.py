"""Families about texts and words."""

import random
import re

from practicum_envs.code.families.drafting import (
    Draft,
    Shelf,
    some_text,
    some_words,
    text_twists,
    word_twists,
)

STRINGS = Shelf("strings")
SETS = {
    "vowels": "aeiou",
    "of the letters a to m": "abcdefghijklm",
    "of the letters r, s and t": "rst",
    "of the letters e, i and l": "eil",
    "of the letters n and o": "no",
}


@STRINGS.family()
def count_letters(rng: random.Random, level: int) -> Draft:
    """How many characters are of a set."""
    name = rng.choice(sorted(SETS))
    return Draft(
        says=f"Return how many characters of the text are {name} (small letters alone).",
        args=("s",),
        body=f'return sum(1 for c in s if c in "{SETS[name]}")',
        answer=lambda s: sum(s.count(c) for c in SETS[name]),
        sample=some_text,
        twists=text_twists(rng),
    )


@STRINGS.family()
def replace_letter(rng: random.Random, level: int) -> Draft:
    """One character for another."""
    old, new = rng.choice("aeiouln"), rng.choice("xyz_*")
    return Draft(
        says=f"Return the text with every {old!r} replaced by {new!r}.",
        args=("s",),
        body=f"return s.replace({old!r}, {new!r})",
        answer=lambda s: "".join(new if c == old else c for c in s),
        sample=some_text,
        twists=text_twists(rng),
    )


@STRINGS.family()
def first_letters(rng: random.Random, level: int) -> Draft:
    """The first letters of the words."""
    k = rng.randint(1, 3)
    return Draft(
        says=f"Return the first {k} characters of each word of the text, joined without spaces; "
        "words are what spaces separate.",
        args=("s",),
        body=f'return "".join(w[:{k}] for w in s.split())',
        answer=lambda s: "".join(word[:k] for word in re.findall(r"[^ ]+", s)),
        sample=some_text,
        twists=text_twists(rng),
    )


@STRINGS.family()
def words_of_length(rng: random.Random, level: int) -> Draft:
    """Words that are long enough."""
    k = rng.randint(3, 5)
    return Draft(
        says=f"Return a list of the words with at least {k} letters.",
        args=("words",),
        body=f"return [w for w in words if len(w) >= {k}]",
        answer=lambda ws: list(filter(lambda w: w[k - 1 : k] != "", ws)),
        sample=some_words,
        twists=word_twists(rng),
    )


@STRINGS.family()
def join_words(rng: random.Random, level: int) -> Draft:
    """Words joined by a sign, in reverse or not."""
    sign, back = rng.choice(["-", "/", " and ", "+", "_"]), rng.random() < 0.5
    order, cut = ("the other way round", "[::-1]") if back else ("in their order", "")
    return Draft(
        says=f"Return the words {order}, with {sign!r} between them, as one text.",
        args=("words",),
        body=f"return {sign!r}.join(words{cut})",
        answer=lambda ws: "".join(
            (sign if at else "") + w for at, w in enumerate(reversed(ws) if back else ws)
        ),
        sample=some_words,
        twists=word_twists(rng),
    )


@STRINGS.family()
def reverse_words(rng: random.Random, level: int) -> Draft:
    """Each word backwards."""
    sign = rng.choice([" ", "-", "."])
    return Draft(
        says=f"Return the words, each spelled backwards, joined by {sign!r}.",
        args=("words",),
        body=f"return {sign!r}.join(w[::-1] for w in words)",
        answer=lambda ws: "".join(reversed(sign.join(reversed(ws)))),
        sample=some_words,
        twists=word_twists(rng),
    )


@STRINGS.family(fast=True)
def count_words(rng: random.Random, level: int) -> Draft:
    """How often each word is there."""
    k = rng.randint(1, 2)
    return Draft(
        says=f"Return a dict of how often each word is there, of words that are there at least {k} "
        f"time{'s' if k > 1 else ''}.",
        args=("words",),
        body="counts = {}\nfor w in words:\n    counts[w] = counts.get(w, 0) + 1\n"
        f"return {{w: c for w, c in counts.items() if c >= {k}}}",
        slow=f"return {{w: words.count(w) for w in words if words.count(w) >= {k}}}",
        answer=lambda ws: {w: ws.count(w) for w in sorted(ws) if ws.count(w) >= k},
        sample=some_words,
        twists=word_twists(rng),
    )


@STRINGS.family(heldout=True)
def palindromes(rng: random.Random, level: int) -> Draft:
    """Words that read the same both ways."""
    k = rng.randint(2, 4)
    return Draft(
        says=f"Return a list of the words with more than {k} letters that read the same backwards.",
        args=("words",),
        body=f"return [w for w in words if w == w[::-1] and len(w) > {k}]",
        answer=lambda ws: [
            w for w in ws if len(w) >= k + 1 and all(w[i] == w[-1 - i] for i in range(len(w) // 2))
        ],
        sample=some_words,
        twists=word_twists(rng),
    )


@STRINGS.family(heldout=True, fast=True)
def first_unique(rng: random.Random, level: int) -> Draft:
    """The first word that is there so often."""
    k = rng.randint(1, 2)
    times = {1: "only once", 2: "exactly twice"}[k]
    return Draft(
        says=f"Return the first word that is there {times}; None where there is none.",
        args=("words",),
        body="counts = {}\nfor w in words:\n    counts[w] = counts.get(w, 0) + 1\n"
        f"return next((w for w in words if counts[w] == {k}), None)",
        slow=f"found = [w for w in words if words.count(w) == {k}]\n"
        "return found[0] if found else None",
        answer=lambda ws: next((w for w in ws if ws.count(w) == k), None),
        sample=some_words,
        twists=word_twists(rng),
    )
