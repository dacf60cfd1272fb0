"""Where to cut sorted samples into micro-batches, so that little of what they share is repeated.

Samples sorted by their tokens lie in the depth-first order of their prefix tree, and a run of them
is a part of that tree. With `shared[i]` the tokens sample i has in common with the one before it,
the run from i up to j has

    lengths[i] + sum of (lengths[k] - shared[k]) for i < k < j

tokens, and to begin a run at i repeats `shared[i]` tokens, wherever the other cuts are.
"""

import numpy as np

from practicum.core.sample import Ints

__all__ = ["split_runs"]


def split_runs(lengths: Ints, shared: Ints, budget_tokens: int) -> list[tuple[int, int]]:
    """The runs, each as begin and end, that repeat the fewest tokens within the budget.

    Among those the fewest runs, and among those the ones whose largest run is smallest. A sample
    longer than the budget is a run of its own. Exact over all ways to cut the samples in their
    order; each sample looks back only as far as the budget reaches.

    Args:
        lengths: Tokens of each sample, the samples sorted by their tokens.
        shared: Tokens each sample has in common with the one before it; 0 for the first.
        budget_tokens: Unique tokens a run may have.

    >>> split_runs(np.array([5, 5, 5, 5]), np.array([0, 4, 1, 4]), budget_tokens=10)
    [(0, 2), (2, 4)]
    """
    count = lengths.size
    laid = np.concatenate([[0], np.cumsum(lengths - shared)])  # (B + 1,) tokens before each sample
    base = shared - laid[:-1]  # (B,) a run from i to j has base[i] + laid[j] tokens
    # A later begin never makes a run longer, so -base is sorted.
    earliest = np.minimum(
        np.searchsorted(-base, laid[1:] - budget_tokens), np.arange(count)
    ).tolist()
    # What the runs before i, and the one that begins there, cost: repeated tokens, then runs.
    cost = np.zeros(count, np.int64)
    largest = np.zeros(count + 1, np.int64)  # the largest run before i
    begins = [0] * (count + 1)  # where the run that ends at i begins
    for end in range(1, count + 1):
        window = cost[earliest[end - 1] : end]
        cheapest = window.min()
        alike = earliest[end - 1] + np.flatnonzero(window == cheapest)
        sizes = np.maximum(largest[alike], base[alike] + laid[end])
        best = sizes.argmin()
        begins[end], largest[end] = int(alike[best]), sizes[best]
        if end < count:
            cost[end] = cheapest + 1 + shared[end] * (count + 1)  # never more than `count` runs
    return _runs_from_last(begins)


def _runs_from_last(begins: list[int]) -> list[tuple[int, int]]:
    runs = []
    end = len(begins) - 1
    while end > 0:
        runs.append((begins[end], end))
        end = begins[end]
    return runs[::-1]
