"""Varied wording: how paths and modes are written, how sentences become an instruction."""

import random
from collections.abc import Sequence

__all__ = ["QUOTES", "and_list", "instruct", "mode_text"]

QUOTES = ("{}", "'{}'", '"{}"', "`{}`")
"""Ways to set off a path; without any only where it has no blank."""

OPENINGS = (
    "",
    "",
    "You are root on this machine. ",
    "Please do the following on this system. ",
    "Here is a small piece of system work. ",
    "Some work is waiting on this server. ",
)
PLACED_OPENINGS = (
    "The files for this work are in {}. ",
    "This is about the project in {}. ",
)
THEN = ("Then", "Next", "After that", "Now", "Once that is done")


def and_list(items: Sequence[str]) -> str:
    """Items as a sentence names them.

    >>> and_list(["a", "b", "c"])
    'a, b and c'
    """
    return " and ".join([", ".join(items[:-1]), items[-1]] if len(items) > 1 else items)


def mode_text(mode: int, chance: random.Random) -> str:
    """Nine permission bits in one of several notations.

    >>> sorted({mode_text(0o640, random.Random(n)) for n in range(40)})[:3]
    ['640', '640 (octal)', 'owner: read and write; group: read only; others: nothing']
    """
    letters = "".join(
        letter if mode & (1 << (8 - at)) else "-" for at, letter in enumerate("rwxrwxrwx")
    )
    parts = [letters[at : at + 3] for at in (0, 3, 6)]
    words = [_bits_in_words(part) for part in parts]
    symbolic = ",".join(
        f"{who}={part.replace('-', '')}" for who, part in zip("ugo", parts, strict=True)
    )
    return chance.choice(
        (
            f"{mode:o}",
            f"{mode:o} (octal)",
            f"{letters} (as ls shows it)",
            f"{symbolic} (symbolic)",
            f"owner: {words[0]}; group: {words[1]}; others: {words[2]}",
        )
    )


def _bits_in_words(bits: str) -> str:
    names = [
        name for name, bit in zip(("read", "write", "execute"), bits, strict=True) if bit != "-"
    ]
    if not names:
        return "nothing"
    return and_list(names) + (" only" if len(names) == 1 else "")


def instruct(sentences: Sequence[str], chance: random.Random, place: str | None = None) -> str:
    """One instruction of the steps' sentences, in their order; `place` is where most of it is.

    A sentence that ends with a line to be written has a line of its own, or it would run into the
    next one.
    """
    placed = [text.format(place) for text in PLACED_OPENINGS] if place else []
    opening = chance.choice([*OPENINGS, *placed])
    if len(sentences) == 1:
        return opening + sentences[0]
    are_closed = all(sentence.endswith(".") for sentence in sentences)
    style = chance.choice(("numbers", "dashes", *(("then", "plain") if are_closed else ())))
    if style == "numbers":
        lines = [f"{n}. {sentence}" for n, sentence in enumerate(sentences, start=1)]
        return f"{opening}Do these in order:\n" + "\n".join(lines)
    if style == "dashes":
        lines = [f"- {sentence}" for sentence in sentences]
        return f"{opening}Work through this list from top to bottom:\n" + "\n".join(lines)
    if style == "then":
        return opening + " ".join(_chained(sentences, chance))
    return f"{opening}In this order: " + " ".join(sentences)


def _chained(sentences: Sequence[str], chance: random.Random) -> list[str]:
    links = ["First", *(chance.choice(THEN) for _ in sentences[1:-1]), "Finally"]
    return [
        f"{link}, {text[0].lower()}{text[1:]}" for link, text in zip(links, sentences, strict=True)
    ]
