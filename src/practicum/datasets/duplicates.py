"""Examples that say what another one says."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Literal

from practicum.core.example import Example
from practicum.datasets.content import content_hash, task_key, whole_text
from practicum.datasets.left_out import LeftOut
from practicum.datasets.similarity import near_clusters

__all__ = ["Duplicates", "without_conflicts", "without_duplicates"]

Duplicates = Literal["exact", "near", "keep"]
"""Which doubles go: those that say exactly the same, also those that nearly do, or none."""

EXACT = "says the same as another example"
NEAR = "says nearly the same as another example"
CONFLICT = "the same answer is called both good and bad"


def without_duplicates(
    examples: Sequence[Example], which: Duplicates, near: float, left_out: LeftOut
) -> list[Example]:
    """One of each, that with the best reward and of those the first.

    Examples that nearly say the same are doubles only if they are about one task and were judged
    the same: one character can be the difference between right and wrong.
    """
    if which == "keep":
        return list(examples)
    kept = _best_of_each(examples, _by_content(examples), EXACT, left_out)
    if which == "near":
        kept = _best_of_each(kept, _by_likeness(kept, near), NEAR, left_out)
    return kept


def without_conflicts(examples: Sequence[Example], left_out: LeftOut) -> list[Example]:
    """Without answers that one example calls good and another one bad."""
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
