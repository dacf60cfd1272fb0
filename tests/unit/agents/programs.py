"""What agents that are programs need in tests: a task, an address, a session."""

from typing import Any

from practicum.core.conversation import Assignment, Endpoint
from practicum.core.interfaces import Observation
from practicum.core.sampling import ActionForm, Completion
from practicum.core.task import Outcome, Task
from practicum.core.trace import Message, StopReason

TASK = Task(
    id="a1",
    env="tasks",
    split="train",
    instruction="2 + 2 = ?",
    data={"answer": "4", "unit": "apples"},
)
ASSIGNMENT = Assignment(task=TASK, trace_id="step-1/0/a1/0")


class Address:
    """A conversation of which only the address is asked."""

    def __init__(self, limit: StopReason | None = None) -> None:
        self._limit = limit

    def endpoint(self) -> Endpoint:
        return Endpoint(url="http://127.0.0.1:9/rollouts/r1", key="rk_r1_secret")

    async def complete(self, messages: Any, actions: Any = (), tools: Any = ()) -> Completion:
        raise NotImplementedError

    def limit_met(self) -> StopReason | None:
        return self._limit


class Note:
    """A session that takes one answer."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def prompt(self) -> list[Message]:
        return [Message(role="user", content="2 + 2 = ?")]

    def actions(self) -> tuple[ActionForm, ...]:
        return ()

    async def act(self, text: str) -> Observation:
        self.said.append(text)
        return Observation(message=Message(role="user", content="Noted."), terminated=True)

    async def outcome(self) -> Outcome:
        return Outcome(success=self.said == ["4"])
