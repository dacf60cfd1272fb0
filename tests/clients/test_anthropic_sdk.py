"""The `anthropic` library, unmodified, against the gateway."""

import asyncio
from typing import Any

import pytest
from tests.clients.serving import Served, call, check_recomputed, serving

from practicum.core.conversation import RolloutLimits
from practicum.engine.policy import TorchPolicy

anthropic = pytest.importorskip(
    "anthropic", reason="needs the anthropic package; pip install anthropic"
)

HELLO: Any = [{"role": "user", "content": "Hello?"}]
NUMBERS = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "required": ["a", "b"],
}
TOOL: Any = {"name": "add", "description": "Adds.", "input_schema": NUMBERS}
VERDICT = {
    "type": "object",
    "properties": {"answer": {"enum": ["yes", "no"]}},
    "required": ["answer"],
    "additionalProperties": False,
}
BOTH = f"Let me see.\n{call('add', a=17, b=25)}\n{call('add', a=1, b=2)}"
ASKED: Any = {"model": "tiny", "max_tokens": 20}


def client_of(served: Served, **changes: Any) -> Any:
    options = {"base_url": served.endpoint.url, "api_key": served.endpoint.key, "max_retries": 0}
    return anthropic.Anthropic(**{**options, **changes})


def async_client_of(served: Served) -> Any:
    return anthropic.AsyncAnthropic(
        base_url=served.endpoint.url, api_key=served.endpoint.key, max_retries=0
    )


async def test_answers_of_the_model_are_recorded_as_sampled(policy: TorchPolicy) -> None:
    async with serving(policy) as served:

        def talk() -> tuple[Any, Any, int]:
            with client_of(served) as client:
                counted = client.messages.count_tokens(
                    model="tiny", system="Be brief.", messages=HELLO
                )
                first = client.messages.create(system="Be brief.", messages=HELLO, **ASKED)
                said = {"role": "assistant", "content": [b.model_dump() for b in first.content]}
                messages = [*HELLO, said, {"role": "user", "content": "And?"}]
                with client.messages.stream(
                    system="Be brief.", messages=messages, **ASKED
                ) as stream:
                    told = "".join(stream.text_stream)
                    last = stream.get_final_message()
                assert told == "".join(block.text for block in last.content)
                return first, last, counted.input_tokens

        first, last, counted = await asyncio.to_thread(talk)
        used = first.usage.output_tokens + last.usage.output_tokens
        assert served.check_all_recorded() == used > 0
        seen = first.usage.input_tokens + first.usage.cache_read_input_tokens
        assert seen == counted == len(served.nodes[0].token_ids)
        assert last.usage.cache_read_input_tokens > 0
        assert len(served.trace().leaves()) == 1
        assert served.conversation.graph.retokenised == 0
        check_recomputed(policy, served)


async def test_many_at_once_each_gets_its_own(policy: TorchPolicy) -> None:
    async with serving(policy) as served, async_client_of(served) as client:

        async def one(number: int) -> int:
            messages = [{"role": "user", "content": str(number)}]
            async with client.messages.stream(messages=messages, **ASKED) as stream:
                message = await stream.get_final_message()
            return int(message.usage.output_tokens)

        used = await asyncio.gather(*(one(number) for number in range(3)))
        assert served.check_all_recorded() == sum(used)
        assert len(served.trace().leaves()) == 3
        check_recomputed(policy, served)


async def test_structured_output_is_what_the_schema_allows(policy: TorchPolicy) -> None:
    async with serving(policy) as served, async_client_of(served) as client:
        answer = await client.messages.create(
            model="tiny",
            max_tokens=300,
            messages=HELLO,
            output_config={"format": {"type": "json_schema", "schema": VERDICT}},
        )
        assert "".join(answer.content[0].text.split()) in ('{"answer":"yes"}', '{"answer":"no"}')
        forced = await client.messages.create(
            model="tiny",
            max_tokens=300,
            messages=HELLO,
            tools=[TOOL],
            tool_choice={"type": "tool", "name": "add"},
        )
        assert forced.stop_reason == "tool_use"
        assert forced.content[0].input.keys() == {"a", "b"}
        served.check_all_recorded()
        check_recomputed(policy, served)


@pytest.mark.parametrize("stream", [False, True])
async def test_the_tool_loop_goes_round(policy: TorchPolicy, stream: bool) -> None:
    async with serving(policy, [BOTH, "It is 42."]) as served, async_client_of(served) as client:

        async def answer(messages: list[Any]) -> Any:
            asked = {"model": "tiny", "max_tokens": 500, "tools": [TOOL], "messages": messages}
            if not stream:
                return await client.messages.create(**asked)
            async with client.messages.stream(**asked) as events:
                return await events.get_final_message()

        first = await answer(HELLO)
        assert first.stop_reason == "tool_use"
        assert first.content[0].text.strip() == "Let me see."
        made = [block for block in first.content if block.type == "tool_use"]
        assert [block.input for block in made] == [{"a": 17, "b": 25}, {"a": 1, "b": 2}]
        results = [
            {
                "type": "tool_result",
                "tool_use_id": block.id,
                "content": str(sum(block.input.values())),
            }
            for block in made
        ]
        messages = [
            *HELLO,
            {"role": "assistant", "content": first.content},
            {"role": "user", "content": results},
        ]
        last = await answer(messages)
        assert (last.content[0].text, last.stop_reason) == ("It is 42.", "end_turn")
        served.check_all_recorded()
        assert served.conversation.graph.retokenised == 0
        assert len(served.trace().leaves()) == 1


async def test_refusals_have_their_own_exceptions(policy: TorchPolicy) -> None:
    async with serving(policy, limits=RolloutLimits(max_turns=1)) as served:

        def provoke() -> None:
            with (
                client_of(served, api_key="rk_wrong") as stranger,
                pytest.raises(anthropic.AuthenticationError, match="key"),
            ):
                stranger.messages.create(messages=HELLO, **ASKED)
            with client_of(served) as client:
                with pytest.raises(anthropic.BadRequestError, match="messages is empty") as refused:
                    client.messages.create(messages=[], **ASKED)
                assert refused.value.body["error"]["type"] == "invalid_request_error"
                long = [{"role": "user", "content": "x" * 40_000}]
                with pytest.raises(anthropic.BadRequestError, match="prompt is too long"):
                    client.messages.create(messages=long, **ASKED)
                client.messages.create(messages=HELLO, **ASKED)
                with pytest.raises(anthropic.RateLimitError, match="1 turns"):
                    client.messages.create(messages=HELLO, **ASKED)
                served.rollouts.close(served.rollout.id)
                with pytest.raises(anthropic.ConflictError, match="closed"):
                    client.messages.create(messages=HELLO, **ASKED)

        await asyncio.to_thread(provoke)
        assert len(served.sampled) == 1
        served.check_all_recorded()
