"""Examples of which there are many do not drown those of which there are few."""

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Literal

from practicum.core.example import Example
from practicum.datasets.left_out import LeftOut

__all__ = ["Balance", "balance"]

Balance = Literal["weight", "sample", "none"]
"""By weights, which keeps every example; by leaving some of the many out; or not at all."""

SAMPLED_AWAY = "left out to balance the classes"


def balance(
    examples: Sequence[Example],
    how: Balance,
    key: Callable[[Example], Hashable],
    *,
    seed: int,
    left_out: LeftOut,
) -> list[Example]:
    """Make every class count the same.

    With `weight` an example of a class with n of the N examples, of k classes, is weighted with
    N / (k n) besides its own weight: classes weigh the same and the mean is 1. With `sample` each
    class is cut down to the size of the smallest.
    """
    sizes = Counter(key(example) for example in examples)
    if how == "none" or len(sizes) < 2:
        return list(examples)
    if how == "weight":
        factor = {name: len(examples) / (len(sizes) * n) for name, n in sizes.items()}
        return [replace(e, weight=e.weight * factor[key(e)]) for e in examples]
    members: dict[Hashable, list[int]] = defaultdict(list)
    for index, example in enumerate(examples):
        members[key(example)].append(index)
    dice, fewest = random.Random(seed), min(sizes.values())
    kept = {index for same in members.values() for index in dice.sample(same, fewest)}
    for index, example in enumerate(examples):
        if index not in kept:
            left_out.add(SAMPLED_AWAY, example.id)
    return [example for index, example in enumerate(examples) if index in kept]
