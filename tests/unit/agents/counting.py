"""A small environment that fails where it is told to."""

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from practicum.agents.loops import DiscreteAgent
from practicum.agents.rollout import RolloutParts
from practicum.core.interfaces import Observation
from practicum.core.sampling import ActionForm
from practicum.core.task import Outcome, Split, Task
from practicum.core.trace import Message
from practicum.gateway.scripted_conversation import ScriptedConversation
from practicum.rewards.verifiable import TurnRewards

GOAL = 3


def make_task(name: str = "count") -> Task:
    return Task(id=name, env="counting", split="train")


class CountingSession:
    """Ends after three turns; each pays its number."""

    def __init__(self, fails_in: str, how: Callable[[], object] | None = None) -> None:
        self._fails_in = fails_in
        self._how = how
        self._turns = 0

    def _maybe_fail(self, where: str) -> None:
        if where == self._fails_in:
            if self._how is not None:
                self._how()
            raise OSError(f"broken {where}")

    def prompt(self) -> list[Message]:
        self._maybe_fail("prompt")
        return [Message(role="user", content="count to three")]

    def actions(self) -> tuple[ActionForm, ...]:
        self._maybe_fail("actions")
        return (ActionForm(name="next"),)

    async def act(self, text: str) -> Observation:
        if self._turns:
            self._maybe_fail("act")
        self._turns += 1
        message = Message(role="user", content=str(self._turns))
        return Observation(message=message, reward=1.0, terminated=self._turns == GOAL)

    async def outcome(self) -> Outcome:
        self._maybe_fail("outcome")
        rewards = tuple(float(i + 1) for i in range(self._turns))
        return Outcome(success=self._turns == GOAL, turn_rewards=rewards)


class CountingEnvironment:
    """Opens sessions, and counts how many are open."""

    name = "counting"

    def __init__(self, fails_in: str = "", how: Callable[[], object] | None = None) -> None:
        self.fails_in = fails_in
        self.how = how
        self.opened = self.closed = 0

    def tasks(self, split: Split, seed: int) -> Iterator[Task]:
        while True:
            yield make_task()

    @asynccontextmanager
    async def open(self, task: Task) -> AsyncIterator[Any]:
        if self.fails_in == "open":
            if self.how is not None:
                self.how()
            raise OSError("broken open")
        self.opened += 1
        yield CountingSession(self.fails_in, self.how)
        self.closed += 1
        if self.fails_in == "close":
            raise OSError("broken close")

    def reference(self, task: Task) -> Sequence[str]:
        return ("next",) * GOAL


def make_parts(environment: CountingEnvironment, **changes: Any) -> RolloutParts:
    """Everything in working order, but for the changes."""

    def converse(task: Task, seed: int) -> ScriptedConversation:
        return ScriptedConversation(lambda actions: "next", name=f"seed {seed}")

    return RolloutParts(
        **{
            "environment": environment,
            "agent": DiscreteAgent(max_turns=5),
            "reward": TurnRewards(),
            "converse": converse,
            "model": "script",
            **changes,
        }
    )
