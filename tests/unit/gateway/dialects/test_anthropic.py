import json
from collections.abc import Mapping
from dataclasses import replace
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
from practicum.gateway.dialects import anthropic
from practicum.gateway.dialects.dialect import deltas_of
from practicum.gateway.requests import JsonForm, ParsedRequest, Refused, ToolChoice

DEFAULTS = SamplingParams(temperature=0.7, max_tokens=32)
HELLO = {"role": "user", "content": "Hi"}
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}


def read(**body: Any) -> ParsedRequest:
    usual = {"model": "tiny", "max_tokens": 9, "messages": [HELLO]}
    return anthropic.read_request({**usual, **body}, DEFAULTS)


def answered(message: Message, **changes: Any) -> dict[str, Any]:
    """An answer as it comes out of the client's JSON."""
    body = anthropic.whole_answer(read(), [turn_of(message, **changes)], FACTS)
    return json.loads(json.dumps(body))


async def streamed(message: Message, **changes: Any) -> list[dict[str, Any]]:
    deltas = in_small_pieces(list(deltas_of(message)))
    updates = stream_of(deltas, turn_of(message, **changes))
    return [event_of(b) async for b in anthropic.stream_events(read(), FACTS, updates)]


def event_of(block: str) -> dict[str, Any]:
    name, data, *blank = block.split("\n")
    event = json.loads(data.removeprefix("data: "))
    assert name == f"event: {event['type']}"
    assert blank == ["", ""]
    return event


def put_together(events: list[dict[str, Any]]) -> dict[str, Any]:
    """The message that a client makes of a stream."""
    message = dict(events[0]["message"])
    blocks: list[dict[str, Any]] = []
    for event in events:
        if event["type"] == "content_block_start":
            assert event["index"] == len(blocks)
            blocks.append({**event["content_block"], "json": ""})
        elif event["type"] == "content_block_delta":
            assert event["index"] == len(blocks) - 1
            for key, value in event["delta"].items():
                place = {"partial_json": "json"}.get(key, key)
                if key != "type":
                    blocks[-1][place] += value
        elif event["type"] == "message_delta":
            message |= {**event["delta"], "usage": event["usage"]}
    for block in blocks:
        written = block.pop("json")
        if block["type"] == "tool_use":
            block["input"] = json.loads(written)
    return message | {"content": blocks}


def test_a_conversation_and_its_settings_are_read() -> None:
    asked = read(
        system=[{"type": "text", "text": "Be brief."}, {"type": "text", "text": "Be kind."}],
        temperature=0.5,
        top_p=0.9,
        top_k=40,
        stop_sequences=["END"],
        stream=True,
    )
    assert asked.request.messages == (
        Message(role="system", content="Be brief.\n\nBe kind."),
        Message(role="user", content="Hi"),
    )
    assert asked.request.params == SamplingParams(
        temperature=0.5, top_p=0.9, top_k=40, max_tokens=9, stop=("END",)
    )
    assert asked.stream
    assert read().request.params == replace(DEFAULTS, max_tokens=9)


def test_tools_choices_and_schemas_are_read() -> None:
    tool = {"name": "weather", "description": "Weather.", "input_schema": SCHEMA}
    asked = read(tools=[tool], tool_choice={"type": "any", "disable_parallel_tool_use": True})
    assert asked.request.tools == (
        ToolSpec(name="weather", description="Weather.", parameters=SCHEMA),
    )
    assert asked.tool_choice == ToolChoice(kind="required")
    assert not asked.parallel_tool_calls
    assert read(tool_choice={"type": "none"}).tool_choice == ToolChoice(kind="none")
    named = {"type": "tool", "name": "weather"}
    assert read(tool_choice=named).tool_choice == ToolChoice(kind="named", name="weather")
    stated = {"type": "json_schema", "schema": SCHEMA}
    assert read(output_config={"format": stated}).form == JsonForm(schema=SCHEMA)
    assert read(output_format=stated).form == JsonForm(schema=SCHEMA)


@pytest.mark.parametrize("message", TURNS.values(), ids=TURNS)
def test_an_answer_sent_back_is_the_turn_it_was(message: Message) -> None:
    said = answered(message)
    blocks = [
        {"type": "tool_result", "tool_use_id": b["id"], "content": "12 C", "is_error": True}
        for b in said["content"]
        if b["type"] == "tool_use"
    ]
    back = {"role": "user", "content": [*blocks, {"type": "text", "text": "Go on"}]}
    found = read(messages=[HELLO, {k: said[k] for k in ("role", "content")}, back])
    messages = found.request.messages
    assert without_ids(messages[1]) == without_ids(message)
    assert [m.role for m in messages] == ["user", "assistant", *["tool"] * len(blocks), "user"]
    assert [m.tool_call_id for m in messages[2:-1]] == [c.id for c in messages[1].tool_calls]
    assert all(m.is_error and m.content == "12 C" for m in messages[2:-1])
    assert messages[-1].content == "Go on"


