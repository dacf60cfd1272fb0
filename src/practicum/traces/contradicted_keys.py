"""Keys whose thumbs say the opposite of what everybody else's say of such conversations.

A linear model of the other keys' thumbs, each key with as many as the median key has, ranks the
conversations that a key has judged. A key counts where its thumbs agree with that, or not more or
less than by chance. Where they are against it more than chance allows, by the Mann-Whitney test at
a level that is divided among all keys, it is left out. Then the rest are looked at again without
it, since a lie dims the model of the others.

Where the others cannot be foreseen, or a key has said little, nothing is found: then only the share
of a key bounds what it does. Where half of the keys or more are contradicted nobody knows who is
right, and none is left out.
"""

import math
from collections.abc import Collection, Sequence
from statistics import NormalDist, median_low

import numpy as np

from practicum.core.trace import Trace
from practicum.rewards.learned.features import Array
from practicum.rewards.learned.labeler import TracePool
from practicum.rewards.learned.logistic import fit_logistic, span

LEVEL = 0.01
"""Chance that any key at all is left out where none is turned round."""
LEAST_KEYS = 3
"""With two that disagree nobody knows who is right."""
FOLDS = 10
"""Groups of keys, each of which is ranked by a model of the others."""
MOST_LOOKED_AT = 2000
"""Conversations, since features and models of them take memory and time."""
STRENGTH = 1.0
"""Of the model's prior."""


def contradicted_keys(
    traces: Sequence[Trace], thumbs: Sequence[bool], keys: Sequence[str]
) -> set[str]:
    """The keys whose thumbs the others contradict.

    Args:
        traces: Conversations, at most `MOST_LOOKED_AT` of which should be given.
        thumbs: Whether each was called good.
        keys: Whose each thumb is.
    """
    said, who = np.array(thumbs, dtype=np.float64), np.array(keys)
    if len(set(keys)) < LEAST_KEYS or not 0 < said.sum() < said.size:
        return set()
    pool = TracePool.read(traces)
    rows = pool.space.transform(pool.raw)
    inside = rows @ span(rows)  # the same distances, with fewer columns
    return _without(inside, said, who, set())


def _without(rows: Array, said: Array, who: np.ndarray, left_out: set[str]) -> set[str]:
    """The keys that are left out, once none of the rest is contradicted by the rest."""
    every = set(who.tolist())
    ranked = _ranked(rows, said, who, every - left_out)
    found = {
        key
        for key in every - left_out
        if _chance_of(ranked[who == key], said[who == key]) < LEVEL / len(every)
    }
    if not found:
        return left_out
    if 2 * len(found | left_out) >= len(every):
        return set()
    return _without(rows, said, who, left_out | found)


def _ranked(rows: Array, said: Array, who: np.ndarray, counted: Collection[str]) -> Array:
    """How good each conversation is by a model of the thumbs of other keys, (n,)."""
    order = sorted(counted)
    most = median_low([int((who == key).sum()) for key in order])
    # Conversations come in no order that a key could choose: the first are as good as any.
    taught = np.zeros(who.size, dtype=bool)
    for key in order:
        taught[np.flatnonzero(who == key)[:most]] = True
    scores, whole = np.zeros(who.size), np.eye(rows.shape[1])
    for fold in range(min(FOLDS, len(order))):
        held = np.isin(who, order[fold::FOLDS])
        by = taught & ~held
        if 0 < said[by].sum() < said[by].size:
            scores[held] = fit_logistic(rows[by], said[by], STRENGTH, whole).scores(rows[held])
    return scores


def _chance_of(scores: Array, said: Array) -> float:
    """How often chance alone would rank as much against what was said (Mann-Whitney, one-sided).

    >>> round(_chance_of(np.arange(20.0), np.arange(20) < 10), 5)
    8e-05
    >>> _chance_of(np.arange(4.0), np.ones(4))
    1.0
    """
    good, bad = scores[said > 0], scores[said == 0]
    if not good.size * bad.size:
        return 1.0
    above = np.sign(good[:, None] - bad[None, :])  # (good, bad); ties are 0
    spread = math.sqrt((good.size + bad.size + 1) / (3 * good.size * bad.size))
    return NormalDist(sigma=spread).cdf(float(above.mean()))
