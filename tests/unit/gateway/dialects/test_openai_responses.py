import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from tests.unit.gateway.dialects.turns import (
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
from practicum.gateway.dialects import openai_responses
from practicum.gateway.dialects.dialect import deltas_of
from practicum.gateway.requests import JsonForm, ParsedRequest, Refused, ToolChoice

DEFAULTS = SamplingParams(temperature=0.7, max_tokens=32)
TOOL = {
    "type": "function",
    "name": "weather",
    "description": "Weather of a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    "strict": True,
}


def read(**body: Any) -> ParsedRequest:
    return openai_responses.read_request({"model": "tiny", "input": "Hi", **body}, DEFAULTS)


def answered(message: Message, **changes: Any) -> dict[str, Any]:
    """An answer as it comes out of the client's JSON."""
    body = openai_responses.whole_answer(read(), [turn_of(message, **changes)], FACTS)
    return json.loads(json.dumps(body))


async def streamed(
    message: Message, asked: ParsedRequest | None = None, **changes: Any
) -> list[Any]:
    deltas = in_small_pieces(list(deltas_of(message)))
    updates = stream_of(deltas, turn_of(message, **changes))
    blocks = [b async for b in openai_responses.stream_events(asked or read(), FACTS, updates)]
    return [event_of(block) for block in blocks]


def event_of(block: str) -> dict[str, Any]:
    name, data, *blank = block.split("\n")
    event = json.loads(data.removeprefix("data: "))
    assert name == f"event: {event['type']}"
    assert blank == ["", ""]
    return event


def test_a_text_is_what_the_user_says_and_defaults_hold() -> None:
    asked = read(instructions="Be brief.")
    assert asked.request.messages == (
        Message(role="system", content="Be brief."),
        Message(role="user", content="Hi"),
    )
    assert asked.request.params == DEFAULTS
    assert (asked.model, asked.stream, asked.n) == ("tiny", False, 1)
    assert asked.form is None
    assert asked.tool_choice == ToolChoice()


def test_settings_are_read() -> None:
    asked = read(
        temperature=0,
        top_p=0.5,
        max_output_tokens=7,
        stream=True,
        top_logprobs=3,
        include=["message.output_text.logprobs"],
        parallel_tool_calls=False,
        return_token_ids=True,
        seed=11,
    )
    assert asked.request.params == replace(DEFAULTS, temperature=0.0, top_p=0.5, max_tokens=7)
    assert (asked.request.top_logprobs, asked.request.seed) == (3, 11)
    assert asked.stream
    assert asked.logprobs
    assert asked.token_ids
    assert not asked.parallel_tool_calls


def test_tools_and_schemas_are_read() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    asked = read(
        tools=[TOOL],
        tool_choice={"type": "function", "name": "weather"},
        text={"format": {"type": "json_schema", "name": "n", "schema": schema}},
    )
    assert asked.request.tools == (
        ToolSpec(name="weather", description="Weather of a city.", parameters=TOOL["parameters"]),
    )
    assert asked.tool_choice == ToolChoice(kind="named", name="weather")
    assert asked.form == JsonForm(schema=schema)
    assert read(text={"format": {"type": "json_object"}}).form == JsonForm()
    assert read(tool_choice="required").tool_choice == ToolChoice(kind="required")


@pytest.mark.parametrize("message", TURNS.values(), ids=TURNS)
def test_an_answer_sent_back_is_the_turn_it_was(message: Message) -> None:
    results = [
        {"type": "function_call_output", "call_id": item["call_id"], "output": "12 C"}
        for item in answered(message)["output"]
        if item["type"] == "function_call"
    ]
    user = {"role": "user", "content": [{"type": "input_text", "text": "Go on"}]}
    conversation = [*answered(message)["output"], *results, user]
    found = read(input=[{"role": "user", "content": "Hi"}, *conversation]).request.messages
    assert without_ids(found[1]) == without_ids(message)
    assert [m.role for m in found] == ["user", "assistant", *["tool"] * len(results), "user"]
    assert [m.tool_call_id for m in found[2:-1]] == [call.id for call in found[1].tool_calls]
    assert found[-1].content == "Go on"


def test_calls_of_different_answers_have_different_ids() -> None:
    later = replace(FACTS, id="a2")
    outputs = [
        openai_responses.whole_answer(read(), [turn_of(EVERYTHING)], facts)["output"]
        for facts in (FACTS, later)
    ]
    ids = [item["call_id"] for output in outputs for item in output if "call_id" in item]
    assert len(set(ids)) == len(ids) == 4


def test_two_turns_of_the_assistant_stay_two() -> None:
    item = {"type": "message", "role": "assistant"}
    given = [
        {"role": "user", "content": "Hi"},
        {**item, "content": [{"type": "output_text", "text": "One."}]},
        {**item, "content": [{"type": "output_text", "text": "Two."}]},
    ]
    assert [m.content for m in read(input=given).request.messages] == ["Hi", "One.", "Two."]


def test_a_response_before_is_gone_on_from() -> None:
    before = (
        Message(role="system", content="Be brief."),
        Message(role="user", content="Hi"),
        EVERYTHING,
    )
    kept = {"a1": before}
    body = {"input": "And now?", "previous_response_id": "resp_a1"}
    found = openai_responses.read_request(body, DEFAULTS, kept.get).request.messages
    assert found == (*before, Message(role="user", content="And now?"))
    renewed = openai_responses.read_request({**body, "instructions": "Sing."}, DEFAULTS, kept.get)
    assert [m.content for m in renewed.request.messages[:2]] == ["Sing.", "Hi"]
    with pytest.raises(Refused, match="'resp_zz', which this rollout did not answer") as refused:
        openai_responses.read_request(
            {**body, "previous_response_id": "resp_zz"}, DEFAULTS, kept.get
        )
    assert refused.value.param == "previous_response_id"


def test_items_may_be_named_instead_of_sent() -> None:
    kept = {"a1": (Message(role="user", content="Hi"), EVERYTHING)}
    names = [item["id"] for item in answered(EVERYTHING)["output"]]
    references = [{"type": "item_reference", "id": name} for name in names]
    body = {"input": [{"role": "user", "content": "Hi"}, *references]}
    found = openai_responses.read_request(body, DEFAULTS, kept.get).request.messages
    assert without_ids(found[1]) == without_ids(EVERYTHING)
    with pytest.raises(Refused, match="did not answer"):
        openai_responses.read_request({"input": [{"id": "item_a1_9"}]}, DEFAULTS, kept.get)


@pytest.mark.parametrize(
    ("change", "sentence", "param"),
    [
        ({"input": None}, "input is empty", "input"),
        ({"input": 3}, "input is 3; it must be a list", "input"),
        ({"input": [{"role": "robot", "content": ""}]}, "'robot'", "input[0].role"),
        ({"input": [{"type": "computer_call"}]}, "is a 'computer_call'", "input[0]"),
        (
            {"input": [{"role": "user", "content": [{"type": "input_image"}]}]},
            "the model reads text only",
            "input[0].content[0]",
        ),
        (
            {"input": [{"type": "function_call", "call_id": "c", "name": "n", "arguments": "{"}]},
            "not JSON",
            "input[0].arguments",
        ),
        ({"temperature": "hot"}, "temperature is 'hot'; it must be a number", "temperature"),
        ({"temperature": True}, "must be a number from 0 to 2", "temperature"),
        ({"max_output_tokens": 0}, "a whole number from 1", "max_output_tokens"),
        ({"stream": "yes"}, "true or false", "stream"),
        ({"tools": [{"type": "web_search"}]}, "'web_search'", "tools[0].type"),
        ({"tools": [{"type": "function"}]}, "tools\\[0\\].name is missing", "tools[0].name"),
        ({"tool_choice": "maybe"}, "'none' or 'auto' or 'required'", "tool_choice"),
        ({"tool_choice": {"type": "mcp"}}, "'mcp'", "tool_choice"),
        ({"text": {"format": {"type": "xml"}}}, "'json_schema'", "text.format.type"),
        ({"background": True}, "not supported", "background"),
        ({"conversation": "c"}, "previous_response_id", "conversation"),
        ({"logit_bias": {"1": 5}}, "there is no parameter 'logit_bias'", "logit_bias"),
    ],
)
def test_what_cannot_be_done_is_refused_in_a_sentence(
    change: Mapping[str, Any], sentence: str, param: str
) -> None:
    with pytest.raises(Refused, match=sentence) as refused:
        read(**change)
    assert (refused.value.status, refused.value.param) == (400, param)
    assert "\n" not in refused.value.sentence


def test_what_changes_nothing_is_ignored() -> None:
    plain = read()
    chatty = read(
        user="u", metadata={"a": "b"}, truncation="auto", store=False, reasoning={"effort": "low"}
    )
    assert chatty.request == plain.request
    assert chatty.echo["metadata"] == {"a": "b"}


@pytest.mark.parametrize("message", TURNS.values(), ids=TURNS)
async def test_a_stream_says_what_the_whole_answer_says(message: Message) -> None:
    events = await streamed(message)
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert [event["type"] for event in events[:2]] == ["response.created", "response.in_progress"]
    assert events[-1]["type"] == "response.completed"
    assert events[-1]["response"] == answered(message)
    items = [e["item"] for e in events if e["type"] == "response.output_item.done"]
    assert items == events[-1]["response"]["output"]
    for index, item in enumerate(items):
        pieces = [
            event["delta"]
            for event in events
            if event["type"].endswith(".delta") and event["output_index"] == index
        ]
        words = item["arguments"] if "arguments" in item else item["content"][0]["text"]
        assert "".join(pieces) == words


async def test_a_turn_that_was_not_told_while_it_was_sampled_is_streamed_too() -> None:
    updates = stream_of([], turn_of(EVERYTHING))
    events = [event_of(b) async for b in openai_responses.stream_events(read(), FACTS, updates)]
    assert events[-1]["response"] == answered(EVERYTHING)


async def test_a_turn_that_was_cut_off_is_incomplete() -> None:
    body = answered(SPOKEN, finished=False)
    assert body["status"] == body["output"][0]["status"] == "incomplete"
    assert body["incomplete_details"] == {"reason": "max_output_tokens"}
    assert (await streamed(SPOKEN, finished=False))[-1]["type"] == "response.incomplete"


def test_usage_ids_and_logprobs() -> None:
    asked = read(include=["message.output_text.logprobs"], return_token_ids=True)
    said = Message(role="assistant", content="ab")
    top = (((97, -0.5), (98, -1.5)), ((98, -0.5),))
    body = openai_responses.whole_answer(asked, [turn_of(said, top_logprobs=top)], FACTS)
    assert body["usage"] == {
        "input_tokens": 10,
        "input_tokens_details": {"cached_tokens": 3, "cache_write_tokens": 0},
        "output_tokens": 2,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 12,
    }
    assert body["token_ids"] == [97, 98]
    assert body["prompt_token_ids"] == [7] * 10
    first, second = body["output"][0]["content"][0]["logprobs"]
    assert (first["token"], first["logprob"], first["bytes"]) == ("a", -0.5, [97])
    assert [one["token"] for one in first["top_logprobs"]] == ["a", "b"]
    assert second["token"] == "b"
    assert "token_ids" not in answered(said)


@pytest.mark.parametrize("message", TURNS.values(), ids=TURNS)
async def test_the_shapes_are_those_of_the_client_library(message: Message) -> None:
    responses = pytest.importorskip("openai.types.responses", reason="openai is not installed")
    pydantic = pytest.importorskip("pydantic")
    found = responses.Response.model_validate(answered(message))
    assert found.output_text == message.content
    adapter = pydantic.TypeAdapter(responses.ResponseStreamEvent)
    events = await streamed(message)
    kinds = [type(adapter.validate_python(event)).__name__ for event in events]
    assert kinds[0] == "ResponseCreatedEvent"
    assert kinds[-1] == "ResponseCompletedEvent"
    error = event_of(openai_responses.stream_error(500, "It broke.", "api_error"))
    assert adapter.validate_python(error).message == "It broke."


@pytest.mark.parametrize(
    ("status", "kind", "shown", "code"),
    [
        (400, "invalid_request_error", "invalid_request_error", "invalid_request_error"),
        (400, "context_length_exceeded", "invalid_request_error", "context_length_exceeded"),
        (401, "authentication_error", "authentication_error", "invalid_api_key"),
        (409, "turn_limit", "invalid_request_error", "turn_limit"),
        (429, "rate_limit_error", "rate_limit_error", "rate_limit_exceeded"),
    ],
)
def test_refusals_have_the_shape_of_the_dialect(
    status: int, kind: str, shown: str, code: str
) -> None:
    body = openai_responses.error_body(status, "No.", kind, "input")
    assert body == {"error": {"message": "No.", "type": shown, "param": "input", "code": code}}
