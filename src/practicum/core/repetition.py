"""How much of a text says the same again."""

import re
from collections.abc import Sequence

__all__ = ["repeated_share", "words_of"]

WORD = re.compile(r"\w+|[^\w\s]")


def words_of(text: str) -> list[str]:
    """Words and signs, in lower case: what repetition is counted in.

    >>> words_of("Go, go on!")
    ['go', ',', 'go', 'on', '!']
    """
    return WORD.findall(text.lower())


def repeated_share(words: Sequence[str], n: int = 3) -> float:
    """The share of sequences of `n` words that have come before; 0 where there are none.

    >>> repeated_share("go on go on go on".split(), n=2)  # go on, on go, go on, on go, go on
    0.6
    """
    sequences = [tuple(words[i : i + n]) for i in range(len(words) - n + 1)]
    if not sequences:
        return 0.0
    return 1.0 - len(set(sequences)) / len(sequences)
