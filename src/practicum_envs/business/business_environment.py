"""The `business` environment: cases that are looked into, decided, and planned in figures."""

import json
import random
import re
from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import ClassVar, Literal

from practicum.core.errors import EnvironmentFailure, UserError, nearest
from practicum.core.task import Outcome, Split, Task
from practicum.environments.selection import LevelOptions
from practicum_envs.business.business_case import Case, Family, case_of
from practicum_envs.business.business_probes import near_misses, reference_turns
from practicum_envs.business.business_session import BusinessSession
from practicum_envs.business.case_families import FAMILIES
from practicum_envs.business.case_generator import KEYS, LEVELS, case_numbers, keys, split_of
from practicum_envs.business.case_words import statement_of
from practicum_envs.business.decision_scoring import full_marks

ENV = "business"
ID = re.compile(r"business-(\d)-([a-z_]+)-(\d{1,6})")
CHECKED_TASKS = 20
"""Of each family, when all are checked."""


class BusinessOptions(LevelOptions):
    """Options of the `business` environment."""

    level: int | list[int] = 1
    """Difficulty from 1 to 3, or several levels, evenly mixed: 1 hides one number, 2 two and 3
    three; from 2 on risks concern some options and not others."""
    heldout: Literal["kinds", "names"] = "kinds"
    """What held-out tasks have that no training task has: `kinds`, other families of cases;
    `names`, the same families with other numbers."""
    families: tuple[str, ...] = ()
    """Only these families; all unless given."""
    actions: Literal["constrained", "free"] = "constrained"
    """`constrained`: the policy can only write an action; `free`: it writes text, which is read."""

    all_levels: ClassVar[Collection[int]] = LEVELS


class BusinessEnvironment:
    """Business cases; implements `Environment`.

    >>> environment = BusinessEnvironment(BusinessOptions())
    >>> environment.reference(environment.find("business-1-price-0"))[0]
    'analyze_situation unit_cost'
    """

    name: str = ENV
    Options: ClassVar[type[BusinessOptions]] = BusinessOptions
    all_levels: ClassVar[tuple[int, ...]] = LEVELS

    def __init__(self, options: BusinessOptions) -> None:
        for name in options.families:
            if name not in FAMILIES:
                raise UserError(
                    f"there is no family {name!r} of business cases; {nearest(name, FAMILIES)}"
                    f"there are {', '.join(FAMILIES)}"
                )
        self._options = options

    def tasks(self, split: Split, seed: int) -> Iterator[Task]:
        """Tasks family by family, level by level: without end, and none twice in held-out ones."""
        chosen = self._families(split)
        order = random.Random(f"{ENV} {split} {seed}")
        places = [(level, one.name) for level in self._options.levels for one in chosen]
        streams = {place: keys(place[1], place[0], split, seed) for place in places}
        while streams:
            for level in self._options.levels:
                here = [place for place in streams if place[0] == level]
                order.shuffle(here)
                for place in here:
                    key = next(streams[place], None)
                    if key is None:
                        del streams[place]
                    else:
                        yield task_of(place[1], level, key)

    def _families(self, split: Split) -> list[Family]:
        """The families of a split, as the options ask for them."""
        heldout = split == "heldout" and self._options.heldout == "kinds"
        asked = self._options.families
        of_split = [one for one in FAMILIES.values() if one.is_heldout is heldout]
        chosen = [one for one in of_split if not asked or one.name in asked]
        if not chosen:
            kinds = "held-out" if heldout else "training"
            raise UserError(
                f"no {kinds} family is among env.families=[{','.join(asked)}]; the {kinds} ones "
                f"are {', '.join(one.name for one in of_split)}"
                + ("; or write env.heldout=names to hold out other numbers" if heldout else "")
            )
        return chosen

    def tasks_to_check(self) -> Sequence[Task]:
        """Twenty tasks of each family, held-out or not, at the levels of the options."""
        asked = self._options.families or tuple(FAMILIES)
        return [
            task_of(name, level, key)
            for level in self._options.levels
            for name in asked
            for key in range(CHECKED_TASKS)
        ]

    def find(self, text: str) -> Task:
        """The task with this id."""
        found = ID.fullmatch(text)
        if found is None or found[2] not in FAMILIES or int(found[1]) not in LEVELS:
            raise UserError(
                f"there is no task {text!r}; ids are business-LEVEL-FAMILY-NUMBER, such as "
                f"business-1-price-7, with a number below {KEYS} and one of the families "
                f"{', '.join(FAMILIES)}"
            )
        return task_of(found[2], int(found[1]), int(found[3]))

    def open(self, task: Task) -> AbstractAsyncContextManager[BusinessSession]:
        """Start one episode of a task."""
        return self._session(task)

    @asynccontextmanager
    async def _session(self, task: Task) -> AsyncIterator[BusinessSession]:
        constrained = self._options.actions == "constrained"
        session = BusinessSession(case_of_task(task), constrained=constrained)
        try:
            yield session
        finally:
            session.close()

    def reference(self, task: Task) -> Sequence[str]:
        """The actions that earn full marks."""
        return reference_turns(case_of_task(task))

    def near_misses(self, task: Task) -> Sequence[Sequence[str]]:
        """Plausible wrong solutions, each as the turns of an episode."""
        return near_misses(case_of_task(task))

    def full_marks(self, task: Task) -> float:
        """The total reward of the reference, which no episode can exceed."""
        return full_marks(case_of_task(task))

    def solution(self, outcome: Outcome) -> str:
        """The option that was decided on; empty for none."""
        decision = outcome.evidence.get("decision")
        return "" if decision is None else f"option {decision}"


def task_of(name: str, level: int, key: int) -> Task:
    """The task of a family, a level and a key."""
    data = json.loads(case_numbers(name, level, key))
    return Task(
        id=f"{ENV}-{level}-{name}-{key}",
        env=ENV,
        split=split_of(data),
        level=level,
        instruction=statement_of(case_of(FAMILIES[name], data)),
        data=data,
    )


def case_of_task(task: Task) -> Case:
    """The case that a task holds."""
    family = FAMILIES.get(str(task.data.get("family")))
    if family is None:
        raise EnvironmentFailure(
            f"there is no family {task.data.get('family')!r} of business cases"
        )
    return case_of(family, task.data)
