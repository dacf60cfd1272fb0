"""What an episode is paid for: 10 points in all.

* 0.5 for a hypothesis before the first experiment.
* 2 for experiments, by how much they told: the fall of the posterior's entropy, the lowest so far.
* 0.5 for analysing, by how much the experiments had told by then.
* 2 for the conclusion's predictions at every setting that was not tried, by how much nearer they
  are to the truth than "no effect". All of it is weighed with what the experiments told, so a lucky
  guess earns nothing.
* 5 for a conclusion that follows from the session's own data and is as sure as they allow.

The last is decided by the posterior probability `p` of the stated law, which is computed from the
session's data without a look at the hidden law. A certainty `q` is scored by the Brier score that
it can expect, which is best for `q = p`: `p (1 - q)^2 + (1 - p) q^2 = (q - p)^2 + p (1 - p)`.
"""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from practicum_envs.science.law_spaces import law_space
from practicum_envs.science.laws import NUMBER_OF, SETTINGS, START, Law, Setting

HYPOTHESIS_PAY = 0.5
EXPERIMENTS_PAY = 2.0
ANALYSIS_PAY = 0.5
PREDICTION_PAY = 2.0
CONCLUSION_PAY = 5.0
FULL_MARKS = HYPOTHESIS_PAY + EXPERIMENTS_PAY + ANALYSIS_PAY + PREDICTION_PAY + CONCLUSION_PAY
USELESS = -0.2
"""Pay of a turn that cannot be read, or that can tell nothing new whatever comes."""

CERTAINTIES = (1, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 95, 99)
"""How sure a conclusion can be, in percent."""

ENOUGH_TOLD = 0.8
"""The share of the entropy that experiments have to take away for full pay."""
WELL_SUPPORTED = 0.75
"""The posterior probability from which on a law follows from the data without reserve."""
STEEPNESS = 4.0
"""With it, 50 % on what is certain earns nothing."""
MOST_AMISS = 0.15
"""By how much a certainty may miss the posterior probability in an episode that succeeds."""


def share_told(at_start: float, lowest: float) -> float:
    """How much of what was open the experiments have told, from 0 to 1.

    >>> share_told(3.0, 3.0), share_told(3.0, 0.1)
    (0.0, 1.0)
    """
    return min(1.0, max(0.0, (at_start - lowest) / (ENOUGH_TOLD * at_start)))


def expected_brier(certainty: float, probability: float) -> float:
    """The Brier score to expect of a statement that is true with this probability; low is good."""
    return probability * (1 - certainty) ** 2 + (1 - probability) * certainty**2


def best_certainty(probability: float) -> int:
    """The certainty, in percent, that expects the best score.

    >>> best_certainty(0.88), best_certainty(1.0)
    (90, 99)
    """
    return min(CERTAINTIES, key=lambda percent: expected_brier(percent / 100, probability))


def conclusion_share(probability: float, percent: int) -> float:
    """The share of `CONCLUSION_PAY` for a law of this posterior probability, so sure.

    It falls with the Brier score to expect, and is 0 at worst: if a wrong certainty cost something,
    a policy that has not learned any yet would earn more with laws that the data refute.

    >>> conclusion_share(1.0, 99), round(conclusion_share(1.0, 50), 3)
    (1.0, 0.0)
    """
    best = expected_brier(best_certainty(probability) / 100, probability)
    excess = expected_brier(percent / 100, probability) - best
    return min(1.0, probability / WELL_SUPPORTED) * max(0.0, 1 - STEEPNESS * excess)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a conclusion is worth, and why."""

    probability: float
    """Of the stated law, given the session's data."""
    percent: int
    told: float
    """What the experiments told, from 0 to 1."""
    skill: float
    """Of the predictions, from 0 to 1."""
    is_true: bool
    """Whether the stated law is the hidden one."""

    @property
    def pay(self) -> float:
        """Of the turn that concludes."""
        conclusion = CONCLUSION_PAY * conclusion_share(self.probability, self.percent)
        return conclusion + PREDICTION_PAY * self.skill * self.told

    @property
    def follows(self) -> bool:
        """Whether the data carry the law."""
        return self.probability >= WELL_SUPPORTED

    @property
    def is_calibrated(self) -> bool:
        """Whether it is about as sure as the data allow."""
        return abs(self.percent / 100 - self.probability) <= MOST_AMISS

    @property
    def succeeds(self) -> bool:
        """Whether nothing is amiss."""
        return self.follows and self.is_calibrated and self.told == 1.0 and self.skill == 1.0

    @property
    def brier(self) -> float:
        """The Brier score of the certainty by the hidden law."""
        return float((self.percent / 100 - self.is_true) ** 2)


def prediction_skill(level: int, stated: Law, hidden: Law, tried: Collection[Setting]) -> float:
    """How much nearer a law's predictions are than "no effect" where nothing was tried.

    1 where all are right, 0 where they are no better than without a law.
    """
    space = law_space(level)
    asked = [NUMBER_OF[one] for one in SETTINGS if one not in tried and one != START]
    truth = space.changes[space.place[hidden], asked]
    missed = np.abs(space.changes[space.place[stated], asked] - truth).sum()
    if not missed:
        return 1.0
    to_explain = np.abs(truth).sum()
    return max(0.0, 1.0 - float(missed / to_explain)) if to_explain else 0.0
