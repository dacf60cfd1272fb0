"""The gateway over real HTTP on the tiny model: what is sampled is what is recorded and learned."""

import asyncio
import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import httpx
import pytest
from tests.clients.serving import Served, check_recomputed, serving
from tests.unit.engine.reference import build_policy

from practicum.core.conversation import RolloutLimits
from practicum.core.sampling import SamplingParams
from practicum.core.trace import Message
from practicum.engine.policy import TorchPolicy
from practicum.gateway.capture import CapturedConversation
from practicum.gateway.requests import ChatRequest
from practicum.gateway.server.gateway_settings import GatewaySettings

TOOL = {
    "type": "function",
    "function": {
        "name": "look",
        "description": "Look somewhere.",
        "parameters": {
            "type": "object",
            "properties": {"where": {"type": "string", "enum": ["up", "down"]}},
            "required": ["where"],
            "additionalProperties": False,
        },
    },
}


@pytest.fixture(scope="module")
def policy() -> TorchPolicy:
    return build_policy()


@asynccontextmanager
async def client_of(served: Served) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(
        base_url=f"{served.endpoint.url}/v1",
        headers={"Authorization": f"Bearer {served.endpoint.key}"},
        timeout=300,
    ) as client:
        yield client


async def ask(client: httpx.AsyncClient, messages: list[Any], **more: Any) -> dict[str, Any]:
    body = {"model": "any", "messages": messages, **more}
    answer = await client.post("/chat/completions", json=body)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def ask_streaming(client: httpx.AsyncClient, messages: list[Any], **more: Any) -> str:
    """The words of a streamed answer."""
    body = {"model": "any", "messages": messages, "stream": True, **more}
    said = ""
    async with client.stream("POST", "/chat/completions", json=body) as answer:
        assert answer.status_code == 200
        lines = [line async for line in answer.aiter_lines() if line]
    assert lines[-1] == "data: [DONE]"
    for line in lines[:-1]:
        for choice in json.loads(line.removeprefix("data: "))["choices"]:
            said += choice["delta"].get("content") or ""
    return said


async def test_an_append_only_agent_stays_on_one_path_and_reuses_its_cache(
    policy: TorchPolicy,
) -> None:
    async with serving(policy, max_tokens=30) as served, client_of(served) as client:
        messages: list[Any] = [{"role": "system", "content": "s"}, {"role": "user", "content": "a"}]
        cached = []
        for turn in range(5):
            if turn % 2:
                said: Any = {"role": "assistant", "content": await ask_streaming(client, messages)}
            else:
                answer = await ask(client, messages, logprobs=True, return_token_ids=True)
                [choice] = answer["choices"]
                node = served.nodes[-1]
                assert node.sampled is not None
                assert choice["token_ids"] == list(node.token_ids)
                logprobs = [entry["logprob"] for entry in choice["logprobs"]["content"]]
                assert logprobs == pytest.approx(node.sampled.logprobs)
                path = served.trace().token_ids(len(served.nodes) - 1)
                assert answer["prompt_token_ids"] + choice["token_ids"] == list(path)
                usage = answer["usage"]
                cached.append(usage["prompt_tokens_details"]["cached_tokens"])
                said = choice["message"]
            messages += [said, {"role": "user", "content": f"go on {turn}"}]
    assert [n.parent for n in served.nodes] == [None, *range(9)]
    assert served.conversation.graph.retokenised == 0
    assert cached[1] > sum(len(n.token_ids) for n in served.nodes[:3])
    assert served.check_all_recorded() > 30
    check_recomputed(policy, served)


async def test_agents_that_branch_retry_and_call_tools_are_recorded_whole(
    policy: TorchPolicy,
) -> None:
    async with serving(policy, max_tokens=12) as served, client_of(served) as client:

        async def agent(number: int) -> None:
            dice = random.Random(number)
            messages: list[Any] = [{"role": "user", "content": f"agent {number % 3}"}]
            for _ in range(4):
                more: dict[str, Any] = {"n": dice.choice([1, 2]), "temperature": 0.8}
                if number % 2:
                    more["tools"] = [TOOL]
                if dice.random() < 0.3:
                    more["top_p"] = 0.9
                answer = await ask(client, messages, **more)
                said = dice.choice(answer["choices"])["message"]
                if dice.random() < 0.3:
                    said = {"role": "assistant", "content": "rewritten"}
                messages += [said, {"role": "user", "content": dice.choice("xyz")}]
                if len(messages) > 4 and dice.random() < 0.4:
                    del messages[1:3]

        await asyncio.gather(*(agent(number) for number in range(4)))
    trace = served.trace()
    assert len(trace.leaves()) > 4
    served.check_all_recorded()
    check_recomputed(policy, served)


