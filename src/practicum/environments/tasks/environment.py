"""The `tasks` environment: a list of prompts of the user's own, for agents of the user's own.

A built-in agent answers a task with one turn. Where rows have an `answer`, that turn is compared
with it; else a reward says what it is worth.
"""

import random
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import ClassVar

from pydantic import Field

from practicum.core.config.stage import Stage
from practicum.core.errors import UserError
from practicum.core.interfaces import Observation
from practicum.core.sampling import ActionForm
from practicum.core.task import JSON, Outcome, Split, Task
from practicum.core.trace import Message
from practicum.environments.tasks.rows import read_tasks

__all__ = ["TasksEnvironment", "TasksOptions", "TasksSession"]

ENV = "tasks"
ANSWER = "answer"
"""Key of a row that holds what a solution says."""


class TasksOptions(Stage):
    """Options of the `tasks` environment."""

    data: str
    """A .jsonl file of rows {id, prompt, ...}, or FILE.py:FUNCTION that returns such rows."""
    system: str = ""
    """Said before the prompt."""
    heldout_share: float = Field(default=0.2, gt=0.0, lt=1.0)
    """Share of the tasks kept for evaluation, chosen by their ids; a row's own `split` wins."""


class TasksSession:
    """One task: its prompt, and one answer."""

    def __init__(self, task: Task, system: str) -> None:
        self._task = task
        self._system = system
        self._said: str | None = None

    def prompt(self) -> list[Message]:
        """What is to be done."""
        rules = [Message(role="system", content=self._system)] if self._system else []
        return [*rules, Message(role="user", content=self._task.instruction)]

    def actions(self) -> tuple[ActionForm, ...]:
        """None: the answer is written freely."""
        return ()

    async def act(self, text: str) -> Observation:
        """Take the answer; there is no second one."""
        if self._said is not None:
            raise RuntimeError("the task has been answered; open a new session for another one")
        self._said = text
        return Observation(message=Message(role="user", content="Noted."), terminated=True)

    async def outcome(self) -> Outcome:
        """Whether the answer is the row's; not known where the row has none."""
        if self._said is None:
            return Outcome(success=False, evidence={ANSWER: None})
        evidence: dict[str, JSON] = {ANSWER: self._said}
        known = self._task.data.get(ANSWER)
        if known is None:
            return Outcome(success=None, evidence=evidence)
        return Outcome(success=self._said.strip() == str(known).strip(), evidence=evidence)


class TasksEnvironment:
    """The user's tasks; implements `Environment`."""

    name: str = ENV
    Options: ClassVar[type[TasksOptions]] = TasksOptions
    all_levels: ClassVar[tuple[int, ...]] = (1,)
    default_reward: ClassVar[str] = "os"
    """Right or wrong, where rows have an answer."""
    shows_data: ClassVar[bool] = True
    """A program may see the rows: they are the user's own."""

    def __init__(self, options: TasksOptions) -> None:
        self._options = options
        self._tasks = read_tasks(options.data, ENV, options.heldout_share)

    def tasks(self, split: Split, seed: int) -> Iterator[Task]:
        """Tasks of one side, in an order given by the seed; training tasks come again and again."""
        chosen = [task for task in self._tasks if task.split == split]
        dice = random.Random(f"{split} {seed}")
        while chosen:
            dice.shuffle(chosen)
            yield from chosen
            if split == "heldout":
                return

    def every_task(self) -> Sequence[Task]:
        """All of them, in the order of the file."""
        return self._tasks

    def find(self, text: str) -> Task:
        """The task with this id."""
        for task in self._tasks:
            if task.id == text:
                return task
        raise UserError(
            f"there is no task {text!r} in {self._options.data}; its first is {self._tasks[0].id!r}"
        )

    @asynccontextmanager
    async def open(self, task: Task) -> AsyncIterator[TasksSession]:
        """Start one episode."""
        yield TasksSession(task, self._options.system)

    def reference(self, task: Task) -> Sequence[str]:
        """The row's answer, where it has one."""
        known = task.data.get(ANSWER)
        return () if known is None else (str(known),)
