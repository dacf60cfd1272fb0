"""Agents that are programs of their own: they are given a task and an address of the model."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from practicum.core.conversing import ReachableConversation
from practicum.core.score import Score
from practicum.core.task import JSON, Task
from practicum.core.trace import StopReason

__all__ = ["REPORTED", "AgentReport", "Assignment", "Limited", "WorkingAgent"]

REPORTED = "reported"
"""Key of an outcome's evidence that holds the score an agent gave its own work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """What an agent is to do, and what its episode is called."""

    task: Task
    trace_id: str
    """Files that an agent leaves are kept under this name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentReport:
    """How an agent's work ended, and what it says of it."""

    stop: StopReason
    score: Score | None = None
    """Its own score; None leaves it to the environment's evidence."""
    success: bool | None = None
    """Whether the task was done; None leaves that to the environment too."""
    evidence: Mapping[str, JSON] = field(default_factory=dict)
    """Kept with the outcome, beside what the environment found."""


@runtime_checkable
class WorkingAgent(Protocol):
    """Who does the work, with a program that reaches the model over HTTP.

    An `AgentFailure`, or any other error that escapes, is a failed episode: tried again or masked.
    """

    async def work(
        self, assignment: Assignment, session: Any, conversation: ReachableConversation
    ) -> AgentReport:
        """Do the task; `session` is open meanwhile and is asked for its outcome afterwards."""
        ...


@runtime_checkable
class Limited(Protocol):
    """A conversation that knows when the episode's limits have ended it."""

    def limit_met(self) -> StopReason | None:
        """The limit that the next request would run into, or that one has run into."""
        ...
