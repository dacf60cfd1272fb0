"""Worlds with a hidden law: how they are drawn, what is told of them, and what is measured in them.

Whatever chance decides in a world follows from its seed: the n-th reading of a setting is the same
in every episode, whatever else was measured before.
"""

import hashlib
import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from practicum.core.task import JSON, Split
from practicum_envs.science.law_spaces import LEVELS, SHIFTS, LevelRules, law_space
from practicum_envs.science.law_syntax import syntax_of
from practicum_envs.science.laws import FACTORS, HIGHEST, Law, Setting, change, law_text
from practicum_envs.science.posterior import Posterior, Reading, draw_noise
from practicum_envs.science.subjects import SUBJECTS, Subject

HELD_OUT_ONE_IN = 5
"""One world in this many, of the families that are trained on, is held out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Brief:
    """All that a policy is told of a world."""

    level: int
    family: str
    factors: tuple[str, ...]
    base: int
    """The reading with all factors at 0."""
    scatter: int
    """The standard deviation of a reading."""
    records: tuple[Reading, ...] = ()

    @property
    def rules(self) -> LevelRules:
        """What may be true, and how many experiments there are."""
        return LEVELS[self.level]

    @property
    def subject(self) -> Subject:
        """What is studied."""
        return SUBJECTS[self.family]

    def beliefs(self, readings: tuple[Reading, ...] = ()) -> Posterior:
        """What these readings say, on top of the records."""
        found = Posterior.before(self.level, self.scatter, self.base)
        if self.records:
            found = found.after_records(self.records)
        for one in readings:
            found = found.after(one)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """A brief, and what is hidden."""

    brief: Brief
    law: Law
    seed: str

    def measure(self, setting: Setting, repeat: int) -> Reading:
        """The reading of a setting that was measured so often before."""
        rng = random.Random(f"{self.seed} {setting} {repeat}")
        value = self.brief.base + change(self.law, setting)
        return Reading(setting=setting, value=value + draw_noise(self.brief.scatter, rng))

    @property
    def split(self) -> Split:
        """Held out with its family, or by a hash of what it is; noise does not count."""
        brief = self.brief
        if brief.subject.split == "heldout":
            return "heldout"
        parts = sorted(law_text((effect,), brief.factors) for effect in self.law)
        content = f"{brief.family} {sorted(brief.factors)} {brief.base} {parts}"
        digest = hashlib.sha256(content.encode()).digest()
        return "heldout" if int.from_bytes(digest[:8], "big") % HELD_OUT_ONE_IN == 0 else "train"

    def to_data(self) -> dict[str, JSON]:
        """As JSON."""
        brief = self.brief
        return {
            "family": brief.family,
            "factors": list(brief.factors),
            "base": brief.base,
            "scatter": brief.scatter,
            "records": [[list(one.setting), one.value] for one in brief.records],
            "law": law_text(self.law, brief.factors),
            "seed": self.seed,
        }


def world_from(level: int, data: Mapping[str, Any]) -> World:
    """The world of a task's data."""
    factors = tuple(data["factors"])
    law = syntax_of(level, factors).read_law(data["law"])
    if law is None:
        raise ValueError(f"{data['law']!r} is no law of level {level}")
    records = tuple(
        Reading(setting=tuple(setting), value=value) for setting, value in data["records"]
    )
    brief = Brief(
        level=level,
        family=data["family"],
        factors=factors,
        base=data["base"],
        scatter=data["scatter"],
        records=records,
    )
    return World(brief=brief, law=law, seed=data["seed"])


def draw_world(level: int, family: str, seed: str) -> World:
    """A world of a family, its law drawn as the level says."""
    rng = random.Random(f"science {level} {family} {seed}")
    rules, space = LEVELS[level], law_space(level)
    law = rng.choices(space.laws, [float(p) for p in space.prior])[0]
    base, scatter = rng.choice(rules.bases), rng.choice(rules.scatters)
    brief = Brief(
        level=level,
        family=family,
        factors=tuple(rng.sample(SUBJECTS[family].factors, FACTORS)),
        base=base,
        scatter=scatter,
        records=_records(law, base, scatter, rng) if rules.has_records else (),
    )
    return World(brief=brief, law=law, seed=seed)


def _records(law: Law, base: int, scatter: int, rng: random.Random) -> tuple[Reading, ...]:
    """Readings with one factor raised, taken where something else moved them too."""
    raised, shift = rng.randrange(FACTORS), rng.choice(SHIFTS)
    rows = []
    for value in (HIGHEST - 1, HIGHEST):
        setting = tuple(value if factor == raised else 0 for factor in range(FACTORS))
        found = base + change(law, setting) + shift + draw_noise(scatter, rng)
        rows.append(Reading(setting=setting, value=found))
    return tuple(rows)
