"""Several environments in one run: `env: [math, office, {name: shell, weight: 2}]`.

Each task is opened, solved and paid by the environment that made it, which its `env` names.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, ClassVar

from pydantic import ConfigDict, Field, field_validator
from pydantic_core import PydanticCustomError

from practicum.core.capabilities import (
    Closable,
    HasNearMisses,
    HasReference,
    HasReferenceTurns,
    InSandboxes,
    SessionKind,
    TakesTypedLines,
    TellsSolution,
    default_reward,
    sandbox_kind,
    session_kind,
)
from practicum.core.config.config_sections import MIXTURE, ConfigModel
from practicum.core.errors import ConfigError, UserError
from practicum.core.interfaces import Environment, Sandboxes
from practicum.core.task import Outcome, Split, Task
from practicum.environments.registry import build_environment, find_task


class Part(ConfigModel):
    """One environment of several: its name, its own options, and its share of the tasks."""

    model_config = ConfigDict(frozen=True, extra="allow", use_attribute_docstrings=True)

    name: str
    """Name of an environment, `FILE.py:Class` or `module:Class`."""
    weight: float = Field(default=1.0, gt=0.0)
    """Its share of the tasks, against the weights of the others."""


class MixtureOptions(ConfigModel):
    """Options of an environment that is several."""

    parts: list[Part] = Field(min_length=1)
    """The environments; names alone, or names with options and weights."""

    @field_validator("parts", mode="before")
    @classmethod
    def _names_as_parts(cls, value: Any) -> Any:
        if not isinstance(value, list | tuple):
            return value
        return [{"name": one} if isinstance(one, str) else one for one in value]

    @field_validator("parts")
    @classmethod
    def _each_once(cls, value: list[Part]) -> list[Part]:
        names = [part.name for part in value]
        for name in names:
            if names.count(name) > 1:
                raise PydanticCustomError(
                    "parts",
                    "{name} is there twice; name it once, with several levels if need be",
                    {"name": name},
                )
        return value


class MixtureEnvironment:
    """Tasks of several environments, in the shares of their weights; implements `Environment`."""

    name: str = MIXTURE
    Options: ClassVar[type[MixtureOptions]] = MixtureOptions
    all_levels: ClassVar[tuple[int, ...]] = (1,)

    def __init__(self, options: MixtureOptions) -> None:
        self.weights: dict[str, float] = {}
        self.parts: dict[str, Environment] = {}
        for part in options.parts:
            opened = build_environment(part.name, part.model_extra)
            if opened.name in self.parts:
                raise ConfigError(
                    f"two of the environments are called {opened.name!r}; give one of the classes "
                    "another `name`"
                )
            self.parts[opened.name] = opened
            self.weights[opened.name] = part.weight
        self.session_kind: SessionKind = self._one_kind()

    def _one_kind(self) -> SessionKind:
        kinds = {name: session_kind(one) for name, one in self.parts.items()}
        (first, kind), *others = kinds.items()
        for other, another in others:
            if another != kind:
                called = next(name for name, one in kinds.items() if one == "tools")
                raise ConfigError(
                    f"{first!r} opens sessions with {_words(kind)} and {other!r} with "
                    f"{_words(another)}, and a run has one kind of turn; where {called!r} has the "
                    f"option, write {{name: {called}, protocol: text}}, or train them in turn"
                )
        return kind

    def of(self, task: Task) -> Environment:
        """The environment of a task."""
        try:
            return self.parts[task.env]
        except KeyError:
            there = ", ".join(self.parts)
            raise UserError(
                f"task {task.id!r} is of {task.env!r}, and the environments are {there}"
            ) from None

    def tasks(self, split: Split, seed: int) -> Iterator[Task]:
        """The tasks of all, whose next one is always of the one that is furthest behind its share.

        Training tasks of one that ends begin anew; held-out tasks end with the last of any.
        """
        streams = {name: one.tasks(split, seed) for name, one in self.parts.items()}
        behind = dict.fromkeys(streams, 0.0)
        while streams:
            total = sum(self.weights[name] for name in streams)
            for name in streams:
                behind[name] += self.weights[name] / total
            chosen = max(streams, key=lambda name: behind[name])
            task = next(streams[chosen], None)
            if task is None and split == "train":
                streams[chosen] = self.parts[chosen].tasks(split, seed)
                task = next(streams[chosen], None)
            if task is None:
                del streams[chosen], behind[chosen]
                if split == "train":
                    raise UserError(f"{chosen!r} gives no training task; give it other options")
                continue
            behind[chosen] -= 1.0
            yield task

    def open(self, task: Task) -> AbstractAsyncContextManager[Any]:
        """Start one episode of a task, where it is from."""
        return self.of(task).open(task)

    def reference(self, task: Task) -> Sequence[str]:
        """The solution that the task's environment knows; none where it knows none."""
        one = self.of(task)
        return one.reference(task) if isinstance(one, HasReference) else ()

    def reference_turn(self, task: Task, seen: Sequence[str]) -> str | None:
        """The next turn of the solution."""
        one = self.of(task)
        if isinstance(one, HasReferenceTurns):
            return one.reference_turn(task, seen)
        turns = self.reference(task)
        return turns[len(seen)] if len(seen) < len(turns) else None

    def near_misses(self, task: Task) -> Sequence[Sequence[str]]:
        """Wrong solutions, where the task's environment has some."""
        one = self.of(task)
        return one.near_misses(task) if isinstance(one, HasNearMisses) else ()

    @property
    def default_reward(self) -> str:
        """The reward that all prefer, or the names of those that each does."""
        return " and ".join(dict.fromkeys(default_reward(one) for one in self.parts.values()))

    @property
    def sandbox_kind(self) -> str:
        """What isolates their commands; empty where none runs any."""
        kinds = dict.fromkeys(sandbox_kind(one) for one in self.parts.values())
        return "+".join(kind for kind in kinds if kind)

    def use_sandboxes(self, opener: Callable[[str], Sandboxes]) -> None:
        """Give those that run commands their sandboxes."""
        for one in self.parts.values():
            if isinstance(one, InSandboxes):
                one.use_sandboxes(opener)

    def find(self, text: str) -> Task:
        """The task with this id, or one that the first that can makes of the text."""
        for one in self.parts.values():
            try:
                return find_task(one, text)
            except UserError:
                continue
        raise UserError(
            f"{text!r} is a task of none of {', '.join(self.parts)}; list their tasks with "
            "practicum tasks NAME"
        )

    def solution(self, outcome: Outcome) -> str:
        """What an episode has come to, in the words of the first that has some."""
        told = (
            one.solution(outcome) for one in self.parts.values() if isinstance(one, TellsSolution)
        )
        return next(filter(None, told), "")

    def turn_from_line(self, line: str) -> str:
        """The turn that a typed line stands for, where they agree on one."""
        typed = {
            one.turn_from_line(line) if isinstance(one, TakesTypedLines) else line
            for one in self.parts.values()
        }
        return typed.pop() if len(typed) == 1 else line

    async def close(self) -> None:
        """Release what they hold."""
        for one in self.parts.values():
            if isinstance(one, Closable):
                await one.close()


def _words(kind: SessionKind) -> str:
    return "tools" if kind == "tools" else "actions"
