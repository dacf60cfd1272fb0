"""Choosing the strength of the prior, and honest scores, by leaving labels out in turn."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from practicum.rewards.learned.calibration import fit_platt
from practicum.rewards.learned.logistic import fit_logistic, log_loss, span
from practicum.rewards.learned.space import Array

__all__ = ["STRENGTHS", "CrossValidated", "cross_validate", "make_folds"]

STRENGTHS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
"""Strengths that are tried."""

FOLDS = 5

Folds = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class CrossValidated:
    """What labels say about each other: every row scored by a model that never saw it."""

    strength: float
    """The strength whose scores fit best."""
    scores: Array  # (n,) moderated, out of fold
    probabilities: Array  # (n,) calibrated by the other folds alone


def make_folds(good: Array, groups: Sequence[str], seed: int, count: int = FOLDS) -> Folds:
    """The fold of each row: rows of a group stay together, and good ones are shared out.

    Rows of one group (attempts at one task) resemble each other; split up, they would let the model
    look better than it is. Where too few groups have good or bad rows, each row is a group.
    """
    by_class = [{g for g, mark in zip(groups, good, strict=True) if mark == c} for c in (0, 1)]
    if min(len(found) for found in by_class) < count:
        groups = [str(index) for index in range(good.size)]
    members: dict[str, list[int]] = {}
    for index in np.random.default_rng(seed).permutation(good.size):
        members.setdefault(groups[index], []).append(int(index))
    folds = np.zeros(good.size, dtype=np.int64)
    held = np.zeros((count, 2))
    totals = np.array([good.size - good.sum(), good.sum()])
    # The largest groups first, each where its rows are missed most.
    for rows in sorted(members.values(), key=len, reverse=True):
        brought = np.array([len(rows) - good[rows].sum(), good[rows].sum()])
        filled = ((held + brought) / totals) ** 2 - (held / totals) ** 2
        fold = int(np.argmin(filled.sum(axis=1)))
        held[fold] += brought
        folds[rows] = fold
    return folds


def cross_validate(
    rows: Array,
    targets: Array,
    groups: Sequence[str],
    seed: int,
    strengths: Sequence[float] = STRENGTHS,
    basis: Array | None = None,
) -> CrossValidated:
    """Try each strength on labels left out; equally good ones lose to the strongest.

    Args:
        rows: (n, d), two good ones and two bad ones at least.
        targets: (n,), each between 0 and 1.
        groups: What each row is an attempt at.
        seed: Of the folds.
        strengths: Those to try.
        basis: Orthonormal columns that span the rows, where they are known already.
    """
    good = (targets >= 0.5).astype(np.float64)
    fewest = int(min(good.sum(), good.size - good.sum()))
    folds = make_folds(good, groups, seed, max(2, min(FOLDS, fewest)))
    inside = rows @ (span(rows) if basis is None else basis)
    tried = {s: _left_out_scores(inside, targets, folds, s) for s in strengths}
    best = min(sorted(tried, reverse=True), key=lambda s: log_loss(tried[s], targets))
    return CrossValidated(
        strength=best,
        scores=tried[best],
        probabilities=_left_out_probabilities(tried[best], good, folds),
    )


def _left_out_scores(rows: Array, targets: Array, folds: Folds, strength: float) -> Array:
    scores = np.zeros(len(rows))
    whole = np.eye(rows.shape[1])
    for fold in np.unique(folds):
        out = folds == fold
        model = fit_logistic(rows[~out], targets[~out], strength, whole)
        scores[out] = model.moderated(rows[out])
    return scores


def _left_out_probabilities(scores: Array, good: Array, folds: Folds) -> Array:
    probabilities = np.zeros(good.size)
    for fold in np.unique(folds):
        out = folds == fold
        probabilities[out] = fit_platt(scores[~out], good[~out]).probabilities(scores[out])
    return probabilities