async def test_a_schema_is_kept_to_and_what_it_forced_is_learned_rightly(
    policy: TorchPolicy,
) -> None:
    schema = {
        "type": "object",
        "properties": {"n": {"type": "integer", "maximum": 99}, "ok": {"type": "boolean"}},
        "required": ["n", "ok"],
        "additionalProperties": False,
    }
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    async with serving(policy, max_tokens=200) as served, client_of(served) as client:
        messages: list[Any] = [{"role": "user", "content": "say"}]
        answer = await ask(client, messages, response_format=form, seed=3)
        said = answer["choices"][0]["message"]
        found = json.loads(said["content"])
        assert isinstance(found["n"], int)
        assert isinstance(found["ok"], bool)
        again = await ask(client, messages, response_format=form, seed=3)
        assert again["choices"][0]["message"]["content"] == said["content"]
        assert json.loads(await ask_streaming(client, messages, response_format=form))
        messages += [said, {"role": "user", "content": "more"}]
        await ask(client, messages, max_tokens=8)
    assert served.nodes[-2].parent is not None
    assert served.conversation.graph.retokenised == 0
    served.check_all_recorded()
    check_recomputed(policy, served)


REPORT = {
    "type": "object",
    "properties": {"seen": {"enum": ["<tool_call>", "sky"]}},
    "required": ["seen"],
    "additionalProperties": False,
}
LOOK = TOOL["function"]
TYPED: dict[str, Any] = {
    "chat/completions": {
        "tools": [TOOL],
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "report", "schema": REPORT},
        },
    },
    "responses": {
        "tools": [{"type": "function", **LOOK}],
        "text": {"format": {"type": "json_schema", "name": "report", "schema": REPORT}},
    },
    "messages": {
        "tools": [{"name": "look", "input_schema": LOOK["parameters"]}],
        "output_config": {"format": {"type": "json_schema", "schema": REPORT}},
        "max_tokens": 200,
    },
}


def next_messages(path: str, answer: dict[str, Any]) -> tuple[list[Any], str]:
    """What a client sends after an answer with calls; or no messages and the answer's text."""
    if path == "chat/completions":
        said = answer["choices"][0]["message"]
        results = [
            {"role": "tool", "tool_call_id": one["id"], "content": "clouds"}
            for one in said.get("tool_calls", ())
        ]
        return ([said, *results] if results else []), said["content"]
    if path == "responses":
        items = answer["output"]
        results = [
            {"type": "function_call_output", "call_id": one["call_id"], "output": "clouds"}
            for one in items
            if one["type"] == "function_call"
        ]
        text = "" if results else items[-1]["content"][0]["text"]
        return ([*items, *results] if results else []), text
    blocks = answer["content"]
    results = [
        {"type": "tool_result", "tool_use_id": one["id"], "content": "clouds"}
        for one in blocks
        if one["type"] == "tool_use"
    ]
    said = {"role": "assistant", "content": blocks}
    found = [said, {"role": "user", "content": results}] if results else []
    return found, "" if results else blocks[-1]["text"]


@pytest.mark.parametrize("path", TYPED)
async def test_a_typed_result_agent_makes_calls_and_then_its_json(
    policy: TorchPolicy, path: str
) -> None:
    name, called = "input" if path == "responses" else "messages", 0
    async with serving(policy, max_tokens=200) as served, client_of(served) as client:
        for number in range(40):
            messages: list[Any] = [{"role": "user", "content": f"look {number}"}]
            while True:
                body = {"model": "any", name: messages, **TYPED[path]}
                answer = await client.post(f"/{path}", json=body)
                assert answer.status_code == 200, answer.text
                more, text = next_messages(path, answer.json())
                if not more:
                    break
                called += 1
                messages += more
            assert json.loads(text)["seen"] in ("<tool_call>", "sky")
            if called > 1:
                break
    assert called
    assert served.conversation.graph.retokenised == 0
    served.check_all_recorded()
    check_recomputed(policy, served)


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "look"}}])
async def test_a_call_that_must_be_made_is_made_and_its_answer_goes_on(
    policy: TorchPolicy, choice: Any
) -> None:
    async with serving(policy, max_tokens=200) as served, client_of(served) as client:
        messages: list[Any] = [{"role": "user", "content": "look around"}]
        answer = await ask(client, messages, tools=[TOOL], tool_choice=choice)
        assert answer["choices"][0]["finish_reason"] == (
            "tool_calls" if choice == "required" else "stop"
        )
        said = answer["choices"][0]["message"]
        messages.append(said)
        for call in said["tool_calls"]:
            assert call["function"]["name"] == "look"
            assert json.loads(call["function"]["arguments"])["where"] in ("up", "down")
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": "nothing"})
        assert len(said["tool_calls"]) == 1 or choice == "required"
        await ask(client, messages, tools=[TOOL], max_tokens=8)
    assert [n.parent for n in served.nodes] == [None, 0, 1, 2]
    served.check_all_recorded()
    check_recomputed(policy, served)


