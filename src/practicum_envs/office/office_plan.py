"""`OfficePlan`: one task of the office, from its company to its checkpoints.

A family is a function that makes plans from a `Setting`:

    @family(level=1, domain="admin", services=("rocketchat",), split="train")
    def announce_a_party(setting: Setting) -> OfficePlan:
        ...

This is the family `announce-a-party`. The same setting gives the same plan, so that a `Task` holds
no more than the family and a seed.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from practicum.core.task import Split
from practicum_envs.office.allowed_changes import Allowed
from practicum_envs.office.background import background
from practicum_envs.office.checkpoint_scoring import Strategy
from practicum_envs.office.company_seed import CompanySeed, Person
from practicum_envs.office.evidence import Evidence
from practicum_envs.office.generated_company import generate_company

ServiceName = Literal["rocketchat", "gitlab", "plane", "owncloud"]
WITH_BACKGROUND = 3
"""The level from which on companies have more than the task is about."""
WORKSPACE = "/workspace"
"""The agent's folder, in which its commands start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """Something that must be so at the end, and what it is worth."""

    says: str
    """In words, as in `checkpoints.md`."""
    passes: Callable[[Evidence], bool | int]
    """Whether it is so, or how many of its points are earned."""
    points: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class OfficePlan:
    """One task: the company it begins with, what is asked, how it is solved and checked."""

    instruction: str
    company: CompanySeed
    checkpoints: tuple[Checkpoint, ...]
    reference: tuple[str, ...]
    """Bash scripts, one a turn, that earn full marks; they may use the command `office`."""
    near_misses: tuple[tuple[str, ...], ...]
    """Solutions that are wrong in one thing; none may earn full marks."""
    allows: tuple[Allowed, ...] = ()
    """What may change in the company; whatever else does is damage."""
    files: Mapping[str, str | bytes] = field(default_factory=dict)
    """Files of the agent's machine, by path; relative ones are in the workspace."""
    strategy: Strategy = "sum"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Where a plan is made: chance, and a company with people and channels to add to."""

    rng: random.Random
    base: CompanySeed
    split: Split
    words: random.Random
    """Chance for how the task is told, apart from what it is."""

    def told(self, wordings: Sequence[str], **facts: object) -> str:
        """A task in one of its wordings."""
        return self.words.choice(wordings).format(**facts)

    def people(self, count: int) -> list[Person]:
        """Different people of the company."""
        return self.rng.sample(self.base.people, count)

    def person(self) -> Person:
        """One of the people."""
        return self.rng.choice(self.base.people)

    def with_role(self, role: str) -> Person:
        """The first person with a job."""
        return next(one for one in self.base.people if one.role == role)

    def date(self, year: int = 2026) -> str:
        """A day of a year, such as `2026-03-19`."""
        return f"{year}-{self.rng.randrange(1, 13):02d}-{self.rng.randrange(1, 29):02d}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """A kind of task."""

    name: str
    level: int
    domain: str
    services: tuple[ServiceName, ...]
    split: Split
    make: Callable[[Setting], OfficePlan]

    def plan(self, seed: str, split: Split) -> OfficePlan:
        """The plan of a seed; names of people and things differ between the splits."""
        rng = random.Random(f"{self.name} {split} {seed}")
        words = random.Random(f"words of {self.name} {split} {seed}")
        base = generate_company(rng, split)
        plan = self.make(Setting(rng=rng, base=base, split=split, words=words))
        if self.level < WITH_BACKGROUND:
            return plan
        more = random.Random(f"background of {self.name} {split} {seed}")
        return replace(plan, company=background(more, plan.company, self.services))


FAMILIES: dict[str, Family] = {}
"""Every family by name; `families.all_families` imports the modules that fill it."""


def family(
    name: str = "",
    *,
    level: int,
    domain: str,
    services: tuple[ServiceName, ...],
    split: Split,
) -> Callable[[Callable[[Setting], OfficePlan]], Callable[[Setting], OfficePlan]]:
    """Register a function as a family; its name is the function's, with hyphens, unless given."""

    def register(make: Callable[[Setting], OfficePlan]) -> Callable[[Setting], OfficePlan]:
        known = name or make.__name__.replace("_", "-")
        if known in FAMILIES:
            raise ValueError(f"there are two families {known!r}")
        FAMILIES[known] = Family(
            name=known, level=level, domain=domain, services=services, split=split, make=make
        )
        return make

    return register
