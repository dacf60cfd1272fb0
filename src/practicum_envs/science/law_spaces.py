"""What may be true at each level: all laws, how likely each is, and what each predicts."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import combinations, product

import numpy as np
import numpy.typing as npt

from practicum_envs.science.laws import FACTORS, HIGHEST, SETTINGS, Effect, Law, change

Reals = npt.NDArray[np.float64]
Whole = npt.NDArray[np.int64]

NONE_IS_TRUE = 0.1
"""How likely it is that nothing has an effect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelRules:
    """What a level's worlds are like; all of it is told in the prompt."""

    lines: tuple[int, ...]
    """Sizes of effects in a straight line, for each step, of either sign."""
    thresholds: tuple[int, ...] = ()
    """Sizes of effects from a threshold on."""
    products: tuple[int, ...] = ()
    """Sizes of effects of two factors together."""
    most_single: int = 1
    """Factors that act by themselves, at most."""
    scatters: tuple[int, ...] = (1,)
    """Standard deviations of a reading."""
    bases: range = range(30, 61)
    """Readings with all factors at 0."""
    experiments: int = 4
    """How many may be done."""
    has_records: bool = False
    """Whether there are readings that others took where something else moved them too."""


STEPS, JUMPS = (2, 4, 6), (8, 16, 24)

LEVELS: Mapping[int, LevelRules] = {
    1: LevelRules(lines=(1, 2, 3, 4, 5)),
    2: LevelRules(
        lines=STEPS, thresholds=JUMPS, scatters=(1, 2, 3), bases=range(40, 81), experiments=5
    ),
    3: LevelRules(
        lines=STEPS,
        thresholds=JUMPS,
        scatters=(1, 2, 3),
        bases=range(60, 91),
        experiments=5,
        has_records=True,
    ),
    4: LevelRules(
        lines=STEPS,
        thresholds=JUMPS,
        most_single=2,
        scatters=(1, 2, 3),
        bases=range(70, 111),
        experiments=9,
    ),
    5: LevelRules(
        lines=STEPS,
        thresholds=JUMPS,
        products=(1, 2),
        scatters=(1, 2, 3),
        bases=range(70, 111),
        experiments=9,
    ),
}
"""1: one factor, in a straight line. 2: or from a threshold on. 3: with misleading records. 4: two
factors. 5: two that act together."""

SHIFTS = (-16, -8, 0, 8, 16)
"""By how much all records of a world may be moved; each as likely."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LawSpace:
    """The H laws that may be true."""

    laws: tuple[Law, ...]
    prior: Reals  # (H,)
    changes: Whole  # (H, S): what each predicts at each setting, as a change from the start
    place: Mapping[Law, int]
    """Where a law stands."""


@cache
def law_space(level: int) -> LawSpace:
    """The laws of a level.

    Nothing has an effect with probability 0.1. The rest is shared evenly by the shapes that a law
    can have (a line, a line and a threshold, ...), and within a shape by its laws.

    >>> len(law_space(1).laws), len(law_space(2).laws)
    (31, 73)
    """
    laws = tuple(_laws(LEVELS[level]))
    shapes = [tuple(sorted(effect.kind for effect in law)) for law in laws]
    others = len(set(shapes)) - 1
    share = dict.fromkeys(shapes, (1 - NONE_IS_TRUE) / others) | {(): NONE_IS_TRUE}
    prior = np.array([share[shape] / shapes.count(shape) for shape in shapes])
    changes = np.array([[change(law, setting) for setting in SETTINGS] for law in laws])
    return LawSpace(
        laws=laws,
        prior=prior,
        changes=changes,
        place={law: at for at, law in enumerate(laws)},
    )


def _laws(rules: LevelRules) -> Iterator[Law]:
    yield ()
    single = [tuple(_effects_of(factor, rules)) for factor in range(FACTORS)]
    mains: list[Law] = []
    for several in range(1, rules.most_single + 1):
        for chosen in combinations(single, several):
            mains += product(*chosen)
    yield from mains
    for pair in combinations(range(FACTORS), 2):
        for amount in _signed(rules.products):
            together = Effect(factors=pair, amount=amount)
            yield (together,)
            yield from ((*main, together) for main in mains)


def _effects_of(factor: int, rules: LevelRules) -> Iterator[Effect]:
    for amount in _signed(rules.lines):
        yield Effect(factors=(factor,), amount=amount)
    for above in range(1, HIGHEST):
        for amount in _signed(rules.thresholds):
            yield Effect(factors=(factor,), amount=amount, above=above)


def _signed(sizes: tuple[int, ...]) -> list[int]:
    return [*sizes, *(-size for size in sizes)]