async def test_choices_are_branches_of_one_prompt_and_seeds_are_kept_to(
    policy: TorchPolicy,
) -> None:
    async with serving(policy, max_tokens=10) as served, client_of(served) as client:
        messages = [{"role": "user", "content": "x"}]
        first, second = [await ask(client, messages, n=3, seed=11) for _ in range(2)]
        texts = [[c["message"]["content"] for c in a["choices"]] for a in (first, second)]
        assert texts[0] == texts[1]
        assert len(set(texts[0])) == 3
        assert [n.parent for n in served.nodes] == [None, *[0] * 6]


async def test_clients_that_go_away_free_their_rows(policy: TorchPolicy) -> None:
    limits = RolloutLimits(concurrency=50)
    async with (
        serving(policy, limits=limits, max_tokens=3000) as served,
        client_of(served) as client,
    ):

        async def leave_early(number: int) -> None:
            body = {
                "messages": [{"role": "user", "content": f"{number}"}],
                "stream": number % 2 == 0,
            }
            if number % 2:
                with suppress(httpx.ReadTimeout):  # a turn that ends at once is in time
                    await client.post("/chat/completions", json=body, timeout=0.1)
                return
            async with client.stream("POST", "/chat/completions", json=body) as answer:
                async for _ in answer.aiter_lines():
                    return

        await asyncio.gather(*(leave_early(number) for number in range(8)))
        use = served.rollout.use
        for _ in range(6000):
            if not use.under_way:
                break
            await asyncio.sleep(0.02)
        assert (use.under_way, use.reserved) == (0, 0)
        assert use.tokens > sum_of(served)  # what was sampled for those who left is used too
        assert len(served.sampled) < 8
        await ask(client, [{"role": "user", "content": "still there?"}], max_tokens=4)
    served.check_all_recorded()


def sum_of(served: Served) -> int:
    return sum(len(node.token_ids) for node in served.sampled)


async def test_a_prompt_longer_than_the_context_is_answered_in_each_dialects_shape(
    policy: TorchPolicy,
) -> None:
    words = "w" * 5000
    async with serving(policy) as served, client_of(served) as client:
        messages = [{"role": "user", "content": words}]
        chat = await client.post("/chat/completions", json={"messages": messages})
        stream = await client.post("/chat/completions", json={"messages": messages, "stream": True})
        for answer in (chat, stream):
            assert answer.status_code == 400
            assert answer.json()["error"]["code"] == "context_length_exceeded"
            said = answer.json()["error"]["message"]
            assert said.startswith("This model's maximum context length is 4096 tokens")
        body = {"messages": messages, "max_tokens": 5, "model": "x"}
        said = (await client.post("/messages", json=body)).json()
        assert (said["type"], said["error"]["type"]) == ("error", "invalid_request_error")


async def test_a_request_for_more_than_fits_gets_what_fits(policy: TorchPolicy) -> None:
    conversation = CapturedConversation(policy.sampler, policy.codec, SamplingParams(), seed=0)
    request = ChatRequest(
        messages=(Message(role="user", content="w" * 4060),),
        params=SamplingParams(max_tokens=10**6),
    )
    turn = await conversation.respond(request)
    assert turn.prompt_tokens + len(turn.completion.token_ids) <= 4096
    assert len(turn.completion.token_ids) > 0


async def test_a_tiny_temperature_is_greedy_and_harms_no_other_request(policy: TorchPolicy) -> None:
    async with serving(policy) as served, client_of(served) as client:
        asked = {"messages": [{"role": "user", "content": "q"}], "max_tokens": 8}
        heats = (1e-40, 0.0, 1.0, 1e-12)
        answers = await asyncio.gather(
            *(client.post("/chat/completions", json={**asked, "temperature": t}) for t in heats)
        )
        assert [answer.status_code for answer in answers] == [200] * len(heats)
        said = [answer.json()["choices"][0]["message"]["content"] for answer in answers]
        assert said[0] == said[1] == said[3]


async def test_every_answer_has_an_id_where_clients_look_for_it(policy: TorchPolicy) -> None:
    async with serving(policy, max_tokens=4) as served, client_of(served) as client:
        seen = []
        for path, body in (
            ("/chat/completions", {"messages": [{"role": "user", "content": "q"}]}),
            ("/chat/completions", {"messages": [{"role": "user", "content": "q"}], "stream": True}),
            ("/messages", {"messages": []}),
            ("/nowhere", {}),
        ):
            answer = await client.post(path, json=body)
            assert answer.headers["x-request-id"] == answer.headers["request-id"]
            seen.append(answer.headers["request-id"])
        refused = await client.post("/messages", json={}, headers={"Authorization": "Bearer x"})
        assert refused.status_code == 401
        seen.append(refused.headers["request-id"])
    assert all(one.startswith("req_") for one in seen)
    assert len(set(seen)) == len(seen)


