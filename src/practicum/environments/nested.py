"""Hierarchical actions: an action opens an episode of another environment within the session's own.

The turns inside are another role's, in a conversation of its own, paid by the environment they are
in; what comes of them is told to the one who gave the task, and may pay that turn.
"""

from abc import ABC, abstractmethod
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

from practicum.core.capabilities import HasRoles
from practicum.core.interfaces import Environment, Observation
from practicum.core.sampling import ActionForm
from practicum.core.task import Outcome, Task, as_reward
from practicum.core.trace import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class SubTask:
    """What an action hands on: a task of another environment, and who does it."""

    environment: Environment
    task: Task
    role: str
    """Whose turns they are, for credit and for `agent.frozen`."""
    max_turns: int = 8
    """After so many the episode inside is over, as it is."""


@dataclass(slots=True)
class _Inside:
    """An episode that is under way inside."""

    subtask: SubTask
    session: Any
    number: int
    opened_by: int
    """Which turn handed it on."""
    turns: int = 0


class NestedSession(ABC):
    """A discrete session whose actions may hand on a task; closed by its environment's `open`."""

    own_role: str = "manager"

    def __init__(self) -> None:
        self.turn_rewards: list[float] = []
        """What each turn was paid, of all roles in order."""
        self._inside: _Inside | None = None
        self._opened = 0
        self._is_over = False
        self._stack = AsyncExitStack()

    @abstractmethod
    def own_prompt(self) -> list[Message]:
        """The messages that open the conversation of the one who hands on."""

    @abstractmethod
    def own_actions(self) -> tuple[ActionForm, ...]:
        """What it may do now."""

    @abstractmethod
    async def own_act(self, text: str) -> Observation | SubTask:
        """Do it, or hand on a task."""

    @abstractmethod
    async def came_of(self, subtask: SubTask, outcome: Outcome) -> Observation:
        """What it is shown of a task that it handed on, and what that turn is paid for it."""

    def role(self) -> str:
        """See `HasRoles`."""
        if self._inside is None:
            return self.own_role
        session, subtask = self._inside.session, self._inside.subtask
        name = session.role() if isinstance(session, HasRoles) else subtask.role
        return f"{name}/{self._inside.number}"

    def prompt(self) -> list[Message]:
        """Of whoever acts next."""
        found: list[Message] = (
            self._inside.session.prompt() if self._inside is not None else self.own_prompt()
        )
        return found

    def actions(self) -> tuple[ActionForm, ...]:
        """Of whoever acts next."""
        if self._inside is None:
            return self.own_actions()
        return tuple(self._inside.session.actions())

    async def act(self, text: str) -> Observation:
        """A turn of whoever acts next."""
        if self._is_over:
            raise RuntimeError("the episode is over; open a new session for another one")
        if self._inside is not None:
            return await self._act_inside(self._inside, text)
        done = await self.own_act(text)
        if isinstance(done, Observation):
            self.turn_rewards.append(as_reward(done.reward or 0.0))
            self._is_over = done.terminated
            return done
        self.turn_rewards.append(0.0)
        session = await self._stack.enter_async_context(done.environment.open(done.task))
        self._opened += 1
        self._inside = _Inside(done, session, self._opened, len(self.turn_rewards) - 1)
        handed = f"{done.role} does it now: {done.task.instruction}".rstrip(": ")
        return Observation(message=Message(role="user", content=handed), reward=0.0)

    async def _act_inside(self, inside: _Inside, text: str) -> Observation:
        seen: Observation = await inside.session.act(text)
        inside.turns += 1
        own = as_reward(seen.reward or 0.0)
        self.turn_rewards.append(own)
        if not seen.terminated and inside.turns < inside.subtask.max_turns:
            return seen
        outcome = await inside.session.outcome()
        self._inside = None
        told = await self.came_of(inside.subtask, outcome)
        paid = as_reward(told.reward or 0.0)
        self.turn_rewards[inside.opened_by] += paid
        self._is_over = told.terminated
        return Observation(message=told.message, reward=own + paid, terminated=told.terminated)

    async def close(self) -> None:
        """Close what is open inside."""
        await self._stack.aclose()