@pytest.mark.parametrize(
    ("change", "sentence", "param"),
    [
        ({"max_tokens": None}, "max_tokens is missing", "max_tokens"),
        ({"max_tokens": 0}, "a whole number from 1", "max_tokens"),
        ({"messages": []}, "messages is empty", "messages"),
        ({"messages": "Hi"}, "it must be a list", "messages"),
        ({"messages": ["Hi"]}, "messages\\[0\\] is not an object", "messages[0]"),
        ({"messages": [{"role": "tool", "content": ""}]}, "'tool'", "messages[0].role"),
        (
            {"messages": [HELLO, {"role": "assistant", "content": "I"}]},
            "the last message is the assistant's",
            "messages",
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "image"}]}]},
            "'image'",
            "messages[0].content[0]",
        ),
        ({"temperature": 2}, "a number from 0 to 1", "temperature"),
        ({"stop_sequences": [""]}, "texts that are not empty", "stop_sequences"),
        (
            {"tools": [{"type": "web_search_20250305", "name": "bash"}]},
            "'web_search_20250305'",
            "tools[0].type",
        ),
        ({"tool_choice": {"type": "some"}}, "'any'", "tool_choice.type"),
        ({"output_config": {"format": {"type": "xml"}}}, "xml", "output_config.format.type"),
        ({"mcp_servers": [{"url": "http://x"}]}, "not supported", "mcp_servers"),
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


@pytest.mark.parametrize("message", TURNS.values(), ids=TURNS)
async def test_a_stream_says_what_the_whole_answer_says(message: Message) -> None:
    events = await streamed(message)
    assert events[0]["type"] == "message_start"
    assert events[-1]["type"] == "message_stop"
    assert put_together(events) == answered(message)


async def test_a_turn_that_was_not_told_while_it_was_sampled_is_streamed_too() -> None:
    updates = stream_of([], turn_of(EVERYTHING))
    events = [event_of(b) async for b in anthropic.stream_events(read(), FACTS, updates)]
    assert put_together(events) == answered(EVERYTHING)


@pytest.mark.parametrize(
    ("message", "changes", "reason", "text"),
    [
        (SPOKEN, {}, "end_turn", None),
        (SPOKEN, {"finished": False}, "max_tokens", None),
        (SPOKEN, {"stopped_by": "END", "ended_turn": False}, "stop_sequence", "END"),
        (CALLING, {}, "tool_use", None),
        (CALLING, {"finished": False}, "max_tokens", None),
    ],
)
def test_why_a_turn_ended(
    message: Message, changes: Mapping[str, Any], reason: str, text: str | None
) -> None:
    body = answered(message, **changes)
    assert (body["stop_reason"], body["stop_sequence"]) == (reason, text)


def test_usage_counts_cached_tokens_apart_and_ids_are_shown_on_request() -> None:
    body = answered(SPOKEN)
    assert body["usage"] == {
        "input_tokens": 7,
        "cache_read_input_tokens": 3,
        "cache_creation_input_tokens": 0,
        "output_tokens": len(SPOKEN.content),
    }
    assert "token_ids" not in body
    asked = read(return_token_ids=True)
    shown = anthropic.whole_answer(asked, [turn_of(SPOKEN)], FACTS)
    assert shown["token_ids"] == list(SPOKEN.content.encode())
    assert shown["prompt_token_ids"] == [7] * 10


def test_counting_needs_no_limit() -> None:
    asked = anthropic.read_count({"model": "tiny", "messages": [HELLO]}, DEFAULTS)
    assert asked.request.messages == (Message(role="user", content="Hi"),)
    assert anthropic.count_answer(5) == {"input_tokens": 5}


@pytest.mark.parametrize("message", TURNS.values(), ids=TURNS)
async def test_the_shapes_are_those_of_the_client_library(message: Message) -> None:
    types = pytest.importorskip("anthropic.types", reason="anthropic is not installed")
    pydantic = pytest.importorskip("pydantic")
    found = types.Message.model_validate(answered(message))
    assert found.stop_reason == ("tool_use" if message.tool_calls else "end_turn")
    adapter = pydantic.TypeAdapter(types.RawMessageStreamEvent)
    kinds = [type(adapter.validate_python(event)).__name__ for event in await streamed(message)]
    assert kinds[0] == "RawMessageStartEvent"
    assert kinds[-2:] == ["RawMessageDeltaEvent", "RawMessageStopEvent"]


@pytest.mark.parametrize(
    ("status", "kind", "shown"),
    [
        (400, "invalid_request_error", "invalid_request_error"),
        (401, "authentication_error", "authentication_error"),
        (409, "turn_limit", "invalid_request_error"),
        (413, "request_too_large", "request_too_large"),
        (429, "rate_limit_error", "rate_limit_error"),
        (500, "api_error", "api_error"),
        (504, "timeout_error", "timeout_error"),
    ],
)
def test_refusals_have_the_shape_of_the_dialect(status: int, kind: str, shown: str) -> None:
    body = anthropic.error_body(status, "No.", kind)
    assert body == {"type": "error", "error": {"type": shown, "message": "No."}}
    assert event_of(anthropic.stream_error(status, "No.", kind)) == body


def test_a_prompt_that_does_not_fit_is_said_in_the_words_that_clients_look_for() -> None:
    body = anthropic.error_body(400, "It has 9 tokens.", "context_length_exceeded")
    assert body["error"]["message"] == "prompt is too long: It has 9 tokens."
