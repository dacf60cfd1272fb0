"""A conversation that many use and that waits while the model learns."""

import asyncio
from collections.abc import Mapping, Sequence

from practicum.core.conversation import SampledTurn, TurnDelta
from practicum.core.sampling import Completion, SamplingParams, SamplingRequest
from practicum.core.trace import Message, ToolSpec
from practicum.gateway.requests import ChatRequest
from practicum.gateway.shared_conversation import SharedConversation


class LetterCodec:
    """One token a letter."""

    def prompt(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec] = (),
        turns: Mapping[int, SampledTurn] | None = None,
    ) -> tuple[int, ...]:
        return tuple(ord(letter) for message in messages for letter in message.content)

    def read(self, token_ids: Sequence[int], tools: Sequence[ToolSpec] = ()) -> Message:
        return Message(role="assistant", content="".join(map(chr, token_ids)))

    def reader(
        self,
        tools: Sequence[ToolSpec] = (),
        *,
        may_be_json: bool = False,
        is_plain: bool = False,
    ) -> "LetterReader":
        return LetterReader()


class LetterReader:
    """Holds everything back."""

    def __init__(self) -> None:
        self._heard: list[int] = []

    def feed(self, token_ids: Sequence[int]) -> list[TurnDelta]:
        self._heard += token_ids
        return []

    cut_call = None

    def end(self, *, is_cut: bool = False) -> list[TurnDelta]:
        return []

    def message(self) -> Message:
        return LetterCodec().read(self._heard)


class SlowSampler:
    """Answers with the letters it was made with, once it is let go."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.begun = 0

    async def sample(self, request: SamplingRequest) -> Completion:
        self.begun += 1
        await self.go.wait()
        return Completion(
            token_ids=(ord("x"),),
            text="x",
            logprobs=(-1.0,),
            loss_mask=(True,),
            log_kept=(),
            choices=(),
            temperature=1.0,
            fingerprint="w",
            finished=True,
            ended_turn=True,
        )


def shared() -> tuple[SharedConversation, SlowSampler]:
    sampler = SlowSampler()
    made = SharedConversation(sampler, LetterCodec(), SamplingParams(), 0)  # type: ignore[arg-type]
    return made, sampler


def asking(text: str) -> ChatRequest:
    return ChatRequest(messages=(Message(role="user", content=text),))


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_each_turn_has_a_number_that_leads_to_its_path() -> None:
    conversation, sampler = shared()
    sampler.go.set()
    first, second = [await conversation.respond(asking(text)) for text in ("a", "b")]
    assert (first.node, second.node) == (0, 1)
    path = conversation.path(second.node)
    assert path is not None
    assert [node.token_ids for node in path] == [(ord("b"),), (ord("x"),)]
    assert conversation.path(7) is None
    assert not conversation.is_stale(7)


async def test_numbers_are_never_given_twice_and_older_ones_are_known_as_such() -> None:
    conversation, sampler = shared()
    sampler.go.set()
    await conversation.respond(asking("a"))
    conversation.forget()
    assert conversation.path(0) is None
    assert conversation.is_stale(0)
    turn = await conversation.respond(asking("a"))
    assert turn.node == 1
    assert conversation.path(1) is not None
    assert len(conversation.nodes) == 2


async def test_learning_waits_for_what_is_under_way_and_what_comes_waits_for_learning() -> None:
    conversation, sampler = shared()
    events: list[str] = []

    async def ask(text: str) -> None:
        await conversation.respond(asking(text))
        events.append(text)

    async def learn() -> None:
        async with conversation.learning():
            events.append("learning")
            await settle()
            events.append("learned")

    early = asyncio.create_task(ask("early"))
    await settle()
    learning = asyncio.create_task(learn())
    await settle()
    late = asyncio.create_task(ask("late"))
    await settle()
    assert (sampler.begun, events) == (1, [])
    sampler.go.set()
    await asyncio.gather(early, learning, late)
    assert events == ["early", "learning", "learned", "late"]


async def test_a_request_that_is_given_up_does_not_hold_learning_up() -> None:
    conversation, sampler = shared()
    asked = asyncio.create_task(conversation.respond(asking("a")))
    await settle()
    asked.cancel()
    async with asyncio.timeout(120), conversation.learning():
        assert sampler.begun == 1
    assert conversation.nodes == []


async def test_learning_that_is_given_up_lets_requests_through_again() -> None:
    conversation, sampler = shared()
    asked = asyncio.create_task(conversation.respond(asking("a")))
    await settle()

    async def learn() -> None:
        async with conversation.learning():
            raise AssertionError("a request is under way")

    learning = asyncio.create_task(learn())
    await settle()
    learning.cancel()
    await settle()
    sampler.go.set()
    async with asyncio.timeout(120):
        await asked
        await conversation.respond(asking("b"))
