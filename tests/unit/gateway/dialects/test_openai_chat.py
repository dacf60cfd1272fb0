import json
from typing import Any

import pytest
from tests.unit.gateway.dialects.turns import (
    CALLING,
    EVERYTHING,
    FACTS,
    SPOKEN,
    TURNS,
    in_small_pieces,
    stream_of,
    turn_of,
    without_ids,
)

from practicum.core.sampling import SamplingParams
from practicum.core.trace import Message, ToolSpec
from practicum.gateway.dialects import openai_chat
from practicum.gateway.dialects.dialect import deltas_of
from practicum.gateway.requests import JsonForm, ParsedRequest, Refused, StreamEvent, ToolChoice

DEFAULTS = SamplingParams(temperature=0.7, top_k=5, max_tokens=32)
USER = {"role": "user", "content": "Hi"}
TOOL = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "Weather of a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
        "strict": True,
    },
}


def read(**body: Any) -> ParsedRequest:
    return openai_chat.read_request({"model": "tiny", "messages": [USER], **body}, DEFAULTS)


def answered(
    message: Message, asked: ParsedRequest | None = None, **changes: Any
) -> dict[str, Any]:
    turns = [turn_of(message, **changes)]
    return json.loads(json.dumps(openai_chat.whole_answer(asked or read(), turns, FACTS)))


async def chunks(updates: Any, asked: ParsedRequest | None = None) -> list[dict[str, Any]]:
    """The chunks of a stream, after a look at how they are framed."""
    blocks = [b async for b in openai_chat.stream_events(asked or read(), FACTS, updates)]
    assert blocks[-1] == "data: [DONE]\n\n"
    assert all(b.startswith("data: ") and b.endswith("\n\n") for b in blocks)
    return [json.loads(block.removeprefix("data: ")) for block in blocks[:-1]]


def test_what_is_not_said_is_as_the_rollout_samples() -> None:
    asked = read()
    assert asked.request.params == DEFAULTS
    assert (asked.request.seed, asked.n, asked.stream, asked.form) == (None, 1, False, None)
    assert asked.request.messages == (Message(role="user", content="Hi"),)


def test_every_parameter_arrives() -> None:
    asked = read(
        temperature=0,
        top_p=0.5,
        top_k=-1,
        max_tokens=9,
        max_completion_tokens=7,
        stop="END",
        seed=-3,
        n=2,
        stream=True,
        stream_options={"include_usage": True},
        logprobs=True,
        top_logprobs=4,
        return_token_ids=True,
        parallel_tool_calls=False,
    )
    params = SamplingParams(temperature=0, top_p=0.5, top_k=0, max_tokens=7, stop=("END",))
    assert asked.request.params == params
    assert asked.request.seed == 2**64 - 3
    assert (asked.n, asked.stream, asked.stream_usage, asked.logprobs) == (2, True, True, True)
    assert (asked.request.top_logprobs, asked.token_ids) == (4, True)
    assert asked.parallel_tool_calls is False
    assert read(stop=["a", "b"]).request.params.stop == ("a", "b")


def test_a_conversation_with_tools_is_read_whole() -> None:
    call = {
        "id": "x",
        "type": "function",
        "function": {"name": "weather", "arguments": '{"city": "Bonn"}'},
    }
    messages = [
        {
            "role": "developer",
            "content": [{"type": "text", "text": "Be "}, {"type": "text", "text": "brief."}],
        },
        {"role": "user", "content": "Weather?", "name": "ann"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [call],
            "reasoning_content": "hm",
            "refusal": None,
        },
        {"role": "tool", "tool_call_id": "x", "content": "rain"},
    ]
    asked = read(messages=messages, tools=[TOOL])
    system, user, turn, tool = asked.request.messages
    assert (system.role, system.content) == ("system", "Be brief.")
    assert (user.role, user.content) == ("user", "Weather?")
    assert (turn.content, turn.reasoning, turn.tool_calls[0].arguments) == (
        "",
        "hm",
        {"city": "Bonn"},
    )
    assert (tool.role, tool.tool_call_id, tool.content) == ("tool", "x", "rain")
    function = TOOL["function"]
    assert asked.request.tools == (
        ToolSpec(
            name="weather",
            description="Weather of a city.",
            parameters=function["parameters"],  # type: ignore[index]
        ),
    )


