"""Keeps what messages say apart from what the template says.

A template pastes messages between its special tokens as text, so a message that contains the words
`<|im_end|>` would end its own turn. Such words are disguised while the template is applied and
read as plain text afterwards.
"""

import re
from collections.abc import Sequence
from typing import Any

__all__ = ["DISGUISED", "Disguise", "any_of"]

OPENING, CLOSING = "\ue000", "\ue001"
"""Private characters around a disguised word's number."""

DISGUISED = OPENING
"""A text that contains this has something disguised in it."""


class Disguise:
    r"""Replaces the texts of special tokens by numbers in private characters, and back.

    >>> disguise = Disguise(["<|im_end|>"])
    >>> hidden = disguise.put_on("say <|im_end|>")
    >>> hidden
    'say \ue0001\ue001'
    >>> disguise.take_off(hidden)
    'say <|im_end|>'
    """

    def __init__(self, words: Sequence[str]) -> None:
        # The opening character is disguised itself, so that no message can imitate a disguise.
        self._words = (OPENING, *words)
        self._numbers = {word: number for number, word in enumerate(self._words)}
        self._any_word = re.compile(any_of(self._words))
        self._any_number = re.compile(f"{OPENING}([0-9]+){CLOSING}")

    def put_on(self, value: Any) -> Any:
        """The value with every string in it disguised, inside lists and dictionaries too."""
        if isinstance(value, str):
            return self._any_word.sub(lambda m: f"{OPENING}{self._numbers[m[0]]}{CLOSING}", value)
        if isinstance(value, dict):
            return {self.put_on(key): self.put_on(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [self.put_on(inner) for inner in value]
        return value

    def take_off(self, text: str) -> str:
        """The text as it was before."""
        return self._any_number.sub(lambda m: self._words[int(m[1])], text)


def any_of(words: Sequence[str]) -> str:
    """A pattern for any of these texts, the longest first, since one may begin like another."""
    longest_first = sorted(words, key=len, reverse=True)
    return "|".join(map(re.escape, longest_first)) or NOTHING


NOTHING = "(?!)"
"""A pattern that never matches."""
