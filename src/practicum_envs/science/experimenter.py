"""The reference: an honest experimenter, who knows the brief and the session's readings, no more.

It states the likeliest law, then does the simplest experiment that tells nearly as much as any,
until the data decide or the experiments are used up; it looks at the data, and concludes with the
law they make likeliest, as sure as they make it.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from practicum_envs.science.conclusion_scoring import best_certainty
from practicum_envs.science.laboratory import ANALYZE, CONCLUDE, DESIGN, FORMULATE, Laboratory
from practicum_envs.science.laws import FACTORS, HIGHEST, Setting, law_text, setting_text
from practicum_envs.science.posterior import Posterior, Reading
from practicum_envs.science.worlds import Brief, World

DECIDED = 0.97
"""The posterior probability at which it stops."""
NEARLY = 0.85
"""Of the most that an experiment is expected to tell."""


def formulate(brief: Brief) -> str:
    """The first turn."""
    return f"{FORMULATE} {law_text(brief.beliefs().best, brief.factors)}"


def design(brief: Brief, readings: tuple[Reading, ...]) -> str | None:
    """The next experiment; None where there is enough data, or no experiment left."""
    beliefs = brief.beliefs(readings)
    if len(readings) == brief.rules.experiments or beliefs.probabilities.max() >= DECIDED:
        return None
    setting = most_telling(beliefs, together=bool(brief.rules.products))
    return f"{DESIGN} {setting_text(setting, brief.factors)}"


def conclude(brief: Brief, readings: tuple[Reading, ...]) -> str:
    """The last turn."""
    beliefs = brief.beliefs(readings)
    law = beliefs.best
    sure = best_certainty(beliefs.of(law))
    return f"{CONCLUDE} {law_text(law, brief.factors)} sure {sure}"


class Work(NamedTuple):
    """What it has done before it concludes."""

    turns: tuple[str, ...]
    readings: tuple[Reading, ...]


@lru_cache(maxsize=1024)
def work(world: World) -> Work:
    """Its turns in a world up to the conclusion; it is given what the session says, no more."""
    laboratory = Laboratory(world)
    turns = [formulate(world.brief)]
    while turns[-1] != ANALYZE:
        laboratory.act(turns[-1])
        turns.append(design(world.brief, laboratory.readings) or ANALYZE)
    return Work(tuple(turns), laboratory.readings)


def reference_turns(world: World) -> tuple[str, ...]:
    """All its turns in a world."""
    done = work(world)
    return (*done.turns, conclude(world.brief, done.readings))


def most_telling(beliefs: Posterior, *, together: bool) -> Setting:
    """The first setting that tells nearly as much as any other that is tried.

    One factor at a time, the highest value first, then two at once where factors may act together.
    """
    settings = list(_settings(together=together))
    gains = [beliefs.expected_gain(one) for one in settings]
    return next(s for s, gain in zip(settings, gains, strict=True) if gain >= NEARLY * max(gains))


def _settings(*, together: bool) -> Iterator[Setting]:
    for value in (HIGHEST, 2, 3, 1):
        for factor in range(FACTORS):
            yield tuple(value if one == factor else 0 for one in range(FACTORS))
    if together:
        for value in (HIGHEST, 2):
            for left_out in range(FACTORS - 1, -1, -1):
                yield tuple(0 if one == left_out else value for one in range(FACTORS))
