"""Deduplication of examples, and train/held-out splits without leakage between them.

Near-duplicates are found by MinHash with locality-sensitive hashing. A text becomes the set of its
word 3-grams (*shingles*); the similarity of two texts is the Jaccard index |A n B| / |A u B| of
their sets. Two MinHash signatures agree in each hash with a probability equal to the Jaccard index
J (Broder, 1997). Signatures are cut into bands; texts that agree in a whole band are candidates,
which happens with probability 1 - (1 - J^r)^b for b bands of r hashes. Candidates are compared
exactly, so that chance can only miss a pair, never invent one.

Splits are by task: all examples of a task are in one split, and so are tasks whose prompts are
near-duplicates, directly or through other tasks.
"""

import hashlib
import json
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from practicum.core.errors import UserError
from practicum.core.sample import Example, Ints
from practicum.core.trace import Message

NAMED = 3
"""Example ids kept per reason."""


class LeftOut:
    """Counts what was left out, by reason.

    >>> left_out = LeftOut()
    >>> left_out.add("it has no score", "trace-7")
    >>> left_out.counts, left_out.named
    ({'it has no score': 1}, {'it has no score': ['trace-7']})
    """

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self.named: dict[str, list[str]] = {}
        """A few ids for each reason."""

    def add(self, reason: str, name: str, count: int = 1) -> None:
        """Count one, or several."""
        self._counts[reason] += count
        ids = self.named.setdefault(reason, [])
        if len(ids) < NAMED:
            ids.append(name)

    @property
    def counts(self) -> dict[str, int]:
        """Counts by reason, the most frequent first."""
        return dict(self._counts.most_common())

    @property
    def total(self) -> int:
        """Total count."""
        return self._counts.total()


def asked_text(example: Example) -> str:
    """The prompt without system messages, which are often the same for all tasks."""
    prompt = example.prompt
    asked = [m for m in prompt if m.role != "system"] or prompt
    return "\n".join(_text(message) for message in asked)


def answer_text(example: Example) -> str:
    """The completion: assistant turns and the messages between them."""
    return "\n".join(_text(message) for message in example.completion)


def whole_text(example: Example) -> str:
    """Prompt and completion."""
    return f"{asked_text(example)}\n{answer_text(example)}"


def prompt_hash(example: Example) -> str:
    """A hash of the prompt's messages and tools."""
    tools = [[t.name, t.description, dict(t.parameters)] for t in example.tools]
    return _digest([[_parts(m) for m in example.prompt], tools])


def content_hash(example: Example) -> str:
    """A hash of prompt and completion."""
    return _digest([prompt_hash(example), [_parts(m) for m in example.completion]])


def task_key(example: Example) -> tuple[str, str]:
    """Environment and task; examples without a task id are keyed by their prompt."""
    return example.env, example.task_id or f"prompt {prompt_hash(example)}"


def _text(message: Message) -> str:
    calls = [
        f"{c.name} {json.dumps(dict(c.arguments), sort_keys=True)}" for c in message.tool_calls
    ]
    return "\n".join(part for part in (message.content, *calls) if part)


def _parts(message: Message) -> list[object]:
    # Without call ids, which are random.
    calls = [[c.name, dict(c.arguments)] for c in message.tool_calls]
    return [message.role, message.content, calls, message.reasoning]


def _digest(value: object) -> str:
    text = json.dumps(value, sort_keys=True, ensure_ascii=True)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


WORDS_IN_A_SHINGLE = 3
WORD = re.compile(r"\w+|[^\w\s]")

Hashes = npt.NDArray[np.uint64]

BANDS, ROWS = 64, 4
"""A pair with J = 0.5 is then a candidate with probability 0.984, with 0.7 almost certainly."""

SLACK = 0.15
"""Candidates whose signatures agree in less than the threshold minus this are not compared exactly:
256 hashes estimate the Jaccard index with a standard error of at most 0.03."""

_PRIME = np.uint64((1 << 31) - 1)
_dice = np.random.default_rng(20_241)
_FACTORS: Hashes = _dice.integers(1, int(_PRIME), BANDS * ROWS).astype(np.uint64)
_SHIFTS: Hashes = _dice.integers(0, int(_PRIME), BANDS * ROWS).astype(np.uint64)


