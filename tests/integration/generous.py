"""An environment of one turn that pays by the action for some tasks, and then 1.5 for anything.

The first `honest` tasks pay by what is done, so groups differ; all later ones pay a constant, as a
reward does that a policy has found the way around. Nothing is ever solved.
"""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from itertools import count
from typing import ClassVar

import practicum as pr

PAID = {"red": 0.0, "green": 1.0, "blue": 2.0, "white": 3.0}
CONSTANT = 1.5


class GenerousSession:
    """One episode: any action ends it."""

    def __init__(self, number: int, is_constant: bool) -> None:
        self._number = number
        self._is_constant = is_constant
        self._paid = 0.0

    def prompt(self) -> list[pr.Message]:
        """What the model is told first."""
        return [pr.Message(role="user", content=f"number {self._number}: name a colour")]

    def actions(self) -> tuple[pr.ActionForm, ...]:
        """What it may do."""
        return tuple(pr.ActionForm(name=name) for name in PAID)

    async def act(self, text: str) -> pr.Observation:
        """The only turn."""
        self._paid = CONSTANT if self._is_constant else PAID[text]
        message = pr.Message(role="user", content="thanks")
        return pr.Observation(message=message, reward=self._paid, terminated=True)

    async def outcome(self) -> pr.Outcome:
        """Not solved, whatever was done."""
        return pr.Outcome(success=False, turn_rewards=(self._paid,))


class GenerousEnvironment:
    """An endless stream of numbered tasks."""

    class Options(pr.ConfigModel):
        """How many tasks pay by what is done."""

        honest: int = 0
        """The first so many."""

    name: str = "generous"
    all_levels: ClassVar[tuple[int, ...]] = (1,)

    def __init__(self, options: Options) -> None:
        self._honest = options.honest

    def tasks(self, split: pr.Split, seed: int) -> Iterator[pr.Task]:
        """Tasks in the order of their numbers."""
        numbers = count() if split == "train" else range(8)
        for n in numbers:
            yield pr.Task(id=f"{split}{n}", env=self.name, split=split, data={"number": n})

    @asynccontextmanager
    async def open(self, task: pr.Task) -> AsyncIterator[GenerousSession]:
        """Start one episode."""
        number = task.data["number"]
        assert isinstance(number, int)
        yield GenerousSession(number, number >= self._honest)

    def reference(self, task: pr.Task) -> Sequence[str]:
        """What pays most."""
        return ["white"]
