"""The `shell` environment: tasks solved with commands, each episode in its own sandbox."""

from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from practicum.core.errors import UserError
from practicum.core.interfaces import Sandbox
from practicum.core.task import Split, Task
from practicum.environments.selection import shuffled
from practicum_envs.shell.generated.task_generator import (
    LEVELS,
    Series,
    generate,
    task_from_id,
)
from practicum_envs.shell.machines import MachineEnvironment, MachineOptions
from practicum_envs.shell.plan_of_task import Plan
from practicum_envs.shell.protocol import (
    answer_turn,
    answers_what_it_prints,
    example_messages,
    reference_turns,
    turns_of,
)
from practicum_envs.shell.shell_session import (
    Limits,
    ShellTextSession,
    ShellToolSession,
    output_in,
    set_up,
)
from practicum_envs.shell.user_data import load_tasks

ENV = "shell"


class ShellOptions(MachineOptions):
    """Options of the `shell` environment."""

    level: int | list[int] = 1
    """How many skills a generated task is composed of, 1 to 8, or several levels, evenly mixed."""
    heldout: Literal["kinds", "names"] = "kinds"
    """What held-out generated tasks have that no training task has: `kinds`, other things to be
    done; `names`, the same things with other names, texts and numbers."""
    data: str = ""
    """A file or folder of LifelongAgentBench or AgentBench tasks; generated tasks unless given."""
    heldout_share: float = Field(default=0.3, gt=0.0, lt=1.0)
    """Share of the tasks in `data` that is kept for evaluation."""

    all_levels: ClassVar[Collection[int]] = LEVELS

    @model_validator(mode="after")
    def _levels_are_generated(self) -> "ShellOptions":
        if self.data and self.level != 1:
            raise PydanticCustomError(
                "level", "levels are for generated tasks; take out level, or data"
            )
        return self


class ShellEnvironment(MachineEnvironment):
    """Tasks solved with shell commands; implements `Environment`."""

    name: str = ENV
    Options: ClassVar[type[ShellOptions]] = ShellOptions
    all_levels: ClassVar[tuple[int, ...]] = tuple(LEVELS)
    default_reward: ClassVar[str] = "os"
    """Rewards come from the outcome of the episode; turns pay nothing."""
    sessions_at_once: ClassVar[int] = 6
    """Concurrent sessions while its tasks are checked."""

    def __init__(self, options: ShellOptions) -> None:
        super().__init__(options, ENV)
        self._options = options
        self._user_tasks = (
            load_tasks(Path(options.data), ENV, options.heldout_share) if options.data else []
        )

    @property
    def levels(self) -> tuple[int, ...]:
        """The levels with these options: a user's tasks have only level 1."""
        return (1,) if self._user_tasks else self.all_levels

    def tasks(self, split: Split, seed: int) -> Iterator[Task]:
        """Generated tasks without end, or the user's, whose training tasks repeat."""
        if self._user_tasks:
            yield from shuffled(self._user_tasks, split, seed)
            return
        series: Series = split
        if split == "heldout" and self._options.heldout == "names":
            series = "familiar"
        streams = [generate(series, seed, level) for level in self._options.levels]
        for stream in cycle(streams):
            yield next(stream)

    def every_task(self) -> Sequence[Task] | None:
        """All tasks of a user's file, in its order; None for generated ones, which are endless."""
        return self._user_tasks or None

    def find(self, text: str) -> Task:
        """The task with this id."""
        for task in self._user_tasks:
            if task.id == text:
                return task
        if self._user_tasks:
            raise UserError(f"there is no task {text!r} in {self._options.data}; list its tasks")
        try:
            return task_from_id(text)
        except (KeyError, ValueError) as error:
            raise UserError(
                f"there is no task {text!r} ({error}); list tasks for their ids"
            ) from None

    def open(self, task: Task) -> AbstractAsyncContextManager[ShellTextSession | ShellToolSession]:
        """Start one episode in a new sandbox."""
        return self._session(task)

    @asynccontextmanager
    async def _session(self, task: Task) -> AsyncIterator[ShellTextSession | ShellToolSession]:
        plan = Plan.of(task)
        async with self._machine(plan) as box:
            limits = Limits(
                rounds=self._options.rounds,
                command_timeout_s=self._options.command_timeout_s,
                output_chars=self._options.output_chars,
            )
            kind = ShellToolSession if self.session_kind == "tools" else ShellTextSession
            shown = example_messages(self._options.protocol) if self._options.example else ()
            fresh = partial(self._machine, plan, beside_another=True)
            session = kind(task, plan, box, limits, fresh, shown)
            try:
                yield session
            finally:
                session.close()

    @asynccontextmanager
    async def _machine(self, plan: Plan, *, beside_another: bool = False) -> AsyncIterator[Sandbox]:
        """A new sandbox with the task's set-up done; closed afterwards."""
        async with self._machines.open(beside_another=beside_another) as box:
            await set_up(plan, box, timeout_s=self._options.command_timeout_s)
            yield box

    def reference(self, task: Task) -> Sequence[str]:
        """The turns that solve it; empty where the task has no solution."""
        return reference_turns(Plan.of(task), self._options.protocol)

    def reference_turn(self, task: Task, seen: Sequence[str]) -> str | None:
        """The next of those turns, where `seen` are the observations so far.

        Where the check runs the reference itself, the right answer is what the reference printed.
        """
        turns = self.reference(task)
        if len(seen) >= len(turns):
            return None
        is_last = len(seen) == len(turns) - 1
        if is_last and seen and answers_what_it_prints(Plan.of(task)):
            return answer_turn(output_in(seen[-1]), self._options.protocol)
        return turns[len(seen)]

    def near_misses(self, task: Task) -> Sequence[Sequence[str]]:
        """Plausible wrong solutions, each as the turns of an episode."""
        protocol = self._options.protocol
        return [turns_of(script, protocol) for script in Plan.of(task).near_misses]