def shingles(text: str) -> frozenset[str]:
    """The word 3-grams of a text; a shorter text is one shingle.

    >>> sorted(shingles("Solve 3x + 7"))
    ['3x + 7', 'solve 3x +']
    """
    words = WORD.findall(text.lower())
    starts = range(max(1, len(words) - WORDS_IN_A_SHINGLE + 1))
    return frozenset(" ".join(words[i : i + WORDS_IN_A_SHINGLE]) for i in starts)


def jaccard(one: frozenset[str], other: frozenset[str]) -> float:
    """The Jaccard index; 1 for two empty sets."""
    union = len(one | other)
    return len(one & other) / union if union else 1.0


def signature(found: frozenset[str]) -> Hashes:
    """The MinHash signature: the smallest value under each hash function, (BANDS * ROWS,)."""
    digests = [hashlib.blake2b(s.encode(), digest_size=4).digest() for s in found]
    values = np.array([int.from_bytes(d, "big") for d in digests], np.uint64) % _PRIME
    # All are below 2^31, so products stay below 2^62 and do not overflow uint64. (hashes, set)
    hashed = (_FACTORS[:, None] * values[None, :] + _SHIFTS[:, None]) % _PRIME
    smallest: Hashes = hashed.min(axis=1)
    return smallest


def near_clusters(texts: Sequence[str], threshold: float) -> "Clusters":
    """Cluster texts: those with a Jaccard index of at least the threshold are joined."""
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
    """The texts in any of these buckets, or all seen so far where that is fewer."""
    if sum(map(len, buckets)) > seen:
        return np.arange(seen)
    return np.array(sorted(set().union(*buckets)), np.int64)


def _bands(signed: "npt.NDArray[np.uint32]") -> list[bytes]:
    rows = signed.reshape(BANDS, ROWS)
    return [bytes([band]) + rows[band].tobytes() for band in range(BANDS)]


class Clusters:
    """Disjoint sets (union-find).

    >>> clusters = Clusters(4)
    >>> clusters.join(0, 2)
    >>> clusters.groups()
    [[0, 2], [1], [3]]
    """

    def __init__(self, size: int) -> None:
        self._first = np.arange(size)

    def join(self, one: int, other: int) -> None:
        """Merge the sets of two members."""
        first, second = sorted((self._first[one], self._first[other]))
        self._first[self._first == second] = first

    def apart(self, these: Ints, one: int) -> "npt.NDArray[np.bool_]":
        """Which of these are in another set than `one`."""
        apart: npt.NDArray[np.bool_] = self._first[these] != self._first[one]
        return apart

    def groups(self) -> list[list[int]]:
        """The sets, each in order."""
        found: dict[int, list[int]] = defaultdict(list)
        for index, first in enumerate(self._first.tolist()):
            found[first].append(index)
        return list(found.values())


Duplicates = Literal["exact", "near", "keep"]
"""Which duplicates are removed: exact ones, also near ones, or none."""

EXACT = "says the same as another example"
NEAR = "says nearly the same as another example"
CONFLICT = "the same answer is called both good and bad"


def without_duplicates(
    examples: Sequence[Example], which: Duplicates, near: float, left_out: LeftOut
) -> list[Example]:
    """Keep one of each set of duplicates: the one with the best reward, then the first.

    Near-duplicates must also have the same task and label: one character can be the difference
    between right and wrong.
    """
    if which == "keep":
        return list(examples)
    kept = _best_of_each(examples, _by_content(examples), EXACT, left_out)
    if which == "near":
        kept = _best_of_each(kept, _by_likeness(kept, near), NEAR, left_out)
    return kept


def without_conflicts(examples: Sequence[Example], left_out: LeftOut) -> list[Example]:
    """Remove answers that are labelled both good and bad."""
    verdicts: dict[str, set[bool | None]] = defaultdict(set)
    for example in examples:
        verdicts[content_hash(example)].add(example.label)
    kept = []
    for example in examples:
        if {True, False} <= verdicts[content_hash(example)]:
            left_out.add(CONFLICT, example.id)
        else:
            kept.append(example)
    return kept