async def test_models_are_listed_as_each_provider_lists_them(policy: TorchPolicy) -> None:
    async with serving(policy) as served, client_of(served) as client:
        listed = (await client.get("/models")).json()
        assert (listed["object"], listed["data"][0]["object"]) == ("list", "model")
        theirs = {"anthropic-version": "2023-06-01"}
        listed = (await client.get("/models", headers=theirs)).json()
        assert (listed["data"][0]["type"], listed["has_more"]) == ("model", False)
        one = (await client.get("/models/tiny", headers=theirs)).json()
        assert one == listed["data"][0]
        wrong = await client.get("/models/other", headers=theirs)
        assert (wrong.status_code, wrong.json()["type"]) == (404, "error")


@pytest.mark.parametrize("stream", [False, True])
async def test_a_text_is_gone_on_with_and_recorded(policy: TorchPolicy, stream: bool) -> None:
    async with serving(policy, max_tokens=12) as served, client_of(served) as client:
        body = {"prompt": "Once upon", "logprobs": 1, "stream": stream, "return_token_ids": True}
        answer = await client.post("/completions", json=body)
        assert answer.status_code == 200, answer.text
        if stream:
            lines = [line for line in answer.text.splitlines() if line.startswith("data: {")]
            events = [json.loads(line.removeprefix("data: ")) for line in lines]
            text = "".join(event["choices"][0]["text"] for event in events)
            [choice] = events[-1]["choices"]
        else:
            [choice] = answer.json()["choices"]
            text = choice["text"]
        given, sampled = served.nodes
        assert bytes(given.token_ids) == b"Once upon"
        assert choice["token_ids"] == list(sampled.token_ids)
        assert sampled.messages[-1].content == text
    served.check_all_recorded()
    check_recomputed(policy, served)


async def test_one_of_several_texts_is_answered(policy: TorchPolicy) -> None:
    async with serving(policy, max_tokens=40) as served, client_of(served) as client:
        for path, body in (
            ("/chat/completions", {"messages": [{"role": "user", "content": "q"}]}),
            ("/completions", {"prompt": "q"}),
        ):
            asked = {**body, "structured_outputs": {"choice": ["north", "south"]}}
            [choice] = (await client.post(path, json=asked)).json()["choices"]
            said = choice["text"] if "text" in choice else choice["message"]["content"]
            assert said in ("north", "south")
    served.check_all_recorded()
    check_recomputed(policy, served)


async def test_tools_that_are_not_allowed_are_not_called(policy: TorchPolicy) -> None:
    other = {"type": "function", "function": {"name": "jump", "parameters": {}}}
    allowed = {"mode": "auto", "tools": [{"type": "function", "function": {"name": "look"}}]}
    choice = {"type": "allowed_tools", "allowed_tools": allowed}
    turns = ['<tool_call>\n{"name": "jump", "arguments": {}}\n</tool_call>']
    async with serving(policy, turns) as served, client_of(served) as client:
        messages: list[Any] = [{"role": "user", "content": "q"}]
        answer = await ask(client, messages, tools=[TOOL, other], tool_choice=choice)
        assert "tool_calls" not in answer["choices"][0]["message"]
        answer = await ask(client, messages, tools=[TOOL, other])
        assert answer["choices"][0]["message"]["tool_calls"]


async def test_variables_of_the_template_reach_it(policy: TorchPolicy) -> None:
    async with serving(policy, max_tokens=4) as served, client_of(served) as client:
        messages: list[Any] = [{"role": "user", "content": "q"}]
        await ask(client, messages, chat_template_kwargs={"enable_thinking": False})
        for number in range(20):
            body = {"messages": messages, "chat_template_kwargs": {"number": number}}
            answer = await client.post("/chat/completions", json=body)
        assert answer.status_code == 400
        assert "choose among fewer" in answer.json()["error"]["message"]
    served.check_all_recorded()


async def test_parameters_that_nobody_knows_are_ignored_and_counted_where_that_is_wanted(
    policy: TorchPolicy,
) -> None:
    messages = [{"role": "user", "content": "q"}]
    for path in ("/chat/completions", "/messages", "/responses"):
        body = {"messages": messages, "max_tokens": 4}
        if path == "/responses":
            body = {"input": "q"}
        body["odd_parameter"] = 1
        async with serving(policy, max_tokens=4) as served, client_of(served) as client:
            assert (await client.post(path, json=body)).status_code == 400
        loose = GatewaySettings(ignore_unknown=True)
        async with (
            serving(policy, max_tokens=4, settings=loose) as served,
            client_of(served) as client,
        ):
            assert (await client.post(path, json=body)).status_code == 200
            assert served.rollout.use.ignored == {"odd_parameter": 1}
