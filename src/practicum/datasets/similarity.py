r"""Texts that are nearly the same, found without comparing each with each.

A text becomes the set of its runs of three words (its *shingles*); how alike two texts are is the
Jaccard index of their sets, |A n B| / |A u B|. MinHash gives each set a signature of short hashes,
of which two sets share each one with a probability equal to their Jaccard index J (Broder, 1997).
Signatures are cut into bands; texts that agree in a whole band are candidates, which happens with
probability 1 - (1 - J^r)^b for b bands of r hashes. Each candidate is then compared exactly, so
that chance can only miss a pair, never invent one.
"""

import hashlib
import re
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from practicum.core.sample import Ints

__all__ = ["Clusters", "jaccard", "near_clusters", "shingles", "signature"]

WORDS_IN_A_SHINGLE = 3
WORD = re.compile(r"\w+|[^\w\s]")

Hashes = npt.NDArray[np.uint64]

BANDS, ROWS = 64, 4
"""With these a pair at J = 0.5 is a candidate with probability 0.984, at 0.7 all but certainly."""

SLACK = 0.15
"""A signature of 256 hashes tells the Jaccard index to a standard error of 0.03 at most. Candidates
whose signatures agree in less than the threshold by this much are not compared exactly."""

_PRIME = np.uint64((1 << 31) - 1)
_dice = np.random.default_rng(20_241)
_FACTORS: Hashes = _dice.integers(1, int(_PRIME), BANDS * ROWS).astype(np.uint64)
_SHIFTS: Hashes = _dice.integers(0, int(_PRIME), BANDS * ROWS).astype(np.uint64)


def shingles(text: str) -> frozenset[str]:
    """The runs of three words in a text; a shorter text is one shingle.

    >>> sorted(shingles("Solve 3x + 7"))
    ['3x + 7', 'solve 3x +']
    """
    words = WORD.findall(text.lower())
    starts = range(max(1, len(words) - WORDS_IN_A_SHINGLE + 1))
    return frozenset(" ".join(words[i : i + WORDS_IN_A_SHINGLE]) for i in starts)


def jaccard(one: frozenset[str], other: frozenset[str]) -> float:
    """How much of two sets is in both; 1 for two empty ones."""
    union = len(one | other)
    return len(one & other) / union if union else 1.0


def signature(found: frozenset[str]) -> Hashes:
    """The MinHash signature of a set: under each of many hash functions, the smallest value."""
    digests = [hashlib.blake2b(s.encode(), digest_size=4).digest() for s in found]
    values = np.array([int.from_bytes(d, "big") for d in digests], np.uint64) % _PRIME
    # Below 2^31 each, so the products stay below 2^62 and nothing wraps around.
    hashed = (_FACTORS[:, None] * values[None, :] + _SHIFTS[:, None]) % _PRIME
    smallest: Hashes = hashed.min(axis=1)
    return smallest


def near_clusters(texts: Sequence[str], threshold: float) -> "Clusters":
    """Texts whose Jaccard index is at least the threshold belong together."""
    sets = [shingles(text) for text in texts]
    signatures = np.zeros((len(sets), BANDS * ROWS), np.uint32)
    clusters = Clusters(len(sets))
    buckets: dict[bytes, list[int]] = defaultdict(list)
    identical: dict[frozenset[str], int] = {}
    for index, found in enumerate(sets):
        same = identical.setdefault(found, index)
        if same != index:
            clusters.join(same, index)
            continue
        signatures[index] = signature(found)
        keys = _bands(signatures[index])
        candidates = _candidates([buckets[key] for key in keys], index)
        agreeing = (signatures[candidates] == signatures[index]).mean(axis=1)
        candidates = candidates[agreeing >= threshold - SLACK]
        while len(candidates := candidates[clusters.apart(candidates, index)]):
            nearest, candidates = candidates[0], candidates[1:]
            if jaccard(sets[nearest], found) >= threshold:
                clusters.join(int(nearest), index)
        for key in keys:
            buckets[key].append(index)
    return clusters


def _candidates(buckets: Sequence[list[int]], seen: int) -> Ints:
    """The texts in any of these buckets; where they are crowded, all that were seen."""
    if sum(map(len, buckets)) > seen:
        return np.arange(seen)
    return np.array(sorted(set().union(*buckets)), np.int64)


def _bands(signed: "npt.NDArray[np.uint32]") -> list[bytes]:
    rows = signed.reshape(BANDS, ROWS)
    return [bytes([band]) + rows[band].tobytes() for band in range(BANDS)]


class Clusters:
    """Things that belong together, directly or through others.

    >>> clusters = Clusters(4)
    >>> clusters.join(0, 2)
    >>> clusters.groups()
    [[0, 2], [1], [3]]
    """

    def __init__(self, size: int) -> None:
        self._first = np.arange(size)

    def join(self, one: int, other: int) -> None:
        """Say that two belong together."""
        first, second = sorted((self._first[one], self._first[other]))
        self._first[self._first == second] = first

    def apart(self, these: Ints, one: int) -> "npt.NDArray[np.bool_]":
        """Which of these do not belong with one."""
        apart: npt.NDArray[np.bool_] = self._first[these] != self._first[one]
        return apart

    def groups(self) -> list[list[int]]:
        """The clusters, each in order."""
        found: dict[int, list[int]] = defaultdict(list)
        for index, first in enumerate(self._first.tolist()):
            found[first].append(index)
        return list(found.values())
