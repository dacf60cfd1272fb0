"""What an environment may offer besides its contract; each is asked for where it is used."""

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

from practicum.core.interfaces import Sandboxes
from practicum.core.task import Task

__all__ = [
    "Adaptive",
    "Bounded",
    "Closable",
    "Elsewhere",
    "Graded",
    "InSandboxes",
    "Tempting",
    "Typed",
]


@runtime_checkable
class Graded(Protocol):
    """An environment that says what its reference must earn."""

    def full_marks(self, task: Task) -> float:
        """The most that any play of the task can earn."""
        ...


@runtime_checkable
class Tempting(Protocol):
    """An environment that knows how its tasks are nearly solved."""

    def near_misses(self, task: Task) -> Sequence[Sequence[str]]:
        """Plausible wrong solutions, each the turns of an episode that must not succeed."""
        ...


@runtime_checkable
class Bounded(Protocol):
    """An environment that may have a fixed list of tasks."""

    def every_task(self) -> Sequence[Task] | None:
        """All of them, both splits; None when there is no end to them."""
        ...


@runtime_checkable
class Elsewhere(Protocol):
    """An environment whose sessions cost something, because they run outside this process."""

    sessions_at_once: int
    """Sessions that a check may keep open together."""


@runtime_checkable
class Adaptive(Protocol):
    """An environment whose solutions may depend on what is seen while they are played."""

    def reference_turn(self, task: Task, seen: Sequence[str]) -> str | None:
        """The next turn of `reference`, given what the turns before it were answered."""
        ...


@runtime_checkable
class InSandboxes(Protocol):
    """An environment that works in sandboxes; its `sandbox_kind` is stored with a run.

    That is no part of the test for this protocol, since asking for it may open the sandboxes.
    """

    def use_sandboxes(self, opener: Callable[[str], Sandboxes]) -> None:
        """Where sandboxes come from, by their kind."""
        ...


@runtime_checkable
class Closable(Protocol):
    """An environment that holds something after its sessions have closed."""

    async def close(self) -> None:
        """Let go of it; the next session takes hold of it again."""
        ...


@runtime_checkable
class Typed(Protocol):
    """An environment whose turns a person does not type as they are."""

    def turn_from_line(self, line: str) -> str:
        """A typed line as a turn."""
        ...