@pytest.mark.parametrize(
    ("given", "choice"),
    [
        (None, ToolChoice()),
        ("none", ToolChoice(kind="none")),
        ("required", ToolChoice(kind="required")),
        (
            {"type": "function", "function": {"name": "weather"}},
            ToolChoice(kind="named", name="weather"),
        ),
    ],
)
def test_choices_of_tools(given: Any, choice: ToolChoice) -> None:
    assert read(tools=[TOOL], tool_choice=given).tool_choice == choice


def test_forms_of_answers() -> None:
    assert read(response_format={"type": "text"}).form is None
    assert read(response_format={"type": "json_object"}).form == JsonForm()
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    given = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema, "strict": True}}
    assert read(response_format=given).form == JsonForm(schema=schema)


@pytest.mark.parametrize(
    "body",
    [
        {"messages": []},
        {"messages": "Hi"},
        {"messages": [{"role": "robot", "content": "x"}]},
        {"messages": [{"content": "x"}]},
        {"messages": [{"role": "user", "content": 3}]},
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]},
        {"messages": [{"role": "tool", "content": "x"}]},
        {"messages": [{"role": "assistant", "function_call": {"name": 3}}]},
        {
            "messages": [
                {
                    "role": "assistant",
                    "tool_calls": [{"id": "x", "function": {"name": "f", "arguments": "{"}}],
                }
            ]
        },
        {"max_tokens": 0},
        {"max_tokens": -1},
        {"max_completion_tokens": 1.5},
        {"n": 0},
        {"n": 1_000_000},
        {"temperature": -1},
        {"temperature": "hot"},
        {"top_p": 2},
        {"stop": ["x"] * 100},
        {"stop": [3]},
        {"top_logprobs": 3},
        {"logprobs": True, "top_logprobs": 21},
        {"frequency_penalty": 0.5},
        {"logit_bias": {"1": 100}},
        {"modalities": ["text", "audio"]},
        {"functions": [{"name": "f"}], "function_call": {"name": "g"}},
        {"tools": [{"type": "web_search"}]},
        {"tool_choice": {"type": "function", "function": {"name": "f"}}},
        {"tool_choice": "perhaps"},
        {"response_format": {"type": "xml"}},
        {"base_url": "http://evil.example"},
        {"api_base": "http://evil.example"},
        {"reward": 1.0},
        {"prompt_token_ids": [1, 2]},
        {"chat_template": "{{ messages }}"},
    ],
    ids=lambda body: str(body)[:60],
)
def test_what_cannot_be_honoured_is_refused_in_one_sentence(body: dict[str, Any]) -> None:
    with pytest.raises(Refused) as caught:
        read(**body)
    assert caught.value.status == 400
    assert "\n" not in caught.value.sentence


def test_what_changes_nothing_is_let_through() -> None:
    read(
        user="u",
        metadata={"a": "b"},
        store=False,
        frequency_penalty=0,
        presence_penalty=0.0,
        logit_bias=None,
        reasoning_effort="low",
        modalities=["text"],
    )


@pytest.mark.parametrize("name", TURNS)
def test_an_answer_that_is_sent_back_is_what_was_said(name: str) -> None:
    said = answered(TURNS[name])["choices"][0]["message"]
    back = read(messages=[USER, said]).request.messages[1]
    assert without_ids(back) == without_ids(TURNS[name])


def test_an_answer_says_why_it_ended_and_what_it_used() -> None:
    body = answered(SPOKEN)
    assert body["object"] == "chat.completion"
    assert body["choices"][0]["finish_reason"] == "stop"
    assert body["usage"]["prompt_tokens"] == 10
    assert body["usage"]["completion_tokens"] == len(SPOKEN.content)
    assert body["usage"]["total_tokens"] == 10 + len(SPOKEN.content)
    assert body["usage"]["prompt_tokens_details"] == {"cached_tokens": 3}
    assert answered(SPOKEN, finished=False)["choices"][0]["finish_reason"] == "length"
    called = answered(CALLING)["choices"][0]
    assert (called["finish_reason"], called["message"]["content"]) == ("tool_calls", None)


