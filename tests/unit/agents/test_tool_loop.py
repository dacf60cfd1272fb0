from collections import Counter as Counted
from typing import Any

import pytest

from practicum.agents.call_styles import NativeCalls, ReactCalls
from practicum.agents.loops import ContextBudget, ToolLoopAgent
from practicum.core.errors import ContextFull, EnvironmentFailure
from practicum.core.interfaces import Observation
from practicum.core.sampling import SamplingParams
from practicum.core.task import Outcome
from practicum.core.tool_calls import write_tool_call
from practicum.core.trace import Message, StopReason, ToolCall, ToolSpec, Trace
from practicum.engine.sampling.scripted_sampler import ScriptedSampler
from practicum.gateway.capture import CapturedConversation
from practicum.gateway.scripted_conversation import ScriptedConversation

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

    with pytest.raises(ContextFull, match="full"):
        await ToolLoopAgent().run(Counter(goal=1), Full())


async def test_a_tool_that_breaks_is_the_environments_fault() -> None:
    with pytest.raises(EnvironmentFailure, match="ZeroDivisionError"):
        await ToolLoopAgent().run(Counter(goal=1, fails=True), Recorded(GO))


def read_lines(token_ids: Any, tools: Any) -> Message:
    """A native form of the tests' own: each line that begins with ! is a call."""
    lines = bytes(token_ids).decode().splitlines()
    names = [line[1:] for line in lines if line.startswith("!")]
    calls = [ToolCall(name=name, id=f"call_{at}") for at, name in enumerate(names)]
    return Message(role="assistant", content="", tool_calls=tuple(calls))


def native(**options: Any) -> ToolLoopAgent:
    return ToolLoopAgent(style=NativeCalls(read=read_lines), **options)


async def test_all_calls_of_a_turn_are_carried_out_and_answered_in_order_with_their_ids() -> None:
    session, conversation = Counter(goal=4), Recorded("!go\n!fly\n!go", GO, "!go")
    assert await native().run(session, conversation) is StopReason.FINISHED
    answers = conversation.nodes[2].messages
    assert [(m.role, m.content, m.tool_call_id) for m in answers] == [
        ("tool", "1", "call_0"),
        ("tool", "Error: there is no tool 'fly'; the tools are go.", "call_1"),
        ("tool", "2", "call_2"),
    ]
    assert [m.is_error for m in answers] == [False, True, False]
    assert len(session.calls) == 4  # the second turn had no native call and was read as text


async def test_calls_after_the_end_of_the_episode_are_not_carried_out() -> None:
    session = Counter(goal=1)
    assert await native().run(session, Recorded("!go\n!go")) is StopReason.FINISHED
    assert len(session.calls) == 1


async def test_words_without_a_call_are_answered_once_and_then_end_the_episode() -> None:
    session, conversation = Counter(goal=1), Recorded("all done", "really", GO)
    agent = ToolLoopAgent(on_text="finish")
    assert await agent.run(session, conversation) is StopReason.FINISHED
    assert len(conversation.nodes) == 4
    assert not session.calls
    broken = Recorded('{"name": "go", ', '{"name": ', GO)
    session = Counter(goal=1)
    assert await agent.run(session, broken) is StopReason.FINISHED
    assert len(session.calls) == 1  # a broken call is not words: it is answered every time


async def test_react_shows_the_tools_in_words_and_answers_with_observations() -> None:
    session = Counter(goal=2)
    conversation = Recorded("Thought: go\nAction: go\nAction Input: {}", "Action: go")
    agent = ToolLoopAgent(style=ReactCalls())
    assert await agent.run(session, conversation) is StopReason.FINISHED
    assert conversation.offered == [(), ()]
    opening, answer = conversation.nodes[0].messages, conversation.nodes[2].messages
    assert [m.role for m in opening] == ["system", "user"]
    assert "go" in opening[0].content
    assert [(m.role, m.content) for m in answer] == [("user", "Observation: 1")]


