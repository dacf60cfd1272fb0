"""The `science` environment: experiments in worlds whose laws are hidden."""

from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import ClassVar, Literal

from practicum.core.errors import UserError, nearest
from practicum.core.interfaces import Observation
from practicum.core.sampling import ActionForm
from practicum.core.task import Outcome, Split, Task
from practicum.core.trace import Message
from practicum.environments.selection import LevelOptions
from practicum_envs.science.briefing import prompt
from practicum_envs.science.conclusion_scoring import FULL_MARKS
from practicum_envs.science.experimenter import reference_turns
from practicum_envs.science.laboratory import (
    ANALYZE,
    CONCLUDE,
    DESIGN,
    FORMULATE,
    SHORT,
    Laboratory,
)
from practicum_envs.science.law_spaces import LEVELS
from practicum_envs.science.law_syntax import syntax_of
from practicum_envs.science.science_probes import near_misses
from practicum_envs.science.science_problems import (
    ENV,
    find_task,
    generate,
    world_of,
)
from practicum_envs.science.subjects import SUBJECTS
from practicum_envs.science.worlds import World


class ScienceOptions(LevelOptions):
    """Options of the `science` environment."""

    level: int | list[int] = 1
    """Difficulty from 1 to 5, or several levels, evenly mixed."""
    heldout: Literal["kinds", "names"] = "kinds"
    """What held-out tasks have that no training task has: `kinds`, other families of worlds;
    `names`, the same families with other factors, numbers and laws."""
    families: tuple[str, ...] = ()
    """Only these families, such as plants; all unless given."""
    actions: Literal["constrained", "free"] = "constrained"
    """`constrained`: the policy can only write an action; `free`: it writes text, which is read."""

    all_levels: ClassVar[Collection[int]] = LEVELS


class ScienceSession:
    """One episode in one world; implements `DiscreteSession`."""

    def __init__(self, world: World, *, constrained: bool) -> None:
        self._laboratory = Laboratory(world)
        self._brief = world.brief
        self._constrained = constrained
        self._turns: list[tuple[str, float]] = []
        self._is_open = True

    def prompt(self) -> list[Message]:
        """The rules as system prompt, and the world."""
        return prompt(self._brief)

    def actions(self) -> tuple[ActionForm, ...]:
        """The actions that can be taken now; none with `actions: free`."""
        if not self._constrained:
            return ()
        syntax = syntax_of(self._brief.level, self._brief.factors)
        forms = {
            FORMULATE: ActionForm(name=FORMULATE, argument=syntax.law_argument),
            DESIGN: ActionForm(name=DESIGN, argument=syntax.setting_argument),
            ANALYZE: ActionForm(name=ANALYZE),
            CONCLUDE: ActionForm(name=CONCLUDE, argument=syntax.conclusion_argument),
        }
        return tuple(forms[name] for name in self._laboratory.possible)

    async def act(self, text: str) -> Observation:
        """Carry one action out; what cannot be read costs a turn too."""
        if not self._is_open or self._laboratory.is_over:
            raise RuntimeError("the episode is over; open a new session for another one")
        turn = self._laboratory.act(text)
        self._turns.append((text, turn.pay))
        return Observation(
            message=Message(role="user", content=turn.said),
            reward=turn.pay,
            terminated=self._laboratory.is_over,
        )

    async def outcome(self) -> Outcome:
        """Success, the reward of each turn, and what was measured and concluded."""
        verdict = self._laboratory.verdict
        return Outcome(
            success=verdict is not None and verdict.succeeds,
            turn_rewards=tuple(pay for _, pay in self._turns),
            evidence={
                **self._laboratory.evidence(),
                "actions": [text for text, _ in self._turns],
            },
        )

    def close(self) -> None:
        """Refuse further actions."""
        self._is_open = False


class ScienceEnvironment:
    """Experiments, and conclusions as sure as they allow; implements `Environment`.

    >>> environment = ScienceEnvironment(ScienceOptions(level=1))
    >>> environment.reference(environment.find("science-train-plants-L1-s0-0"))[0]
    'formulate_hypothesis none'
    """

    name: str = ENV
    Options: ClassVar[type[ScienceOptions]] = ScienceOptions
    all_levels: ClassVar[tuple[int, ...]] = tuple(LEVELS)

    def __init__(self, options: ScienceOptions) -> None:
        for family in options.families:
            if family not in SUBJECTS:
                raise UserError(
                    f"there is no family {family!r} of science tasks; "
                    f"{nearest(family, SUBJECTS)}there are {', '.join(SUBJECTS)}"
                )
        self._options = options

    def tasks(self, split: Split, seed: int) -> Iterator[Task]:
        """Tasks without end, family by family, level by level."""
        uses = "heldout" if (split, self._options.heldout) == ("heldout", "kinds") else "train"
        asked = self._options.families or tuple(SUBJECTS)
        families = [one for one in asked if SUBJECTS[one].split == uses]
        if not families:
            raise UserError(_nothing_chosen(self._options, split))
        return generate(split, families, self._options.levels, seed)

    def open(self, task: Task) -> AbstractAsyncContextManager[ScienceSession]:
        """Start one episode of a task."""
        return self._session(task)

    @asynccontextmanager
    async def _session(self, task: Task) -> AsyncIterator[ScienceSession]:
        session = ScienceSession(world_of(task), constrained=self._options.actions == "constrained")
        try:
            yield session
        finally:
            session.close()

    def reference(self, task: Task) -> Sequence[str]:
        """The turns of an experimenter who knows what the session shows, and no more."""
        return reference_turns(world_of(task))

    def full_marks(self, task: Task) -> float:
        """10, whatever the task: no episode can earn more."""
        return FULL_MARKS

    def near_misses(self, task: Task) -> Sequence[Sequence[str]]:
        """Conclusions without data, or other than the data say, or not as sure."""
        return near_misses(world_of(task))

    def solution(self, outcome: Outcome) -> str:
        """The conclusion in words."""
        found: Mapping[str, object] = outcome.evidence
        if found.get("conclusion") is None:
            return ""
        return f"{found['conclusion']} (the law is {found['law']})"

    def turn_from_line(self, line: str) -> str:
        """What a person types, with f, d, a or c for the action.

        >>> ScienceEnvironment(ScienceOptions()).turn_from_line("d water 4")
        'design_experiment water 4'
        """
        first, space, argument = line.strip().partition(" ")
        return f"{SHORT.get(first, first)}{space}{argument}"

    def find(self, text: str) -> Task:
        """The task with this id."""
        return find_task(text)


def _nothing_chosen(options: ScienceOptions, split: Split) -> str:
    """Why the options leave no task of a split, and what to write instead."""
    asked = f"env.families=[{','.join(options.families)}]"
    if split == "heldout" and options.heldout == "kinds":
        return (
            f"no held-out task of science fits {asked}; write env.heldout=names to hold out "
            "worlds of these families, or leave families out"
        )
    trained = [name for name, one in SUBJECTS.items() if one.split == "train"]
    return f"no task of science fits {asked}; families that are trained on are {', '.join(trained)}"
