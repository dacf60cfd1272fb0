"""One request with its whole conversation: what is sampled, told, refused and kept."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from tests.unit.engine.chat.families import codec_of
from tests.unit.gateway.pieces import say, talk

from practicum.core.conversation import TurnDelta
from practicum.core.errors import ContextFull
from practicum.core.sampling import SamplingParams
from practicum.gateway import capture
from practicum.gateway.requests import ChatRequest

QUESTION = ChatRequest(messages=(say("user", "q"),), params=SamplingParams(max_tokens=50))


@pytest.mark.parametrize(("pace_s", "least"), [(0.0, 10), (60.0, 2)])
async def test_what_is_told_while_it_is_sampled_is_the_message(
    pace_s: float, least: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tokens that follow each other faster than the pace are told together, but for the first."""
    monkeypatch.setattr(capture, "MIN_INTERVAL_S", pace_s)
    conversation, _ = talk(lambda request: "some words")
    told: list[TurnDelta] = []
    turn = await conversation.respond(replace(QUESTION, on_delta=told.append))
    assert "".join(delta.text for delta in told) == turn.message.content == "some words"
    assert len(told) == least
    assert told[0].text == "s"
    assert turn.prompt_tokens == len(turn.prompt_ids) == 4
    assert conversation.nodes[turn.node].duration_s > 0


async def test_a_stop_text_is_neither_told_nor_said_but_kept_as_it_was_sampled() -> None:
    conversation, sampler = talk(lambda request: "one STOP")
    told: list[TurnDelta] = []
    params = SamplingParams(max_tokens=50, stop=("STOP",))
    turn = await conversation.respond(replace(QUESTION, params=params, on_delta=told.append))
    assert turn.message.content == "".join(d.text for d in told) == "one "
    assert conversation.nodes[turn.node].token_ids == sampler.sampled[0]
    # The client sends back what it was told, and the turn is known by it.
    back = (*QUESTION.messages, turn.message, say("user", "more"))
    await conversation.respond(replace(QUESTION, messages=back))
    assert conversation.nodes[2].parent == turn.node


async def test_of_a_plain_text_thinking_is_told_and_a_stop_text_is_not() -> None:
    conversation, _ = talk(lambda request: "<think>\nSo.\n</think>\n\nYes. STOP")
    conversation.codec = codec_of("qwen3")  # type: ignore[assignment]
    told: list[TurnDelta] = []
    params = SamplingParams(max_tokens=50, stop=("STOP",))
    asked = replace(QUESTION, text="q", params=params, on_delta=told.append)
    turn = await conversation.respond(asked)
    assert turn.message.content == "<think>\nSo.\n</think>\n\nYes. "
    assert {delta.kind for delta in told} == {"content"}
    assert "".join(delta.text for delta in told) == turn.message.content
    assert not turn.message.reasoning


async def test_a_request_longer_than_the_context_is_refused_and_one_that_fits_is_cut() -> None:
    conversation, sampler = talk(lambda request: "x" * 9)
    sampler_room = sampler.context_tokens
    long = (say("user", "w" * (sampler_room - 10)),)
    params = SamplingParams(max_tokens=1000)
    turn = await conversation.respond(replace(QUESTION, messages=long, params=params))
    assert sampler.requests[0].params.max_tokens == sampler_room - turn.prompt_tokens == 7
    assert not turn.completion.finished
    with pytest.raises(ContextFull, match="send a shorter one"):
        await conversation.respond(replace(QUESTION, messages=(say("user", "w" * sampler_room),)))
    assert len(conversation.nodes) == 2


async def test_a_cancelled_request_leaves_nothing() -> None:
    conversation, sampler = talk(pause_s=10)
    work = asyncio.create_task(conversation.respond(QUESTION))
    await asyncio.sleep(0.01)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert (conversation.nodes, sampler.cancelled) == ([], 1)


async def test_requests_at_once_have_seeds_of_their_own_and_share_their_prompt() -> None:
    conversation, sampler = talk(pause_s=0.001)
    await asyncio.gather(*(conversation.respond(QUESTION) for _ in range(4)))
    assert len({request.params.seed for request in sampler.requests}) == 4
    assert [node.parent for node in conversation.nodes] == [None, 0, 0, 0, 0]


async def test_turns_of_the_agent_loop_are_known_to_whole_conversations() -> None:
    class Both(type(talk()[0].codec)):  # type: ignore[misc]
        def open(self, messages: Any, tools: Any = ()) -> tuple[int, ...]:
            return tuple(self.prompt(messages, tools))

    conversation, _ = talk(lambda request: "hello")
    conversation.codec = Both()
    await conversation.complete([say("user", "q")])
    back = (say("user", "q"), say("assistant", "hello"), say("user", "more"))
    await conversation.respond(replace(QUESTION, messages=back))
    assert [node.parent for node in conversation.nodes] == [None, 0, 1, 2]
