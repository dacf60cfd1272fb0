"""Sentences of a draft, and whether they are prose rather than a list of keywords."""

import re
from dataclasses import dataclass
from itertools import pairwise

from practicum_envs.writing.closed_words import (
    FUNCTION_WORDS,
    IMPOSSIBLE_AFTER,
    NEVER_LAST,
    VERBS,
)

WORD = re.compile(r"[A-Za-z]+(?:['’][A-Za-z]+)*|\d[\d,.:]*\d|\d")
_END = re.compile(r"(?<=[.!?])[\"')\]]*\s+(?=[\"'(]?[A-Z0-9])")
_ABBREVIATION = re.compile(r"\b(?:Mr|Ms|Mrs|Dr|St|a\.m|p\.m|No)\.$")
FEWEST_WORDS = 3
FUNCTION_SHARE = 0.2
"""Of a sentence's words, values aside: prose in English has about a half, lists have few."""
LABEL = re.compile(r"(?:\S+\s+){0,2}\S+:(?=\s)")
"""One to three words before a colon: a label, and no sentence."""
SUBJECTS = ("i", "you", "we", "they", "he", "she", "it", "who")
VERB_ENDINGS = ("'s", "n't", "'re", "'ll", "'ve", "'m")
"""Of words that have a verb in them."""
MOST_LISTED = 4
"""Commas in a row with no more than two words between them."""


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence, or what stands in place of one."""

    text: str
    paragraph: int
    """Counted from 0."""

    @property
    def words(self) -> list[str]:
        """In small letters."""
        return words_of(self.text)


def words_of(text: str) -> list[str]:
    """Words and numbers in small letters.

    >>> words_of("It's at 9:30, Room 4.")
    ["it's", 'at', '9:30', 'room', '4']
    """
    return [word.lower().replace("’", "'") for word in WORD.findall(text)]


def sentences_of(paragraphs: tuple[str, ...]) -> list[Sentence]:
    r"""The sentences of each paragraph; a line of its own ends one too.

    >>> [one.text for one in sentences_of(("Dear all,\nIt is at 9 a.m. Come!",))]
    ['Dear all,', 'It is at 9 a.m. Come!']
    """
    found = []
    for at, paragraph in enumerate(paragraphs):
        for line in paragraph.splitlines():
            found += [Sentence(text, at) for text in _split(line.strip()) if text]
    return found


def _split(line: str) -> list[str]:
    parts: list[str] = []
    for piece in _END.split(line):
        if parts and _ABBREVIATION.search(parts[-1]):
            parts[-1] += f" {piece}"
        else:
            parts.append(piece)
    return parts


def is_prose(text: str, bare: str | None = None) -> bool:
    """Whether a text is a whole sentence: a capital, a verb, an end, and words that join others.

    Args:
        text: The sentence.
        bare: The same without names, whose words are no verbs in it, such as `book` of a book sale.

    >>> is_prose("The sale starts at noon in Alder Hall.")
    True
    >>> is_prose("Sale, noon, Alder Hall, $5, Saturday.")
    False
    """
    words = words_of(text)
    if len(words) < FEWEST_WORDS or text.rstrip("\"')]")[-1:] not in (".", "!", "?"):
        return False
    if not re.match(r"[\"'(]*[A-Z0-9]", text) or LABEL.match(text):
        return False
    plain = [word for word in words_of(text if bare is None else bare) if not word[0].isdigit()]
    if not any(_is_verb(word) for word in plain) and not _follows_pronoun(plain):
        return False
    joining = sum(word in FUNCTION_WORDS for word in words)
    is_joined = joining >= FUNCTION_SHARE * len(plain) or _is_verb(words[0])
    return is_joined and not _is_list(text) and not impossible_pairs(words)


def _follows_pronoun(words: list[str]) -> bool:
    """Whether a word that is not a small one comes after `we` and the like: `we celebrate`."""
    return any(one in SUBJECTS and other not in FUNCTION_WORDS for one, other in pairwise(words))


def _is_verb(word: str) -> bool:
    return word in VERBS or word.endswith(VERB_ENDINGS)


def _is_list(text: str) -> bool:
    """Whether many commas or semicolons part one or two words each."""
    run = longest = 0
    for piece in re.split(r"[,;|/•]|\s[-–—]\s", re.sub(r"\d,\d", "", text))[1:-1]:
        run = run + 1 if len(piece.split()) <= 2 else 0
        longest = max(longest, run)
    return longest >= MOST_LISTED


def impossible_pairs(words: list[str]) -> list[str]:
    """Pairs of small words that no sentence has side by side, such as `the of`.

    >>> impossible_pairs("the of sale is at noon".split())
    ['the of']
    """
    pairs = [
        f"{one} {other}" for one, other in pairwise(words) if other in IMPOSSIBLE_AFTER.get(one, ())
    ]
    return [*pairs, *([words[-1]] if words and words[-1] in NEVER_LAST else [])]
