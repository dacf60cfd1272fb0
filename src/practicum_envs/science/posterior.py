"""How likely each law is, given what a session has seen: exact, by Bayes' rule.

A reading is the law's whole number plus noise, a normal distribution rounded to whole numbers and
cut off at four standard deviations. Records were taken elsewhere, which may have moved all of them
by one of `SHIFTS`: nobody knows which, so it is summed over.
"""

import random
from dataclasses import dataclass, replace
from functools import cache, cached_property
from math import erf, sqrt

import numpy as np

from practicum_envs.science.law_spaces import SHIFTS, LawSpace, Reals, law_space
from practicum_envs.science.laws import NUMBER_OF, Law, Setting

CUT_OFF = 4
"""Standard deviations beyond which there is no noise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What was measured at a setting."""

    setting: Setting
    value: int


@cache
def noise(scatter: int) -> Reals:
    """Probabilities of the errors from `-4 * scatter` to `4 * scatter`.

    >>> float(noise(1).sum()).__round__(9), int(noise(1).argmax())
    (1.0, 4)
    """
    edges = np.arange(-CUT_OFF * scatter, CUT_OFF * scatter + 2) - 0.5
    below = np.array([0.5 * (1 + erf(edge / scatter / sqrt(2))) for edge in edges])
    mass = np.diff(below)
    return np.asarray(mass / mass.sum())


def draw_noise(scatter: int, rng: random.Random) -> int:
    """One error."""
    errors = range(-CUT_OFF * scatter, CUT_OFF * scatter + 1)
    return rng.choices(errors, [float(p) for p in noise(scatter)])[0]


@dataclass(frozen=True, kw_only=True)
class Posterior:
    """How likely each law of a space is."""

    space: LawSpace
    scatter: int
    base: int
    logs: Reals  # (H,) up to a constant

    @classmethod
    def before(cls, level: int, scatter: int, base: int) -> "Posterior":
        """Before any reading."""
        space = law_space(level)
        return cls(space=space, scatter=scatter, base=base, logs=np.log(space.prior))

    def after(self, reading: Reading) -> "Posterior":
        """With one more reading of an experiment."""
        return replace(self, logs=self.logs + self._log_likelihood(reading, 0))

    def after_records(self, records: tuple[Reading, ...]) -> "Posterior":
        """With the records, by whatever they were moved."""
        none = np.zeros_like(self.logs)
        by_shift = [
            sum((self._log_likelihood(one, shift) for one in records), start=none)
            for shift in SHIFTS
        ]
        return replace(self, logs=self.logs + np.logaddexp.reduce(by_shift, axis=0))

    def _log_likelihood(self, reading: Reading, shift: int) -> Reals:
        predicted = self.base + shift + self.space.changes[:, NUMBER_OF[reading.setting]]
        table = noise(self.scatter)
        at = reading.value - predicted + len(table) // 2
        possible = (at >= 0) & (at < len(table))
        found = np.full(len(at), -np.inf)
        found[possible] = np.log(table[at[possible]])
        return found

    @cached_property
    def probabilities(self) -> Reals:
        """Of each law, (H,)."""
        mass = np.exp(self.logs - self.logs.max())
        return np.asarray(mass / mass.sum())

    def of(self, law: Law) -> float:
        """Of one law; 0 where it is not of the space."""
        at = self.space.place.get(law)
        return 0.0 if at is None else float(self.probabilities[at])

    @property
    def best(self) -> Law:
        """The likeliest law, the first of several."""
        return self.space.laws[int(np.round(self.probabilities, 9).argmax())]

    @cached_property
    def entropy(self) -> float:
        """In nats."""
        return entropy_of(self.probabilities)

    def expected_gain(self, setting: Setting) -> float:
        """By how much one more reading at a setting lowers the entropy on average, in nats.

        The reading's own entropy, less that of the noise: their mutual information with the law.
        """
        predicted = self.space.changes[:, NUMBER_OF[setting]]
        mass = np.bincount(predicted - predicted.min(), weights=self.probabilities)
        readings = np.convolve(mass, noise(self.scatter))
        return entropy_of(readings) - entropy_of(noise(self.scatter))


def entropy_of(probabilities: Reals) -> float:
    """In nats.

    >>> round(entropy_of(np.array([0.5, 0.5])), 4)
    0.6931
    """
    some = probabilities[probabilities > 0]
    return max(0.0, float(-(some * np.log(some)).sum()))
