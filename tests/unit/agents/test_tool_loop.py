from typing import Any

import pytest

from practicum.agents import ToolLoopAgent
from practicum.core.errors import ContextFull, EnvironmentFailure
from practicum.core.interfaces import Observation
from practicum.core.task import Outcome
from practicum.core.tool_calls import write_tool_call
from practicum.core.trace import Message, StopReason, ToolCall, ToolSpec
from practicum.gateway import ScriptedConversation

GO = write_tool_call(ToolCall(name="go"))


class Counter:
    """Ends when it was told to go often enough."""

    def __init__(self, goal: int, fails: bool = False) -> None:
        self.goal, self.fails = goal, fails
        self.calls: list[ToolCall] = []

    def prompt(self) -> list[Message]:
        return [Message(role="user", content="0")]

    def tools(self) -> list[ToolSpec]:
        return [ToolSpec(name="go")]

    async def call(self, call: ToolCall) -> Observation:
        if self.fails:
            raise ZeroDivisionError
        self.calls.append(call)
        message = Message(role="tool", content=str(len(self.calls)))
        return Observation(message=message, terminated=len(self.calls) == self.goal)

    async def outcome(self) -> Outcome:
        return Outcome(success=True)


class Recorded(ScriptedConversation):
    """Keeps the tools it was told of."""

    def __init__(self, *turns: str) -> None:
        left = iter(turns)
        super().__init__(lambda actions: next(left), name="script")
        self.offered: list[tuple[ToolSpec, ...]] = []

    async def complete(self, messages: Any, actions: Any = (), tools: Any = ()) -> Any:
        self.offered.append(tools)
        return await super().complete(messages, actions, tools)


async def test_it_calls_until_the_environment_ends_the_episode() -> None:
    session, conversation = Counter(goal=2), Recorded(GO, GO)
    assert await ToolLoopAgent().run(session, conversation) is StopReason.FINISHED
    said = [[(m.role, m.content) for m in n.messages] for n in conversation.nodes]
    assert said == [[("user", "0")], [("assistant", GO)], [("tool", "1")], [("assistant", GO)]]
    assert conversation.offered[0] == (ToolSpec(name="go"),)


async def test_a_call_that_cannot_be_read_is_answered_and_costs_a_turn() -> None:
    session, conversation = Counter(goal=1), Recorded("go!", GO)
    assert await ToolLoopAgent(max_turns=2).run(session, conversation) is StopReason.FINISHED
    (answer,) = conversation.nodes[2].messages
    assert answer.role == "tool"
    assert answer.content.startswith("Error: no tool was called")
    assert len(session.calls) == 1
    stopped = await ToolLoopAgent(max_turns=2).run(Counter(goal=1), Recorded("a", "b"))
    assert stopped is StopReason.MAX_TURNS


async def test_a_full_context_ends_the_episode_there() -> None:
    class Full:
        async def complete(self, messages: Any, actions: Any = (), tools: Any = ()) -> Any:
            raise ContextFull("full")

    assert await ToolLoopAgent().run(Counter(goal=1), Full()) is StopReason.CONTEXT_FULL


async def test_a_tool_that_breaks_is_the_environments_fault() -> None:
    with pytest.raises(EnvironmentFailure, match="ZeroDivisionError"):
        await ToolLoopAgent().run(Counter(goal=1, fails=True), Recorded(GO))