class Bytes:
    """A codec that is only asked how long things are."""

    def open(self, messages: Any, tools: Any = ()) -> tuple[int, ...]:
        return tuple("".join(m.content for m in messages).encode())

    def extend(self, messages: Any, ended_turn: bool) -> tuple[int, ...]:
        return (*self.open(messages), 0)

    def write(self, message: Message) -> tuple[int, ...]:
        raise NotImplementedError


@pytest.mark.parametrize(("tokens", "turns"), [(1 + len(GO) + 2 + 9, 2), (1 + len(GO) + 10, 1)])
async def test_a_budget_ends_the_episode_before_the_turn_that_would_not_fit(
    tokens: int, turns: int
) -> None:
    # Opening "0", a turn, an answer of one character and its mark, and nine tokens for a turn.
    budget = ContextBudget(codec=Bytes(), tokens=tokens, turn_tokens=9)
    session, conversation = Counter(goal=9), Recorded(*[GO] * 9)
    with pytest.raises(ContextFull, match=f"agent.context_tokens is {tokens}; raise it"):
        await ToolLoopAgent(budget=budget).run(session, conversation)
    assert len(session.calls) == turns


async def test_a_long_episode_goes_on_with_earlier_results_folded() -> None:
    class Long(Counter):
        async def call(self, call: ToolCall) -> Observation:
            seen = await super().call(call)
            message = Message(role="tool", content=f"result {len(self.calls)} " + "x" * 400)
            return Observation(message=message, terminated=seen.terminated)

    sampler = ScriptedSampler([GO] * 9)
    made = CapturedConversation(sampler, Bytes(), SamplingParams(max_tokens=9), seed=0)
    budget = ContextBudget(codec=Bytes(), tokens=2000, turn_tokens=9, fold=True)
    session = Long(goal=8)
    plain = ContextBudget(codec=Bytes(), tokens=2000, turn_tokens=9)
    with pytest.raises(ContextFull):
        await ToolLoopAgent(budget=plain).run(Long(goal=8), Recorded(*[GO] * 9))
    assert await ToolLoopAgent(budget=budget).run(session, made) is StopReason.FINISHED
    assert len(session.calls) == 8
    trace = Trace(id="t", task_id="a", env="e", nodes=tuple(made.nodes))
    turns = [node for node in trace.nodes if node.sampled is not None]
    assert len(turns) == 8, "every turn is sampled once, whatever was folded after it"
    children = Counted(node.parent for node in trace.nodes)
    assert max(children.values()) >= 2, "folding makes a branch"
    assert children[None] == 1, "of the same beginning"
    shown = [m.content for node in trace.nodes for m in node.messages if m.role == "tool"]
    notice = "[folded: 309 of 409 characters left out]"
    assert any(text.startswith("result 1 ") and text.endswith(notice) for text in shown)
    for end in [index for index in range(len(trace.nodes)) if index not in children]:
        assert sum(len(trace.nodes[index].token_ids) for index in made.graph.path(end)) <= 2000


async def test_half_a_character_in_an_argument_costs_the_policy_a_turn_and_breaks_nothing() -> None:
    """An environment that encodes it would raise, and the episode would be masked."""

    class Encoding(Counter):
        def tools(self) -> list[ToolSpec]:
            parameters = {"type": "object", "properties": {"text": {"type": "string"}}}
            return [ToolSpec(name="go", parameters=parameters)]

        async def call(self, call: ToolCall) -> Observation:
            str(call.arguments.get("text")).encode()
            return await super().call(call)

    odd = '{"name": "go", "arguments": {"text": "\\ud800"}}'
    unknown = odd.replace("text", "\\ud801")  # the error quotes it
    session, conversation = Encoding(goal=1), Recorded(odd, unknown, GO)
    assert await ToolLoopAgent().run(session, conversation) is StopReason.FINISHED
    "".join(m.content for n in conversation.nodes for m in n.messages).encode()
    answer = conversation.nodes[2].messages[-1]
    assert answer.content == "Error: an argument has '\\ud800', which is no character."
    assert len(session.calls) == 1
