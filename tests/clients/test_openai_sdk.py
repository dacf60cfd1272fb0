"""The `openai` library, unmodified, against the gateway."""

import asyncio
import json
from typing import Any, Literal

import pytest
from tests.clients.serving import Served, call, check_recomputed, serving

from practicum.core.conversation import RolloutLimits
from practicum.engine.policy import TorchPolicy

openai = pytest.importorskip("openai", reason="needs the openai package; pip install openai")
pydantic = pytest.importorskip("pydantic")

ASK: Any = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello?"}]
NUMBERS = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "required": ["a", "b"],
}
CHAT_TOOL: Any = {"type": "function", "function": {"name": "add", "parameters": NUMBERS}}
TOOL: Any = {"type": "function", "name": "add", "parameters": NUMBERS, "strict": True}
ADD = call("add", a=17, b=25)
BOTH = f"Let me see.\n{ADD}\n{call('add', a=1, b=2)}"


class Verdict(pydantic.BaseModel):
    answer: Literal["yes", "no"]
    sure: bool


def client_of(served: Served, **changes: Any) -> Any:
    options = {"base_url": f"{served.endpoint.url}/v1", "api_key": served.endpoint.key}
    return openai.OpenAI(**{**options, "max_retries": 0, **changes})


def async_client_of(served: Served) -> Any:
    return openai.AsyncOpenAI(
        base_url=f"{served.endpoint.url}/v1", api_key=served.endpoint.key, max_retries=0
    )


class TestChat:
    async def test_whole_answers_of_the_model_are_recorded_as_sampled(
        self, policy: TorchPolicy
    ) -> None:
        async with serving(policy) as served:

            def talk() -> Any:
                with client_of(served) as client:
                    messages = list(ASK)
                    for _ in range(3):
                        answer = client.chat.completions.create(model="tiny", messages=messages)
                        messages += [
                            answer.choices[0].message.model_dump(exclude_none=True),
                            {"role": "user", "content": "And?"},
                        ]
                    return answer

            answer = await asyncio.to_thread(talk)
            assert served.check_all_recorded() > 0
            assert len(served.sampled) == 3
            assert answer.usage.completion_tokens == len(served.sampled[-1].token_ids)
            assert served.conversation.graph.retokenised == 0
            assert len(served.trace().leaves()) == 1
            check_recomputed(policy, served)

    async def test_streams_many_at_once_and_n_choices(self, policy: TorchPolicy) -> None:
        async with serving(policy) as served, async_client_of(served) as client:

            async def one(number: int) -> tuple[str, int]:
                words, used = "", 0
                stream = await client.chat.completions.create(
                    model="tiny",
                    messages=[*ASK, {"role": "user", "content": str(number)}],
                    stream=True,
                    stream_options={"include_usage": True},
                )
                async for chunk in stream:
                    if chunk.choices:
                        words += chunk.choices[0].delta.content or ""
                    if chunk.usage:
                        used = chunk.usage.completion_tokens
                return words, used

            told = await asyncio.gather(*(one(number) for number in range(3)))
            several = await client.chat.completions.create(
                model="tiny", messages=ASK, n=2, logprobs=True, top_logprobs=2
            )
            assert len(several.choices) == 2
            shown = [c.logprobs.content for c in several.choices]
            lengths = [len(entries) for entries in shown]
            assert sum(used for _, used in told) + sum(lengths) == served.check_all_recorded()
            said = {node.messages[-1].content for node in served.sampled}
            assert {words for words, _ in told} <= said
            check_recomputed(policy, served)

    async def test_structured_output_is_what_the_schema_allows(self, policy: TorchPolicy) -> None:
        async with (
            serving(policy, max_tokens=300) as served,
            async_client_of(served) as client,
        ):
            parsed = await client.chat.completions.parse(
                model="tiny", messages=ASK, response_format=Verdict
            )
            assert isinstance(parsed.choices[0].message.parsed, Verdict)
            forced = await client.chat.completions.create(
                model="tiny", messages=ASK, tools=[CHAT_TOOL], tool_choice="required", seed=1
            )
            [made] = forced.choices[0].message.tool_calls
            assert json.loads(made.function.arguments).keys() == {"a", "b"}
            served.check_all_recorded()
            check_recomputed(policy, served)

    @pytest.mark.parametrize("stream", [False, True])
    async def test_the_tool_loop_goes_round(self, policy: TorchPolicy, stream: bool) -> None:
        async with (
            serving(policy, [BOTH, "It is 42."]) as served,
            async_client_of(served) as client,
        ):
            asked = {"model": "tiny", "tools": [CHAT_TOOL]}

            async def answer(messages: list[Any]) -> Any:
                if not stream:
                    return await client.chat.completions.create(messages=messages, **asked)
                async with client.chat.completions.stream(messages=messages, **asked) as events:
                    async for _ in events:
                        pass
                    return await events.get_final_completion()

            first = (await answer(ASK)).choices[0]
            assert first.finish_reason == "tool_calls"
            assert first.message.content.strip() == "Let me see."
            results = [
                {
                    "role": "tool",
                    "tool_call_id": made.id,
                    "content": str(sum(json.loads(made.function.arguments).values())),
                }
                for made in first.message.tool_calls
            ]
            assert [result["content"] for result in results] == ["42", "3"]
            said = first.message.model_dump(exclude_none=True)
            for made in said["tool_calls"]:
                made["function"].pop("parsed_arguments", None)
            last = (await answer([*ASK, {**said, "role": "assistant"}, *results])).choices[0]
            assert (last.message.content, last.finish_reason) == ("It is 42.", "stop")
            served.check_all_recorded()
            assert served.conversation.graph.retokenised == 0
            assert len(served.trace().leaves()) == 1


