"""Logistic regression with L2 penalty and uncertainty; Platt scaling; cross-validation.

Minimised over weights w and an intercept b that carries no penalty, for targets y in [0, 1]:

    sum_i [ log(1 + exp(s_i)) - y_i s_i ] + strength / 2 |w|^2,    s_i = w x_i + b

by Newton's method. With fewer rows than columns the minimum lies in the span of the rows, so the
problem is solved there, exactly, with as many unknowns as rows.

Uncertainty: Laplace's approximation takes the inverse Hessian at the minimum as the covariance of
(w, b); directions orthogonal to all rows keep the prior's variance, 1 / strength. The score of a
row is then normal with mean s and variance v, and the mean of its sigmoid is about
sigmoid(s / sqrt(1 + pi v / 8)) (MacKay, 1992, "The evidence framework applied to classification
networks"), so a row unlike any labelled one is never called certain.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from practicum.rewards.learned.features import Array

STEPS = 100
TOLERANCE = 1e-10
"""Newton stops when the gradient's largest entry is below this times the number of rows."""
RIDGE = 1e-9
"""Added to the Hessian's diagonal, so that it is never singular."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogisticModel:
    """Weights and their covariance."""

    weights: Array  # (d,)
    intercept: float
    strength: float
    basis: Array  # (d, r) orthonormal, spans the rows
    covariance: Array  # (r + 1, r + 1) of the weights along the basis, and of the intercept

    def scores(self, rows: Array) -> Array:
        """The linear scores s, (n,)."""
        found: Array = rows @ self.weights + self.intercept
        return found

    def variances(self, rows: Array) -> Array:
        """The variance of each score, (n,)."""
        inside = rows @ self.basis  # (n, r)
        # Squared length of the part of each row that is orthogonal to the basis.
        beyond = np.maximum(0.0, (rows**2).sum(axis=1) - (inside**2).sum(axis=1))
        along = np.hstack([inside, np.ones((len(rows), 1))])
        known = ((along @ self.covariance) * along).sum(axis=1)
        found: Array = np.maximum(0.0, known) + beyond / self.strength
        return found

    def moderated(self, rows: Array) -> Array:
        """Scores shrunk towards 0 by their variance (MacKay's approximation), (n,)."""
        return self.scores(rows) / np.sqrt(1 + np.pi * self.variances(rows) / 8)


def fit_logistic(
    rows: Array, targets: Array, strength: float, basis: Array | None = None
) -> LogisticModel:
    """Minimise the objective above.

    Args:
        rows: (n, d).
        targets: (n,), each between 0 and 1.
        strength: Of the prior, above 0.
        basis: `span(rows)`, where known already.
    """
    basis = span(rows) if basis is None else basis
    inside = np.hstack([rows @ basis, np.ones((len(rows), 1))])
    penalty = np.full(inside.shape[1], strength)
    penalty[-1] = 0.0
    found = _newton(inside, targets, penalty)
    derivatives = _sigmoid_derivative(inside @ found)
    hessian = (inside * derivatives[:, None]).T @ inside + np.diag(penalty + RIDGE)
    return LogisticModel(
        weights=basis @ found[:-1],
        intercept=float(found[-1]),
        strength=strength,
        basis=basis,
        covariance=np.asarray(np.linalg.inv(hessian), dtype=np.float64),
    )


def span(rows: Array) -> Array:
    """Orthonormal columns that span the rows, (d, min(n, d))."""
    basis, _ = np.linalg.qr(rows.T)
    return np.ascontiguousarray(basis, dtype=np.float64)


def _newton(rows: Array, targets: Array, penalty: Array) -> Array:
    """Newton's method with backtracking: a step that raises the objective is halved."""

    def objective(weights: Array) -> float:
        return log_loss(rows @ weights, targets) + 0.5 * float(penalty @ weights**2)

    weights = np.zeros(rows.shape[1])
    value = objective(weights)
    for _ in range(STEPS):
        scores = rows @ weights
        gradient = rows.T @ (sigmoid(scores) - targets) + penalty * weights
        if float(np.abs(gradient).max()) <= TOLERANCE * len(rows):
            break
        derivatives = _sigmoid_derivative(scores)
        hessian = (rows * derivatives[:, None]).T @ rows + np.diag(penalty + RIDGE)
        step = np.linalg.solve(hessian, gradient)
        size = 1.0
        while (tried := objective(weights - size * step)) > value and size > 1e-6:
            size /= 2
        weights, value = weights - size * step, tried
    return weights


def _sigmoid_derivative(scores: Array) -> Array:
    share = sigmoid(scores)
    return share * (1 - share)


def sigmoid(scores: Array) -> Array:
    """1 / (1 + exp(-s)), without overflow."""
    return np.exp(-np.logaddexp(0.0, -scores))


def log_loss(scores: Array, targets: Array) -> float:
    """The negative log-likelihood, summed over rows."""
    return float(np.logaddexp(0.0, scores).sum() - targets @ scores)


BINS = 10
ROWS_PER_BIN = 5
"""Fewest rows of a calibration bin."""
WEAKEST_PRIOR = 1e-6
CHANCE_DRAWS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class PlattScale:
    """From a score to a probability: sigmoid(slope * score + offset)."""

    slope: float
    offset: float

    def logits(self, scores: Array) -> Array:
        """The logit of each probability."""
        return self.slope * scores + self.offset

    def probabilities(self, scores: Array) -> Array:
        """The probability that each one is good."""
        return sigmoid(self.logits(scores))


def fit_platt(scores: Array, good: Array) -> PlattScale:
    """Platt's scale ("Probabilistic outputs for support vector machines", 1999).

    Its targets are (n+ + 1) / (n+ + 2) and 1 / (n- + 2) instead of 1 and 0, so that a few scores
    that happen to be separable do not give certainty. Scores that rank worse than chance get slope
    0: each row then has the overall share.
    """
    positive = float(good.sum())
    negative = float(good.size - positive)
    targets = good * (positive + 1) / (positive + 2) + (1 - good) / (negative + 2)
    fitted = fit_logistic(scores[:, None], targets, WEAKEST_PRIOR, basis=np.eye(1))
    slope = float(fitted.weights[0])
    if slope > 0:
        return PlattScale(slope=slope, offset=fitted.intercept)
    share = float(targets.mean())
    return PlattScale(slope=0.0, offset=float(np.log(share / (1 - share))))


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """How well predicted probabilities match the observed shares."""

    error: float
    """Expected calibration error: |mean probability - share of good ones|, averaged over bins of
    equal size (Naeini et al., 2015)."""
    by_chance: float
    """The error that perfectly calibrated probabilities would show with as many rows."""
    brier: float
    """Brier score: mean squared error of the probabilities."""
    bins: tuple[tuple[float, float, int], ...]
    """For each bin: mean probability, share of good ones, rows."""


def measure_calibration(probabilities: Array, good: Array, seed: int = 0) -> Calibration:
    """Compare probabilities with outcomes (1 good, 0 bad), (n,) each.

    >>> found = measure_calibration(np.full(10, 0.5), np.arange(10.0) % 2)
    >>> found.error, found.brier
    (0.0, 0.25)
    """
    draw = np.random.default_rng(seed)
    imagined = (draw.random((CHANCE_DRAWS, good.size)) < probabilities).astype(np.float64)
    by_chance = [_error(_bins(probabilities, one), good.size) for one in imagined]
    bins = _bins(probabilities, good)
    return Calibration(
        error=_error(bins, good.size),
        by_chance=float(np.mean(by_chance)),
        brier=float(((probabilities - good) ** 2).mean()),
        bins=bins,
    )


def _bins(probabilities: Array, good: Array) -> tuple[tuple[float, float, int], ...]:
    """Rows sorted by probability and cut into bins; ties stay in one bin."""
    count = max(1, min(BINS, good.size // ROWS_PER_BIN))
    order = np.argsort(probabilities, kind="stable")
    level, cuts = probabilities[order], [0]
    for edge in range(1, count):
        at = int(np.searchsorted(level, level[edge * good.size // count]))
        if at > cuts[-1]:
            cuts.append(at)
    parts = [order[a:b] for a, b in zip(cuts, [*cuts[1:], good.size], strict=True)]
    return tuple(
        (float(probabilities[part].mean()), float(good[part].mean()), len(part)) for part in parts
    )


def _error(bins: tuple[tuple[float, float, int], ...], rows: int) -> float:
    return sum(size * abs(mean - share) for mean, share, size in bins) / rows


STRENGTHS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
"""Penalties that cross-validation tries."""

FOLDS = 5

Folds = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class CrossValidated:
    """Out-of-fold predictions: every row scored by a model that was not fitted to it."""

    strength: float
    """The penalty with the lowest out-of-fold log loss."""
    scores: Array  # (n,) moderated, out of fold
    probabilities: Array  # (n,) calibrated on the other folds


def make_folds(good: Array, groups: Sequence[str], seed: int, count: int = FOLDS) -> Folds:
    """The fold of each row, (n,): stratified, and rows of a group stay together.

    Attempts at one task resemble each other; in different folds they would leak. Where too few
    groups have good or bad rows, each row is a group.
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
    # Greedy: the largest groups first, each to the fold where it unbalances the classes least.
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
    """Choose the penalty by out-of-fold log loss; of equals the strongest.

    Args:
        rows: (n, d), two good ones and two bad ones at least.
        targets: (n,), each between 0 and 1.
        groups: The group of each row.
        seed: Of the folds.
        strengths: Penalties to try.
        basis: `span(rows)`, where known already.
    """
    good = (targets >= 0.5).astype(np.float64)
    fewest = int(min(good.sum(), good.size - good.sum()))
    folds = make_folds(good, groups, seed, max(2, min(FOLDS, fewest)))
    inside = rows @ (span(rows) if basis is None else basis)
    tried = {s: _out_of_fold_scores(inside, targets, folds, s) for s in strengths}
    best = min(sorted(tried, reverse=True), key=lambda s: log_loss(tried[s], targets))
    return CrossValidated(
        strength=best,
        scores=tried[best],
        probabilities=_out_of_fold_probabilities(tried[best], good, folds),
    )


def _out_of_fold_scores(rows: Array, targets: Array, folds: Folds, strength: float) -> Array:
    scores = np.zeros(len(rows))
    whole = np.eye(rows.shape[1])
    for fold in np.unique(folds):
        out = folds == fold
        model = fit_logistic(rows[~out], targets[~out], strength, whole)
        scores[out] = model.moderated(rows[out])
    return scores


def _out_of_fold_probabilities(scores: Array, good: Array, folds: Folds) -> Array:
    probabilities = np.zeros(good.size)
    for fold in np.unique(folds):
        out = folds == fold
        probabilities[out] = fit_platt(scores[~out], good[~out]).probabilities(scores[out])
    return probabilities
