"""Policies without a model: what an environment is checked with and models are compared with."""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from practicum.core.errors import EnvironmentFailure, boundary
from practicum.core.interfaces import DiscreteSession, Environment, Observation
from practicum.core.task import Outcome, Task
from practicum.core.tool_calls import MalformedCall, read_tool_call
from practicum.environments.action_forms import random_action_text
from practicum.environments.offers import Adaptive

__all__ = [
    "Actor",
    "DoNothingActor",
    "Play",
    "RandomActor",
    "Reference",
    "ReferenceActor",
    "ScriptActor",
    "play_episode",
    "take_turn",
]

MAX_TURNS = 8
"""The default turn limit of a rollout."""


class Actor(Protocol):
    """Says what to do next. One actor may play many sessions, also at the same time."""

    def next_text(self, session: DiscreteSession, task: Task) -> str | None:
        """The next action's text, or None to stop."""
        ...


class DoNothingActor:
    """Stops at once."""

    def next_text(self, session: DiscreteSession, task: Task) -> str | None:
        """Nothing."""
        return None


class ReferenceActor:
    """Plays the environment's own solution."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._playing: WeakKeyDictionary[DiscreteSession, Reference] = WeakKeyDictionary()

    def next_text(self, session: DiscreteSession, task: Task) -> str | None:
        """The next turn of the solution."""
        if session not in self._playing:
            self._playing[session] = Reference(self._environment, task)
        return self._playing[session].next_turn()

    def saw(self, session: DiscreteSession, content: str) -> None:
        """What the last turn was answered."""
        self._playing[session].saw(content)


class Reference:
    """The solution of one task, turn by turn."""

    def __init__(self, environment: Environment, task: Task) -> None:
        self._environment = environment
        self._task = task
        self._left = iter(environment.reference(task))
        self._seen: list[str] = []

    def next_turn(self) -> str | None:
        """The next turn; None at the end."""
        if isinstance(self._environment, Adaptive):
            return self._environment.reference_turn(self._task, tuple(self._seen))
        return next(self._left, None)

    def saw(self, content: str) -> None:
        """What the turn was answered."""
        self._seen.append(content)


class ScriptActor:
    """Plays the same turns in every session."""

    def __init__(self, turns: Sequence[str]) -> None:
        self._turns = tuple(turns)
        self._played: WeakKeyDictionary[DiscreteSession, int] = WeakKeyDictionary()

    def next_text(self, session: DiscreteSession, task: Task) -> str | None:
        """The next turn."""
        at = self._played.get(session, 0)
        self._played[session] = at + 1
        return self._turns[at] if at < len(self._turns) else None


class RandomActor:
    """Draws evenly among the actions, and evenly among the characters of an argument.

    The draws depend on the seed, the task and how often the actor has met the task, not on what
    else it plays meanwhile.
    """

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed
        self._met: Counter[str] = Counter()
        self._chances: WeakKeyDictionary[DiscreteSession, random.Random] = WeakKeyDictionary()

    def next_text(self, session: DiscreteSession, task: Task) -> str | None:
        """An action; never None."""
        if session not in self._chances:
            key = f"{self._seed} {task.id} {self._met[task.id]}"
            self._met[task.id] += 1
            self._chances[session] = random.Random(key)
        return random_action_text(session.actions(), self._chances[session])


@dataclass(frozen=True, slots=True, kw_only=True)
class Play:
    """One finished episode of an actor."""

    texts: tuple[str, ...]
    rewards: tuple[float | None, ...]
    terminated: bool
    outcome: Outcome

    @property
    def earned(self) -> float:
        """What the turns paid together."""
        return sum(r for r in self.rewards if r is not None)


async def play_episode(
    environment: Environment, task: Task, actor: Actor, max_turns: int = MAX_TURNS
) -> Play:
    """Let an actor play one task until it stops, the episode ends or the turns are used up."""
    texts: list[str] = []
    rewards: list[float | None] = []
    terminated = False
    with boundary(EnvironmentFailure, f"task {task.id!r}"):
        async with environment.open(task) as session:
            while not terminated and len(texts) < max_turns:
                text = actor.next_text(session, task)
                if text is None:
                    break
                seen = await take_turn(session, text)
                texts.append(text)
                rewards.append(seen.reward)
                if isinstance(actor, ReferenceActor):
                    actor.saw(session, seen.message.content)
                terminated = seen.terminated
            outcome = await session.outcome()
    return Play(texts=tuple(texts), rewards=tuple(rewards), terminated=terminated, outcome=outcome)


async def take_turn(session: Any, text: str) -> Observation:
    """Carry out a written turn: an action of a discrete session, a call of a session with tools."""
    if hasattr(session, "act"):
        observation: Observation = await session.act(text)
        return observation
    try:
        call = read_tool_call(text, session.tools())
    except MalformedCall as wrong:
        raise ValueError(f"{text!r} is not a call: {wrong}") from None
    answer: Observation = await session.call(call)
    return answer
