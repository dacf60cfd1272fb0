"""Which rows to attend to together, so that what they have in common is read once."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from practicum.core.prefix import common_prefix
from practicum.core.sample import Ints

__all__ = ["Sharing", "share_trunks"]

GROUP_COST = 64
"""Tokens whose reading costs as much as one more group of rows."""

Sharing = tuple[list[int], int]
"""Rows, and how many tokens at the start of their paths are the same for all of them."""


def share_trunks(paths: Sequence[Ints]) -> list[Sharing]:
    """Groups of rows by their common beginning, the cheapest to read.

    Sorted paths that share most are neighbours. A set of rows is read as one group or, where that
    is cheaper, divided where neighbours have least in common.
    """
    order = sorted(range(len(paths)), key=lambda i: paths[i].tolist())
    shared = [int(common_prefix(paths[a], paths[b])) for a, b in pairwise(order)]
    groups = _divide(order, shared)[1]
    alone = sorted(i for members, trunk in groups if not trunk for i in members)
    sharing = [(sorted(members), trunk) for members, trunk in groups if trunk]
    return sorted([*sharing, (alone, 0)] if alone else sharing)


def _divide(order: list[int], shared: list[int]) -> tuple[int, list[Sharing]]:
    """Tokens saved by reading trunks once, less what groups cost, and the groups that do it."""
    if len(order) == 1:
        return -GROUP_COST, [(order, 0)]
    least = min(shared)
    whole = least * (len(order) - 1) - GROUP_COST
    cuts = [0, *(int(i) + 1 for i in np.flatnonzero(np.asarray(shared) == least)), len(order)]
    alone: list[int] = []
    saved, groups = 0, list[Sharing]()
    for a, b in pairwise(cuts):
        if b - a == 1:
            alone.append(order[a])
            continue
        more, inside = _divide(order[a:b], shared[a : b - 1])
        saved, groups = saved + more, groups + inside
    if alone:
        saved, groups = saved - GROUP_COST, [*groups, (alone, 0)]
    return (whole, [(order, least)]) if whole >= saved else (saved, groups)
