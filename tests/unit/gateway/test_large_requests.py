"""Large requests hold up nobody, and what cannot fit is refused before it is worked on."""

import asyncio
import threading
from collections.abc import Mapping, Sequence

import pytest
from tests.unit.engine.reference import tiny
from tests.unit.gateway.pieces import CharacterCodec, SlowSampler, say

from practicum.core.conversation import RolloutLimits, SampledTurn
from practicum.core.errors import ContextFull, MessageTooLong
from practicum.core.sampling import SamplingParams
from practicum.core.trace import Message, ToolSpec
from practicum.gateway import large_requests, rollouts
from practicum.gateway.capture import CapturedConversation
from practicum.gateway.large_requests import INLINE_BYTES, in_large_thread
from practicum.gateway.requests import ChatRequest, ParsedRequest, Refused
from practicum.gateway.rollouts import OpenRollouts
from practicum.gateway.server.answering import RequestSampler
from practicum.gateway.server.gateway_settings import GatewaySettings


class WatchedCodec(CharacterCodec):
    """Notes which thread it works in, and may be held there."""

    def __init__(self) -> None:
        self.threads: list[str] = []
        self.may_go_on = threading.Event()
        self.may_go_on.set()

    def prompt(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec] = (),
        turns: Mapping[int, SampledTurn] | None = None,
    ) -> tuple[int, ...]:
        self.threads.append(threading.current_thread().name)
        assert self.may_go_on.wait(240)
        return super().prompt(messages, tools, turns)

    def aside(self) -> "WatchedCodec":
        return self

    def longest_token(self) -> int:
        return 100


def talk(codec: WatchedCodec, context_tokens: int = 10**6) -> CapturedConversation:
    sampler = SlowSampler(lambda request: "yes")
    params = SamplingParams(max_tokens=8)
    return CapturedConversation(sampler, codec, params, 1, context_tokens=context_tokens)  # type: ignore[arg-type]


def asking(text: str, **more: object) -> ChatRequest:
    return ChatRequest(messages=(say("user", text),), params=SamplingParams(max_tokens=8), **more)  # type: ignore[arg-type]


async def test_large_prompts_are_made_in_their_thread_and_small_ones_here() -> None:
    codec = WatchedCodec()
    conversation = talk(codec)
    await conversation.respond(asking("q"))
    await conversation.respond(asking("q" * (INLINE_BYTES + 1)))
    await conversation.respond(asking("q", body_bytes=INLINE_BYTES + 1))  # by its tools
    here = threading.current_thread().name
    assert codec.threads[0] == here
    assert all(name.startswith("large-requests") for name in codec.threads[1:])


async def test_others_are_answered_while_a_large_prompt_is_made() -> None:
    codec = WatchedCodec()
    conversation = talk(codec)
    codec.may_go_on.clear()
    large = asyncio.create_task(conversation.respond(asking("q" * (INLINE_BYTES + 1))))
    while not codec.threads:
        await asyncio.sleep(0.001)
    other = WatchedCodec()
    assert (await talk(other).respond(asking("q"))).message.content == "yes"
    assert not large.done()
    codec.may_go_on.set()
    assert (await large).message.content == "yes"


async def test_what_cannot_fit_is_refused_before_it_is_tokenised() -> None:
    codec = WatchedCodec()
    conversation = talk(codec, context_tokens=1000)
    await conversation.respond(asking("q" * 900))
    with pytest.raises(ContextFull, match=r"100000 characters are 1000 tokens or more"):
        await conversation.respond(asking("q" * 100_000))
    with pytest.raises(ContextFull, match="the conversation is 5003 tokens long"):
        await conversation.respond(asking("q" * 5000))  # could have fitted, for all one knew
    assert len(codec.threads) == 2


def test_no_token_is_longer_than_the_longest() -> None:
    codec = tiny().codec
    text = "Some words: " + "x" * 5000
    assert len(text) <= codec.longest_token() * len(codec.encode_text(text))


def test_the_codec_for_another_thread_gives_the_same_tokens() -> None:
    codec = tiny().codec
    messages = (say("system", "s"), say("user", "with <|im_end|> in it"))
    assert codec.aside() is codec.aside() is not codec
    assert codec.aside().prompt(messages) == codec.prompt(messages)


async def test_too_many_that_wait_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_requests, "MOST_IN_LINE", 2)
    held = threading.Event()
    first, second = (asyncio.create_task(in_large_thread(held.wait)) for _ in range(2))
    await asyncio.sleep(0)
    with pytest.raises(Refused) as caught:
        await in_large_thread(held.wait)
    assert (caught.value.status, caught.value.kind) == (503, "overloaded_error")
    held.set()
    assert await asyncio.gather(first, second) == [True, True]
    assert await in_large_thread(lambda: 3) == 3


async def test_requests_that_wait_are_bounded_by_their_bytes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rollouts, "MOST_WAITING_BYTES", 1000)
    registry = OpenRollouts()
    rollout = registry.open(talk(WatchedCodec()), RolloutLimits(concurrency=1))
    with registry.admit(rollout, turns=1, max_tokens=1):
        waiting = asyncio.create_task(registry.wait_for_place(rollout, 30, 900))
        await asyncio.sleep(0)
        with pytest.raises(Refused, match="under way"):
            await registry.wait_for_place(rollout, 30, 200)
        assert not waiting.done()
    await waiting
    assert rollout.use.waiting_bytes == 0
    await registry.wait_for_place(rollout, 30, 5000)  # nobody is in its way


async def test_twenty_thousand_tools_are_refused_before_the_template_sees_them() -> None:
    codec = WatchedCodec()
    registry = OpenRollouts()
    rollout = registry.open(talk(codec), RolloutLimits())
    tools = tuple(ToolSpec(name=f"t{n}") for n in range(20_000))
    sampler = RequestSampler(registry, GatewaySettings(), None)
    with pytest.raises(Refused, match="more than 1000 tools"):
        await sampler.turns(rollout, ParsedRequest(request=asking("q", tools=tools)))
    assert not codec.threads


def test_rendered_prompts_that_are_kept_are_bounded_by_their_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from practicum.engine.chat import chat_template
    from practicum.engine.chat.chat_template import TemplateRenderer

    monkeypatch.setattr(chat_template, "CACHE_BYTES", 2_000_000)
    renderer = TemplateRenderer(tiny().tokenizer, "tiny")
    for number in range(30):
        renderer.encode(f"{number} " + "x" * 10_000)
        assert 0 < renderer.encode.bytes <= 2_000_000  # type: ignore[attr-defined]
    before = renderer.encode.bytes  # type: ignore[attr-defined]
    renderer.encode("x" * 500_000)
    assert renderer.encode.bytes == before  # type: ignore[attr-defined]


async def test_a_message_that_cannot_fit_is_refused_before_it_is_tokenised_in_a_loops_turn() -> (
    None
):
    codec = WatchedCodec()
    conversation = talk(codec, context_tokens=1000)
    huge = [Message(role="user", content="q" * 10_000_000)]
    with pytest.raises(MessageTooLong, match=r"10000000 characters are 100000 tokens or more"):
        await conversation.complete(huge)
    assert codec.threads == []
    assert conversation.nodes == []
