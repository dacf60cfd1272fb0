"""Scores that mean what they say: of traces called good with 0.8, eight in ten are."""

from dataclasses import dataclass

import numpy as np

from practicum.rewards.learned.logistic import fit_logistic, sigmoid
from practicum.rewards.learned.space import Array

__all__ = ["Calibration", "PlattScale", "fit_platt", "measure_calibration"]

BINS = 10
ROWS_PER_BIN = 5
"""Fewest rows of a bin: the share of good ones among fewer says nothing."""
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

    Its targets are not 1 and 0 but (n+ + 1) / (n+ + 2) and 1 / (n- + 2), so that a few scores that
    happen to be told apart are not called certain. Scores that rank worse than chance say nothing:
    the slope is then 0, and each row gets the overall share.
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
    """How far probabilities are from what came true."""

    error: float
    """Expected calibration error: the distance between the mean probability and the share of good
    ones, averaged over bins with as many rows each (Naeini et al., 2015)."""
    by_chance: float
    """The error that probabilities which are right would show with as many rows."""
    brier: float
    """Mean squared distance between probability and truth."""
    bins: tuple[tuple[float, float, int], ...]
    """For each bin: mean probability, share of good ones, rows."""


def measure_calibration(probabilities: Array, good: Array, seed: int = 0) -> Calibration:
    """Compare probabilities with what came true.

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
    """Rows sorted by probability and cut into bins; equal probabilities are never torn apart."""
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
