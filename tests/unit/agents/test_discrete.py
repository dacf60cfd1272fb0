from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from practicum.agents.loops import DiscreteAgent
from practicum.core.errors import ContextFull, EnvironmentFailure
from practicum.core.interfaces import Observation
from practicum.core.sampling import ActionForm
from practicum.core.task import Outcome
from practicum.core.trace import Message, StopReason
from practicum.gateway.scripted_conversation import ScriptedConversation


class Counter:
    """Ends when it has been told `go` often enough."""

    def __init__(self, goal: int, fails_in: str = "") -> None:
        self.goal, self.fails_in = goal, fails_in
        self.told: list[str] = []

    def _maybe_fail(self, where: str) -> None:
        if where == self.fails_in:
            raise ZeroDivisionError(where)

    def prompt(self) -> list[Message]:
        self._maybe_fail("prompt")
        return [Message(role="system", content="count"), Message(role="user", content="0")]

    def actions(self) -> tuple[ActionForm, ...]:
        self._maybe_fail("actions")
        return (ActionForm(name=f"go {len(self.told)}"),)

    async def act(self, text: str) -> Observation:
        self._maybe_fail("act")
        self.told.append(text)
        message = Message(role="user", content=str(len(self.told)))
        return Observation(message=message, reward=1.0, terminated=len(self.told) == self.goal)

    async def outcome(self) -> Outcome:
        return Outcome(success=True)


def first_action(actions: tuple[ActionForm, ...]) -> str:
    return actions[0].name


async def drive(session: Any, max_turns: int) -> tuple[StopReason, ScriptedConversation]:
    conversation = ScriptedConversation(first_action, name="script")
    return await DiscreteAgent(max_turns=max_turns).run(session, conversation), conversation


async def test_it_acts_until_the_environment_ends_the_episode() -> None:
    session = Counter(goal=3)
    stop, conversation = await drive(session, max_turns=8)
    assert stop is StopReason.FINISHED
    assert session.told == ["go 0", "go 1", "go 2"]
    said = [[m.content for m in n.messages] for n in conversation.nodes]
    assert said == [["count", "0"], ["go 0"], ["1"], ["go 1"], ["2"], ["go 2"]]


async def test_it_stops_at_the_turn_limit() -> None:
    session = Counter(goal=9)
    stop, _ = await drive(session, max_turns=4)
    assert stop is StopReason.MAX_TURNS
    assert len(session.told) == 4


async def test_an_end_on_the_last_turn_is_an_end() -> None:
    stop, _ = await drive(Counter(goal=4), max_turns=4)
    assert stop is StopReason.FINISHED


@pytest.mark.parametrize("where", ["prompt", "actions", "act"])
async def test_what_the_environment_raises_is_the_environments_failure(where: str) -> None:
    with pytest.raises(EnvironmentFailure, match=f"ZeroDivisionError: {where}"):
        await drive(Counter(goal=3, fails_in=where), max_turns=4)


async def test_what_the_conversation_raises_is_not() -> None:
    def out_of_words(actions: tuple[ActionForm, ...]) -> str:
        raise LookupError("no words")

    with pytest.raises(LookupError):
        await DiscreteAgent().run(Counter(goal=1), ScriptedConversation(out_of_words, name="x"))


class Overflowing:
    """A conversation whose second turn does not fit."""

    def __init__(self) -> None:
        self.asked = 0

    async def complete(self, messages: Any, actions: Any = ()) -> Any:
        self.asked += 1
        if self.asked > 1:
            raise ContextFull("too long")
        return await ScriptedConversation(lambda actions: "stay", name="x").complete(messages)


async def test_a_full_context_ends_the_episode_there() -> None:
    conversation = Overflowing()
    with pytest.raises(ContextFull):  # told apart from a prompt that never fitted by the rollout
        await DiscreteAgent(max_turns=5).run(Counter(goal=5), conversation)
    assert conversation.asked == 2


def saying(text: str) -> Counter:
    """A session with this prompt."""
    session = Counter(goal=2)
    session.prompt = lambda: [Message(role="user", content=text)]  # type: ignore[method-assign]
    return session


async def test_half_a_character_in_a_prompt_is_the_environments_failure_and_named() -> None:
    with pytest.raises(EnvironmentFailure, match=r"user prompt has '\\ud800' at character 4, half"):
        await drive(saying("say\ud800"), max_turns=4)


@given(st.text(st.sampled_from("aé\ud800\udfff") | st.characters()))
async def test_any_prompt_is_told_or_can_be_encoded_and_any_observation_can(text: str) -> None:
    session = Counter(goal=2)

    async def act(said: str) -> Observation:
        session.told.append(said)
        message = Message(role="user", content=text)
        return Observation(message=message, terminated=len(session.told) == 2)

    session.act = act  # type: ignore[method-assign]
    _, conversation = await drive(session, max_turns=4)
    "".join(m.content for n in conversation.nodes for m in n.messages).encode()
    try:
        await drive(saying(text), max_turns=4)
        text.encode()
    except EnvironmentFailure:
        with pytest.raises(UnicodeEncodeError):
            text.encode()
