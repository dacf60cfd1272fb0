r"""Logistic regression with a Gaussian prior, and how sure it is.

Minimised over weights w and an intercept b that carries no penalty, for targets y in [0, 1]:

    sum_i [ log(1 + exp(s_i)) - y_i s_i ] + strength / 2 |w|^2,    s_i = w x_i + b

by Newton's method. With fewer rows than columns the weights lie in the span of the rows, so the
problem is solved there, exactly, with as many unknowns as rows.

How sure: Laplace's approximation takes the inverse of the curvature at the minimum for the
covariance of (w, b); directions that no row reaches keep the prior's variance, 1 / strength. The
score of a row is then normal with mean s and variance v, and the mean of its sigmoid is about
sigmoid(s / sqrt(1 + pi v / 8)) (MacKay, 1992, "The evidence framework applied to classification
networks"), so a row unlike any that was labelled is never called certain.
"""

from dataclasses import dataclass

import numpy as np

from practicum.rewards.learned.space import Array

__all__ = ["LogisticModel", "fit_logistic", "log_loss", "sigmoid", "span"]

STEPS = 100
TOLERANCE = 1e-10
"""Largest entry of the gradient at which the minimum is reached, for each row of data."""
RIDGE = 1e-9
"""Added to the curvature, so that a flat direction can be solved for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogisticModel:
    """Weights, and what is needed to say how sure they are."""

    weights: Array  # (d,)
    intercept: float
    strength: float
    basis: Array  # (d, r) orthonormal: the directions the data reach
    covariance: Array  # (r + 1, r + 1) of the weights along the basis, and of the intercept

    def scores(self, rows: Array) -> Array:
        """The linear scores s."""
        found: Array = rows @ self.weights + self.intercept
        return found

    def variances(self, rows: Array) -> Array:
        """The variance of each score."""
        inside = rows @ self.basis
        beyond = np.maximum(0.0, (rows**2).sum(axis=1) - (inside**2).sum(axis=1))
        along = np.hstack([inside, np.ones((len(rows), 1))])
        known = ((along @ self.covariance) * along).sum(axis=1)
        found: Array = np.maximum(0.0, known) + beyond / self.strength
        return found

    def moderated(self, rows: Array) -> Array:
        """Scores drawn towards 0 by as much as they are unsure."""
        return self.scores(rows) / np.sqrt(1 + np.pi * self.variances(rows) / 8)


def fit_logistic(
    rows: Array, targets: Array, strength: float, basis: Array | None = None
) -> LogisticModel:
    """The minimum of the objective above.

    Args:
        rows: (n, d).
        targets: (n,), each between 0 and 1.
        strength: Of the prior, above 0.
        basis: Orthonormal columns that span the rows, where they are known already.
    """
    basis = span(rows) if basis is None else basis
    inside = np.hstack([rows @ basis, np.ones((len(rows), 1))])
    penalty = np.full(inside.shape[1], strength)
    penalty[-1] = 0.0
    found = _newton(inside, targets, penalty)
    slopes = _slopes(inside @ found)
    curvature = (inside * slopes[:, None]).T @ inside + np.diag(penalty + RIDGE)
    return LogisticModel(
        weights=basis @ found[:-1],
        intercept=float(found[-1]),
        strength=strength,
        basis=basis,
        covariance=np.asarray(np.linalg.inv(curvature), dtype=np.float64),
    )


def span(rows: Array) -> Array:
    """Orthonormal columns that span the rows; a few more where some rows depend on others."""
    basis, _ = np.linalg.qr(rows.T)
    return np.ascontiguousarray(basis, dtype=np.float64)


def _newton(rows: Array, targets: Array, penalty: Array) -> Array:
    """Newton's method; a step that does not lower the objective is halved until it does."""

    def objective(weights: Array) -> float:
        return log_loss(rows @ weights, targets) + 0.5 * float(penalty @ weights**2)

    weights = np.zeros(rows.shape[1])
    value = objective(weights)
    for _ in range(STEPS):
        scores = rows @ weights
        gradient = rows.T @ (sigmoid(scores) - targets) + penalty * weights
        if float(np.abs(gradient).max()) <= TOLERANCE * len(rows):
            break
        slopes = _slopes(scores)
        curvature = (rows * slopes[:, None]).T @ rows + np.diag(penalty + RIDGE)
        step = np.linalg.solve(curvature, gradient)
        size = 1.0
        while (tried := objective(weights - size * step)) > value and size > 1e-6:
            size /= 2
        weights, value = weights - size * step, tried
    return weights


def _slopes(scores: Array) -> Array:
    share = sigmoid(scores)
    return share * (1 - share)


def sigmoid(scores: Array) -> Array:
    """1 / (1 + exp(-s)), without overflow."""
    return np.exp(-np.logaddexp(0.0, -scores))


def log_loss(scores: Array, targets: Array) -> float:
    """The sum over rows of minus the log-likelihood."""
    return float(np.logaddexp(0.0, scores).sum() - targets @ scores)