class TestResponses:
    async def test_answers_of_the_model_are_recorded_as_sampled(self, policy: TorchPolicy) -> None:
        async with serving(policy) as served:

            def talk() -> tuple[Any, Any]:
                with client_of(served) as client:
                    first = client.responses.create(
                        model="tiny", instructions="Be brief.", input="Hello?"
                    )
                    with client.responses.stream(
                        model="tiny", input="And?", previous_response_id=first.id
                    ) as stream:
                        events = list(stream)
                    # Cut off or not: the library itself waits for an answer that is complete only.
                    assert events[-1].type in ("response.completed", "response.incomplete")
                    last = events[-1].response
                    told = [e.delta for e in events if e.type == "response.output_text.delta"]
                    assert "".join(told) == last.output_text
                    return first, last

            first, last = await asyncio.to_thread(talk)
            used = first.usage.output_tokens + last.usage.output_tokens
            assert served.check_all_recorded() == used > 0
            assert len(served.trace().leaves()) == 1
            assert last.status == ("incomplete" if last.usage.output_tokens == 24 else "completed")
            check_recomputed(policy, served)

    async def test_structured_output_is_what_the_schema_allows(self, policy: TorchPolicy) -> None:
        async with (
            serving(policy, max_tokens=300) as served,
            async_client_of(served) as client,
        ):
            answer = await client.responses.parse(model="tiny", input="?", text_format=Verdict)
            assert isinstance(answer.output_parsed, Verdict)
            required: Any = {"tools": [TOOL], "tool_choice": "required"}
            required["parallel_tool_calls"] = False
            async with client.responses.stream(model="tiny", input="?", **required) as stream:
                [made] = (await stream.get_final_response()).output
            assert json.loads(made.arguments).keys() == {"a", "b"}
            served.check_all_recorded()
            check_recomputed(policy, served)

    @pytest.mark.parametrize("stream", [False, True])
    async def test_the_tool_loop_goes_round(self, policy: TorchPolicy, stream: bool) -> None:
        async with (
            serving(policy, [BOTH, "It is 42."]) as served,
            async_client_of(served) as client,
        ):

            async def answer(items: list[Any]) -> Any:
                asked = {"model": "tiny", "tools": [TOOL], "input": items}
                if not stream:
                    return await client.responses.create(**asked)
                async with client.responses.stream(**asked) as events:
                    async for _ in events:
                        pass
                    return await events.get_final_response()

            items: list[Any] = list(ASK)
            first = await answer(items)
            calls = [item for item in first.output if item.type == "function_call"]
            assert [json.loads(made.arguments) for made in calls] == [
                {"a": 17, "b": 25},
                {"a": 1, "b": 2},
            ]
            items += [item.model_dump(exclude_none=True) for item in first.output]
            for item in items:
                item.pop("parsed_arguments", None)
            items += [
                {"type": "function_call_output", "call_id": made.call_id, "output": "42"}
                for made in calls
            ]
            assert (await answer(items)).output_text == "It is 42."
            served.check_all_recorded()
            assert served.conversation.graph.retokenised == 0
            assert len(served.trace().leaves()) == 1


class TestRefusals:
    async def test_each_has_its_own_exception(self, policy: TorchPolicy) -> None:
        async with serving(policy, limits=RolloutLimits(max_turns=1)) as served:

            def provoke() -> None:
                with client_of(served, api_key="rk_wrong") as stranger:
                    with pytest.raises(openai.AuthenticationError, match="key"):
                        stranger.responses.create(model="tiny", input="Hi")
                    with pytest.raises(openai.AuthenticationError, match="key"):
                        stranger.models.list()
                with client_of(served) as client:
                    assert [model.id for model in client.models.list()] == ["tiny"]
                    with pytest.raises(openai.BadRequestError, match="temperature") as refused:
                        client.responses.create(model="tiny", input="Hi", temperature=9)
                    assert refused.value.param == "temperature"
                    with pytest.raises(openai.BadRequestError) as refused:
                        client.responses.create(model="tiny", input="x" * 40_000)
                    assert refused.value.code == "context_length_exceeded"
                    client.responses.create(model="tiny", input="Hi")
                    with pytest.raises(openai.RateLimitError, match="1 turns"):
                        client.responses.create(model="tiny", input="Hi")
                    served.rollouts.close(served.rollout.id)
                    with pytest.raises(openai.ConflictError, match="closed"):
                        client.responses.create(model="tiny", input="Hi")

            await asyncio.to_thread(provoke)
            assert len(served.sampled) == 1
            served.check_all_recorded()