def test_log_probabilities_and_ids_only_where_they_are_asked_for() -> None:
    plain = answered(SPOKEN)
    assert plain["choices"][0]["logprobs"] is None
    assert "token_ids" not in plain["choices"][0]
    likeliest = tuple(((1, -0.1), (2, -3.0)) for _ in SPOKEN.content)
    asked = read(logprobs=True, top_logprobs=2, return_token_ids=True)
    shown = answered(SPOKEN, asked, top_logprobs=likeliest)
    content = shown["choices"][0]["logprobs"]["content"]
    assert "".join(entry["token"] for entry in content) == SPOKEN.content
    assert {entry["logprob"] for entry in content} == {-0.5}
    assert [one["logprob"] for one in content[0]["top_logprobs"]] == [-0.1, -3.0]
    assert shown["choices"][0]["token_ids"] == list(SPOKEN.content.encode())
    assert shown["prompt_token_ids"] == [7] * 10


def test_calls_of_different_choices_and_answers_have_different_ids() -> None:
    body = openai_chat.whole_answer(read(n=2), [turn_of(EVERYTHING), turn_of(EVERYTHING)], FACTS)
    ids = [call["id"] for c in body["choices"] for call in c["message"]["tool_calls"]]
    assert len(set(ids)) == 4


@pytest.mark.parametrize("name", TURNS)
@pytest.mark.parametrize("live", [True, False])
async def test_the_pieces_of_a_stream_make_up_the_answer(name: str, live: bool) -> None:
    message = TURNS[name]
    deltas = in_small_pieces(list(deltas_of(message))) if live else []
    asked = read(stream=True, stream_options={"include_usage": True}, logprobs=True)
    events = await chunks(stream_of(deltas, turn_of(message)), asked)
    said: dict[str, Any] = {"content": "", "reasoning_content": "", "calls": {}}
    shown = []
    for event in events[:-1]:
        [choice] = event["choices"]
        delta = choice["delta"]
        said["content"] += delta.get("content") or ""
        said["reasoning_content"] += delta.get("reasoning_content") or ""
        for call in delta.get("tool_calls", ()):
            held = said["calls"].setdefault(call["index"], {"arguments": ""})
            held["arguments"] += call["function"]["arguments"]
            held.update({k: call[k] for k in ("id", "type") if k in call})
            held["name"] = call["function"].get("name", held.get("name"))
        shown += (choice.get("logprobs") or {}).get("content", ())
    whole = answered(message)["choices"][0]
    assert said["content"] == (whole["message"]["content"] or "")
    assert said["reasoning_content"] == whole["message"].get("reasoning_content", "")
    calls = [
        {"id": c["id"], "type": "function", **c["function"]}
        for c in whole["message"].get("tool_calls", ())
    ]
    assert [said["calls"][i] for i in sorted(said["calls"])] == calls
    assert events[-2]["choices"][0]["finish_reason"] == whole["finish_reason"]
    assert events[-1]["usage"]["completion_tokens"] == len(message.content) == len(shown)
    assert events[-1]["choices"] == []


async def test_choices_of_a_stream_are_told_apart() -> None:
    async def two() -> Any:
        for number, message in enumerate((SPOKEN, CALLING)):
            for delta in deltas_of(message):
                yield StreamEvent(choice=number, delta=delta)
        for number, message in enumerate((SPOKEN, CALLING)):
            yield StreamEvent(choice=number, turn=turn_of(message))

    events = await chunks(two(), read(n=2, stream=True))
    ends = {
        event["choices"][0]["index"]: event["choices"][0]["finish_reason"]
        for event in events
        if event["choices"][0]["finish_reason"]
    }
    assert ends == {0: "stop", 1: "tool_calls"}
    assert "usage" not in events[-1]


def test_errors_have_the_shape_clients_know() -> None:
    body = openai_chat.error_body(429, "too many", "rate_limit_error", "n")
    assert body == {
        "error": {
            "message": "too many",
            "type": "rate_limit_error",
            "param": "n",
            "code": "rate_limit_exceeded",
        }
    }
    event = openai_chat.stream_error(500, "broke", "api_error")
    assert json.loads(event.removeprefix("data: "))["error"]["message"] == "broke"
