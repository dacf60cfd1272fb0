"""What each part of the work on a case is worth: shares from 0 to 1, exact, and what they pay.

Every share is worked out from the case itself, never from what a policy says of its own work.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction

from practicum_envs.business.business_case import Case, Option
from practicum_envs.business.figure_syntax import Stated

LOOK_PAY = 0.5
"""For a look that the answer needs, its cost taken off."""
WASTE = -0.5
"""For a turn that does nothing; a look that the answer does not need costs this, the second such
look twice and every further one three times as much."""
MOST_WASTE = 3
OPTIONS_PAY = 2.0
RISKS_PAY = 1.0
DECISION_PAY = 3.0
PLAN_PAY = 3.0


def full_marks(case: Case) -> float:
    """What the work is worth when all of it is right and nothing is wasted."""
    return LOOK_PAY * len(case.needed) + OPTIONS_PAY + RISKS_PAY + DECISION_PAY + PLAN_PAY


def look_pay(case: Case, item: str, seen: frozenset[str], wasted: int) -> float:
    """What looking at an item pays, after `wasted` looks that were not needed."""
    if item in case.needed and item not in seen:
        return LOOK_PAY
    return WASTE * min(wasted + 1, MOST_WASTE)


def options_share(case: Case, stated: Stated) -> Fraction:
    """Half for each feasible option that is named, half for its figures; a false one takes away."""
    return _share({one.letter: tuple(one.figures.values()) for one in case.feasible}, stated)


def risks_share(case: Case, stated: Stated) -> Fraction:
    """Likewise for the risks that are worth covering; 1 for naming none where there is none."""
    losses = {risk.name: (risk.expected_loss,) for risk in case.worth_covering}
    return _share(losses, stated) if losses else Fraction(not stated)


def _share(true: Mapping[str, Sequence[Fraction]], stated: Stated) -> Fraction:
    share = Fraction(0)
    for name, numbers in stated.items():
        if name not in true:
            share -= 1
            continue
        right = sum(a == b for a, b in zip(true[name], numbers, strict=True))
        share += Fraction(len(numbers) + right, 2 * len(numbers))
    return max(Fraction(0), share / len(true))


def decision_share(case: Case, option: Option) -> Fraction:
    """1 for the best option, falling with the regret to 0 at half of the worst one's regret."""
    if not option.fits:
        return Fraction(0)
    worst = max(case.regret(one) for one in case.feasible)
    return max(Fraction(0), 1 - 2 * case.regret(option) / worst)


def plan_share(case: Case, option: Option, stated: Stated) -> Fraction:
    """The share of right figures in the plan for an option; none where it breaks the limit."""
    figures = case.plan(option)
    right = sum(n in stated and stated[n][0] == number for n, number in figures.items())
    return Fraction(right, len(figures)) if option.fits else Fraction(0)


def plan_worth(case: Case, option: Option, stated: Stated) -> Fraction:
    """What a plan is paid for: its right figures, and half as much where what it plans is poor."""
    return plan_share(case, option, stated) * (1 + decision_share(case, option)) / 2
