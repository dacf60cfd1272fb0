"""Training and held-out examples, with nothing on one side that gives the other away.

All examples of a task are on one side, and so are tasks whose questions are nearly the same:
directly, or through other tasks between them.
"""

import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from practicum.core.errors import UserError
from practicum.core.example import Example
from practicum.datasets.content import asked_text, task_key
from practicum.datasets.similarity import Clusters, near_clusters

__all__ = ["SplitExamples", "leakage_clusters", "split_examples"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitExamples:
    """Both sides, and how the tasks hang together."""

    train: tuple[Example, ...]
    heldout: tuple[Example, ...]
    clusters: int
    """Sets of tasks that had to stay together."""
    largest: int
    """Tasks in the largest of them."""


def split_examples(
    examples: Sequence[Example], *, share: float, near: float, seed: int
) -> SplitExamples:
    """Keep a share of the tasks apart.

    Args:
        examples: In any order; each side keeps it.
        share: Of the tasks, to be held out; 0 holds out none.
        near: Jaccard index from which two questions are too alike to be on two sides.
        seed: Which tasks.
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
    """Tasks that must stay on one side, together."""
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