def _best_of_each(
    examples: Sequence[Example], groups: Iterator[list[int]], reason: str, left_out: LeftOut
) -> list[Example]:
    kept: set[int] = set()
    for group in groups:
        best = max(group, key=lambda i: (_worth(examples[i]), -i))
        kept.add(best)
        for index in group:
            if index != best:
                left_out.add(reason, examples[index].id)
    return [example for index, example in enumerate(examples) if index in kept]


def _worth(example: Example) -> float:
    return float("-inf") if example.reward is None else example.reward


def _by_content(examples: Sequence[Example]) -> Iterator[list[int]]:
    found: dict[object, list[int]] = defaultdict(list)
    for index, example in enumerate(examples):
        found[content_hash(example), example.label].append(index)
    yield from found.values()


def _by_likeness(examples: Sequence[Example], near: float) -> Iterator[list[int]]:
    judged: dict[object, list[int]] = defaultdict(list)
    for index, example in enumerate(examples):
        judged[task_key(example), example.label].append(index)
    for members in judged.values():
        clusters = near_clusters([whole_text(examples[i]) for i in members], near)
        yield from ([members[i] for i in group] for group in clusters.groups())


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitExamples:
    """Both splits, and how tasks were clustered."""

    train: tuple[Example, ...]
    heldout: tuple[Example, ...]
    clusters: int
    """Number of clusters of tasks that must be in one split."""
    largest: int
    """Number of tasks in the largest of them."""


def split_examples(
    examples: Sequence[Example], *, share: float, near: float, seed: int
) -> SplitExamples:
    """Hold out a share of the tasks.

    Args:
        examples: In any order, which each split keeps.
        share: Share of the tasks to hold out.
        near: Jaccard index from which two prompts must be in one split.
        seed: Chooses the tasks.
    """
    if share == 0 or not examples:
        return SplitExamples(train=tuple(examples), heldout=(), clusters=0, largest=0)
    clusters = leakage_clusters(examples, near)
    tasks = sum(len(cluster) for cluster in clusters)
    wanted = max(1, round(share * tasks))
    order = list(range(len(clusters)))
    random.Random(seed).shuffle(order)
    apart: set[tuple[str, str]] = set()
    for index in order:
        if len(apart) + len(clusters[index]) <= wanted:
            apart.update(clusters[index])
    largest = max((len(cluster) for cluster in clusters), default=0)
    if not apart or len(apart) == tasks:
        raise UserError(
            f"{wanted} of {tasks} tasks cannot be held out: {largest} of them have questions that "
            f"are nearly the same (Jaccard index {near:g} or more) and must stay together; add "
            "tasks, or hold out another share with --heldout, or none with --heldout 0"
        )
    sides: dict[bool, list[Example]] = defaultdict(list)
    for example in examples:
        sides[task_key(example) in apart].append(example)
    return SplitExamples(
        train=tuple(sides[False]),
        heldout=tuple(sides[True]),
        clusters=len(clusters),
        largest=largest,
    )


def leakage_clusters(examples: Sequence[Example], near: float) -> list[list[tuple[str, str]]]:
    """Clusters of tasks that must be in one split."""
    questions: dict[str, set[tuple[str, str]]] = defaultdict(set)
    numbers: dict[tuple[str, str], int] = {}
    for example in examples:
        key = task_key(example)
        numbers.setdefault(key, len(numbers))
        questions[asked_text(example)].add(key)
    clusters = Clusters(len(numbers))
    for keys in questions.values():
        _join_all(clusters, [numbers[key] for key in keys])
    tasks_of = list(questions.values())
    for group in near_clusters(list(questions), near).groups():
        _join_all(clusters, [numbers[min(tasks_of[question])] for question in group])
    keys_by_number = list(numbers)
    return [[keys_by_number[index] for index in group] for group in clusters.groups()]


def _join_all(clusters: Clusters, members: Sequence[int]) -> None:
    for other in members[1:]:
        clusters.join(members[0], other)
