"""A session that writes down what OpenHands calls, and an agent that is loaded once."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from practicum.agents.installation import installed
from practicum.agents.openhands.openhands_agent import OpenHandsAgent
from practicum.core.conversation import AgentReport, Assignment
from practicum.core.interfaces import Observation
from practicum.core.task import Outcome, Task
from practicum.core.trace import Message, ToolCall, ToolSpec
from practicum_envs.shell.protocol import TOOLS

FOUND = installed()
needs_openhands = pytest.mark.skipif(
    FOUND is None, reason="needs OpenHands: practicum agents install openhands"
)
TRACE = "step-1/0/a task/2"


@dataclass
class Notebook:
    """A session that writes down what is called."""

    rounds: int = 99
    called: list[ToolCall] = field(default_factory=list)

    def prompt(self) -> list[Message]:
        return [Message(role="system", content="rules"), Message(role="user", content="Say hi.")]

    def tools(self) -> list[ToolSpec]:
        return list(TOOLS)

    async def call(self, call: ToolCall) -> Observation:
        self.called.append(call)
        over = call.name != "bash" or len(self.called) >= self.rounds
        text = f"ran {call.arguments.get('script')}"
        return Observation(message=Message(role="tool", content=text), terminated=over)

    async def outcome(self) -> Outcome:
        return Outcome(success=None)

    @property
    def scripts(self) -> list[Any]:
        return [call.arguments["script"] for call in self.called if call.name == "bash"]


@contextmanager
def loaded_agent() -> Iterator[OpenHandsAgent]:
    """An agent whose SDK stays loaded, for all tests of a file."""
    assert FOUND is not None
    agent = OpenHandsAgent(python=FOUND.python)
    with agent.host.keep_loaded():
        yield agent


async def work(agent: OpenHandsAgent, session: Any, at: Any) -> AgentReport:
    task = Task(id="a task", env="shell", split="train", instruction="x")
    async with asyncio.timeout(120):
        return await agent.work(Assignment(task=task, trace_id=TRACE), session, at)
