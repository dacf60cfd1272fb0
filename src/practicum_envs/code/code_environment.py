"""The `code` environment: programs written, tested, mended and made faster by named actions."""

import random
import re
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from itertools import count
from typing import ClassVar, Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from practicum.core.errors import EnvironmentFailure, UserError, nearest
from practicum.core.interfaces import Sandboxes
from practicum.core.task import Split, Task
from practicum.environments.selection import LevelOptions, shuffled
from practicum_envs.code.code_grading import Grader
from practicum_envs.code.code_problem import LEVELS, Problem, Series, problem_of
from practicum_envs.code.code_scripts import Scripts
from practicum_envs.code.code_session import CodeSession, instruction_of
from practicum_envs.code.code_turns import SYNTAX, read_turn
from practicum_envs.code.families.all_code_families import code_families
from practicum_envs.code.families.drafting import Family
from practicum_envs.code.program_runner import ProgramRunner, RunLimits
from practicum_envs.code.user_judging import UserJudge
from practicum_envs.code.user_rows import ROW, read_row, user_tasks
from practicum_envs.code.user_session import UserCodeSession

ENV = "code"
ID = re.compile(r"code-(train|names|kinds)-L([123])-([a-z_0-9]+)-s(-?\d+)-(\d+)")
CHECKED_TASKS = 4
"""Of each family, when all are checked."""


class CodeOptions(LevelOptions):
    """Options of the `code` environment."""

    level: int | list[int] = 1
    """1 writes a function, 2 adds a requirement and own tests, 3 mends a slow or wrong draft."""
    heldout: Literal["kinds", "names"] = "kinds"
    """What held-out tasks have that no training task has: `kinds`, other families of tasks;
    `names`, the same families with other names, texts and numbers."""
    families: tuple[str, ...] = ()
    """Only these families; all unless given."""
    domains: tuple[str, ...] = ()
    """Only families of these domains, such as strings or sql; all unless given."""
    actions: Literal["free", "constrained"] = "free"
    """`free`: a turn is text, read as an action and its code; `constrained`: it can be nothing but
    an action, and its code is written character by character."""
    sandbox: str = "auto"
    """What isolates programs: auto, bubblewrap, landlock, docker:IMAGE, podman:IMAGE or process."""
    timeout_s: float = Field(default=20.0, gt=0.0)
    """Seconds of one run of a program."""
    cpu_s: int = Field(default=6, ge=1)
    """Processor seconds of one run."""
    memory_mb: int = Field(default=192, ge=64)
    """Memory of one run."""

    data: str = ""
    """A .jsonl file of tasks in the shape of HumanEval or MBPP, or of rows with `tests`; generated
    tasks unless given."""
    heldout_share: float = Field(default=0.2, gt=0.0, lt=1.0)
    """Share of the tasks in `data` that is kept for evaluation."""

    all_levels: ClassVar[Collection[int]] = LEVELS

    @model_validator(mode="after")
    def _levels_are_generated(self) -> "CodeOptions":
        if self.data and self.level != 1:
            raise PydanticCustomError(
                "level", "levels are for generated tasks; take out level, or data"
            )
        return self


