"""The words of a trace as a vector of fixed length, without a vocabulary to be kept.

Every word and every pair of neighbours is hashed, together with who said it, to one of a fixed
number of places with a sign (Weinberger et al., 2009, arXiv:0902.2206): colliding words then cancel
out on average instead of adding up.
"""

import math
import re
import zlib
from collections import Counter
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from practicum.rewards.learned.facts import Transcript

__all__ = ["PLACES", "hash_words"]

PLACES = 1024
"""Length of the vector."""

KEPT_CHARS = 6000
"""Of all texts of one kind: half from the beginning and half from the end, where the verdict is."""

WORD = re.compile(r"[a-z]+|\d+|[^\w\s]")
SIGN_BIT = 1 << 31


def hash_words(transcript: Transcript) -> npt.NDArray[np.float64]:
    """Signed, damped counts of words and pairs; the prompt is left out, since it is not judged."""
    kinds = {
        "said": "\n".join((*transcript.thought, *transcript.said)),
        "last": transcript.said[-1] if transcript.said else "",
        "call": "\n".join(transcript.calls),
        "result": "\n".join(transcript.results),
        "reply": "\n".join(transcript.replies),
    }
    counts = Counter(term for kind, text in kinds.items() for term in _terms(kind, text))
    vector = np.zeros(PLACES)
    for term, count in counts.items():
        code = zlib.crc32(term.encode())
        vector[code % PLACES] += math.copysign(math.log1p(count), (code & SIGN_BIT) - 1)
    return vector


def _terms(kind: str, text: str) -> Iterator[str]:
    words = [_plain(word) for word in WORD.findall(_ends_of(text).lower())]
    for index, word in enumerate(words):
        yield f"{kind} {word}"
        if index:
            yield f"{kind} {words[index - 1]} {word}"


def _ends_of(text: str) -> str:
    if len(text) <= KEPT_CHARS:
        return text
    half = KEPT_CHARS // 2
    return f"{text[:half]}\n{text[-half:]}"


def _plain(word: str) -> str:
    """Numbers are told apart by their length only: most are never seen twice."""
    return "0" * len(word) if word.isdigit() else word