class CodeEnvironment:
    """Programming tasks; implements `Environment`."""

    name: str = ENV
    Options: ClassVar[type[CodeOptions]] = CodeOptions
    all_levels: ClassVar[tuple[int, ...]] = LEVELS

    def __init__(self, options: CodeOptions) -> None:
        self._options = options
        limits = RunLimits(
            timeout_s=options.timeout_s, cpu_s=options.cpu_s, memory_mb=options.memory_mb
        )
        self._runner = ProgramRunner(options.sandbox, limits)
        self._grader = Grader(self._runner)
        self._judge = UserJudge(self._runner)
        self._families = _chosen(options)
        self._user_tasks = (
            user_tasks(options.data, ENV, options.heldout_share) if options.data else []
        )

    @property
    def levels(self) -> tuple[int, ...]:
        """The levels with these options: a user's tasks have only level 1."""
        return (1,) if self._user_tasks else self.all_levels

    def every_task(self) -> Sequence[Task] | None:
        """All tasks of a user's file, in its order; None for generated ones, which are endless."""
        return self._user_tasks or None

    def use_sandboxes(self, opener: Callable[[str], Sandboxes]) -> None:
        """Set the function that opens sandboxes of a kind; called when the first is needed."""
        self._runner.use_sandboxes(opener)

    @property
    def sandbox_kind(self) -> str:
        """What isolates programs."""
        return self._runner.sandboxes.kind

    async def close(self) -> None:
        """Close every sandbox; a later session opens new ones."""
        await self._runner.close()

    def tasks(self, split: Split, seed: int) -> Iterator[Task]:
        """Tasks without end, family by family, level by level; or the user's."""
        if self._user_tasks:
            yield from shuffled(self._user_tasks, split, seed)
            return
        series = _series(split, self._options)
        chosen = [one for one in self._families if one.heldout == (series == "kinds")]
        if not chosen:
            raise UserError(_nothing_chosen(self._options, split))
        order = random.Random(f"{split} {seed}")
        for number in count():
            for level in self._options.levels:
                order.shuffle(chosen)
                yield from (task_of(one.name, level, seed, number, series) for one in chosen)

    def tasks_to_check(self) -> Sequence[Task]:
        """A few tasks of each family, held-out or not, at the levels of the options."""
        if self._user_tasks:
            return self._user_tasks
        return [
            task_of(one.name, level, 0, number, "kinds" if one.heldout else "train")
            for level in self._options.levels
            for one in self._families
            for number in range(CHECKED_TASKS)
        ]

    def goes_on(self, line: str) -> bool:
        """Whether code follows below: of an action that takes some, where none is there yet."""
        turn = read_turn(line)
        return turn.action in SYNTAX and (not turn.code or turn.code.endswith(":"))

    def find(self, text: str) -> Task:
        """The task with this id."""
        for task in self._user_tasks:
            if task.id == text:
                return task
        if self._user_tasks:
            raise UserError(f"there is no task {text!r} in {self._options.data}; list its tasks")
        found = ID.fullmatch(text)
        if found is None or found[3] not in code_families():
            raise UserError(
                f"there is no task {text!r} of code; practicum tasks code lists some, such as "
                "code-train-L1-count_above-s0-0"
            )
        series, level, family, seed, number = found.groups()
        is_kind = code_families()[family].heldout
        if is_kind != (series == "kinds"):
            raise UserError(
                f"there is no task {text!r}: the family {family} is "
                f"{'held out' if is_kind else 'trained on'}; write "
                f"code-{'kinds' if is_kind else 'train'}-L{level}-{family}-s{seed}-{number}"
            )
        return task_of(family, int(level), int(seed), int(number), series)  # type: ignore[arg-type]

    def open(self, task: Task) -> AbstractAsyncContextManager[CodeSession | UserCodeSession]:
        """Start one episode."""
        return self._session(task)

    @asynccontextmanager
    async def _session(self, task: Task) -> AsyncIterator[CodeSession | UserCodeSession]:
        session: CodeSession | UserCodeSession
        constrained = self._options.actions == "constrained"
        if ROW in task.data:
            row = read_row(task.data[ROW], task.id)
            session = UserCodeSession(task, row, self._judge, constrained=constrained)
        else:
            session = CodeSession(task, problem_in(task), self._grader, constrained=constrained)
        try:
            yield session
        finally:
            session.close()

    def reference(self, task: Task) -> Sequence[str]:
        """The turns that earn full marks; none where a user's row has no solution."""
        if ROW in task.data:
            solution = read_row(task.data[ROW], task.id).solution
            return (f"write_function\n{solution}", "submit") if solution else ()
        return self._scripts(task).reference()

    def near_misses(self, task: Task) -> Sequence[Sequence[str]]:
        """Plausible wrong solutions, each as the turns of an episode; none of a user's rows."""
        if ROW in task.data:
            return []
        return list(self._scripts(task).near_misses().values())

    def _scripts(self, task: Task) -> Scripts:
        between = " " if self._options.actions == "constrained" else "\n"
        return Scripts(problem_in(task), between)

    def full_marks(self, task: Task) -> float:
        """The total of the reference, which no episode can exceed."""
        return 1.0


def _series(split: Split, options: CodeOptions) -> Series:
    if split == "train":
        return "train"
    return "kinds" if options.heldout == "kinds" else "names"


def _chosen(options: CodeOptions) -> list[Family]:
    """The families that the options ask for."""
    known = code_families()
    domains = sorted({one.domain for one in known.values()})
    for noun, asked, there in (
        ("family", options.families, list(known)),
        ("domain", options.domains, domains),
    ):
        for name in asked:
            if name not in there:
                raise UserError(
                    f"there is no {noun} {name!r} of code tasks; {nearest(name, there)}there are "
                    f"{', '.join(there)}"
                )
    return [
        one
        for one in known.values()
        if (not options.families or one.name in options.families)
        and (not options.domains or one.domain in options.domains)
    ]


def _nothing_chosen(options: CodeOptions, split: Split) -> str:
    """Why the options leave no task of a split, and what to write instead."""
    what = f"env.families=[{','.join(options.families)}]" if options.families else "env.domains"
    if split == "heldout":
        return (
            f"no held-out family of code is among {what}; write env.heldout=names to hold out "
            "names instead of kinds"
        )
    return f"every family of {what} is held out; name one that is trained on, such as count_above"


def task_of(family: str, level: int, seed: int, number: int, series: Series) -> Task:
    """The task of a family, a level, a seed and a number."""
    problem = problem_of(family, level, f"{seed} {number}", series)
    return Task(
        id=f"code-{series}-L{level}-{family}-s{seed}-{number}",
        env=ENV,
        split="train" if series == "train" else "heldout",
        level=level,
        instruction=instruction_of(problem),
        data={
            "family": family,
            "domain": problem.domain,
            "seed": f"{seed} {number}",
            "series": series,
        },
    )


def problem_in(task: Task) -> Problem:
    """The problem of a task, made again from its family and seed."""
    data = task.data
    if data.get("family") not in code_families():
        raise EnvironmentFailure(f"there is no family {data.get('family')!r} of code tasks")
    return problem_of(str(data["family"]), task.level, str(data["seed"]), data["series"])  # type: ignore[arg-type]
