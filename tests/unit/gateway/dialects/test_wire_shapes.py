"""Shapes that clients of the providers send and expect, in every dialect that has them."""

import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any, cast

import pytest
from tests.unit.gateway.dialects.turns import CALLING, FACTS, SILENT, SPOKEN, stream_of, turn_of

from practicum.core.conversation import CutCall, TurnDelta
from practicum.core.sampling import SamplingParams
from practicum.core.trace import Message, ToolCall
from practicum.gateway.dialects import (
    anthropic,
    openai_chat,
    openai_completions,
    openai_responses,
)
from practicum.gateway.dialects.dialect import Dialect
from practicum.gateway.requests import ChatTurn, JsonForm, ParsedRequest, Refused, StreamEvent

DEFAULTS = SamplingParams(max_tokens=32)
USER = {"role": "user", "content": "Hi"}
WEATHER = {"name": "weather", "parameters": {"type": "object"}}
CLOCK = {"name": "clock"}
NOTE = {"name": "note", "description": "Write down."}


def chat(**body: Any) -> ParsedRequest:
    return openai_chat.read_request({"messages": [USER], **body}, DEFAULTS)


def respond(**body: Any) -> ParsedRequest:
    return openai_responses.read_request({"input": "Hi", **body}, DEFAULTS)


def message(**body: Any) -> ParsedRequest:
    asked = {"messages": [USER], "max_tokens": 8, **body}
    return anthropic.read_request(asked, DEFAULTS)


def whole(dialect: Any, asked: ParsedRequest, turn: ChatTurn) -> dict[str, Any]:
    return json.loads(json.dumps(dialect.whole_answer(asked, [turn], FACTS)))


async def streamed(
    dialect: Any, asked: ParsedRequest, turn: ChatTurn, deltas: Sequence[TurnDelta] = ()
) -> list[dict[str, Any]]:
    blocks = [b async for b in dialect.stream_events(asked, FACTS, stream_of(deltas, turn))]
    lines = [line for block in blocks for line in block.splitlines() if line.startswith("data: {")]
    return [json.loads(line.removeprefix("data: ")) for line in lines]


# A call that the token limit cut off.

CUT = replace(
    turn_of(SILENT, finished=False, ended_turn=False),
    cut_call=CutCall(name="weather", arguments='{"city": "K'),
)


async def test_a_call_that_is_cut_off_is_a_call_whose_turn_ran_out_of_tokens() -> None:
    tools = [{"type": "function", "function": WEATHER}]
    [choice] = whole(openai_chat, chat(tools=tools), CUT)["choices"]
    assert choice["finish_reason"] == "length"
    assert choice["message"]["content"] is None
    [call] = choice["message"]["tool_calls"]
    assert call["function"] == {"name": "weather", "arguments": '{"city": "K'}
    chunks = await streamed(openai_chat, chat(tools=tools), CUT)
    pieces = [c["choices"][0]["delta"].get("tool_calls", [{}])[0] for c in chunks]
    assert "".join(p.get("function", {}).get("arguments", "") for p in pieces) == '{"city": "K'
    assert chunks[-1]["choices"][0]["finish_reason"] == "length"

    answer = whole(openai_responses, respond(tools=[{"type": "function", **WEATHER}]), CUT)
    assert answer["status"] == "incomplete"
    assert answer["incomplete_details"] == {"reason": "max_output_tokens"}
    [item] = answer["output"]
    assert (item["status"], item["arguments"]) == ("incomplete", '{"city": "K')
    events = await streamed(openai_responses, respond(), CUT)
    assert events[-1]["type"] == "response.incomplete"
    assert events[-1]["response"]["output"] == answer["output"]

    answer = whole(anthropic, message(tools=[{"name": "weather", "input_schema": {}}]), CUT)
    assert answer["stop_reason"] == "max_tokens"
    [block] = answer["content"]
    assert (block["type"], block["name"], block["input"]) == ("tool_use", "weather", {})
    events = await streamed(anthropic, message(), CUT)
    assert [e["delta"]["partial_json"] for e in events if e["type"] == "content_block_delta"] == [
        '{"city": "K'
    ]
    assert events[-2]["delta"]["stop_reason"] == "max_tokens"


def test_a_whole_call_whose_turn_was_cut_off_ran_out_of_tokens_in_every_dialect() -> None:
    cut = turn_of(CALLING, finished=False)
    assert whole(openai_chat, chat(), cut)["choices"][0]["finish_reason"] == "length"
    assert whole(openai_responses, respond(), cut)["status"] == "incomplete"
    assert whole(anthropic, message(), cut)["stop_reason"] == "max_tokens"


# Anthropic.


def test_a_thread_is_refused_in_the_shape_that_tool_runners_fall_back_on() -> None:
    with pytest.raises(Refused) as caught:
        message(thread={"type": "create"})
    body = anthropic.error_body(caught.value.status, caught.value.sentence, caught.value.kind)
    assert caught.value.status == 400
    assert body["error"]["details"] == {"error_code": "thread_unsupported_request"}
    assert message(thread=None).request.messages


async def prompted(turn: ChatTurn) -> AsyncIterator[StreamEvent]:
    delta = TurnDelta(kind="content", text="It rains.")
    yield StreamEvent(delta=delta, prompt_tokens=turn.prompt_tokens)
    yield StreamEvent(turn=turn, prompt_tokens=turn.prompt_tokens)


async def test_a_stream_of_anthropics_begins_with_the_prompts_tokens() -> None:
    turn = turn_of(SPOKEN)
    events = [e async for e in anthropic.stream_events(message(), FACTS, prompted(turn))]
    start = json.loads(events[0].splitlines()[1].removeprefix("data: "))
    assert start["message"]["usage"]["input_tokens"] == turn.prompt_tokens == 10


def test_ids_begin_as_the_providers_do() -> None:
    [block] = whole(anthropic, message(), turn_of(CALLING))["content"]
    assert block["id"].startswith("toolu_")
    spoken = replace(CALLING, content="Hm.", reasoning="Well?")
    items = whole(openai_responses, respond(), turn_of(spoken))["output"]
    assert [item["id"].partition("_")[0] for item in items] == ["rs", "msg", "fc"]
    assert items[-1]["call_id"].startswith("call_")


def test_thinking_of_another_model_is_left_out() -> None:
    blocks = [{"type": "redacted_thinking", "data": "xyz"}, {"type": "text", "text": "So."}]
    asked = message(messages=[USER, {"role": "assistant", "content": blocks}, USER])
    assert asked.request.messages[1] == Message(role="assistant", content="So.")


@pytest.mark.parametrize(
    ("kind", "name", "argument"),
    [
        ("bash_20250124", "bash", "command"),
        ("text_editor_20250728", "str_replace_based_edit_tool", "path"),
    ],
)
def test_tools_that_the_client_runs_are_offered_with_their_arguments(
    kind: str, name: str, argument: str
) -> None:
    [tool] = message(tools=[{"type": kind, "name": name}]).request.tools
    assert tool.name == name
    assert argument in cast(dict[str, Any], tool.parameters["properties"])
    with pytest.raises(Refused, match="web_search"):
        message(tools=[{"type": "web_search_20250305", "name": "web_search"}])


def test_models_are_listed_in_anthropics_shape() -> None:
    page = anthropic.model_list(["a", "b"], 0)
    assert (page["first_id"], page["last_id"], page["has_more"]) == ("a", "b", False)
    assert page["data"][0] == {
        "type": "model",
        "id": "a",
        "display_name": "a",
        "created_at": "1970-01-01T00:00:00Z",
    }


# OpenAI.


async def test_a_stream_that_begins_with_a_call_has_no_content() -> None:
    first, *_ = await streamed(openai_chat, chat(), turn_of(CALLING))
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": None}
    first, *_ = await streamed(openai_chat, chat(), turn_of(SPOKEN))
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": ""}


def test_a_call_that_the_client_named_is_a_stop() -> None:
    tools = [{"type": "function", "function": WEATHER}]
    named = {"type": "function", "function": {"name": "weather"}}
    for choice, reason in ((named, "stop"), ("required", "tool_calls"), ("auto", "tool_calls")):
        asked = chat(tools=tools, tool_choice=choice)
        assert whole(openai_chat, asked, turn_of(CALLING))["choices"][0]["finish_reason"] == reason


async def test_functions_of_older_clients_are_called_one_at_a_time() -> None:
    asked = chat(functions=[WEATHER, CLOCK], function_call="auto")
    assert [tool.name for tool in asked.request.tools] == ["weather", "clock"]
    assert asked.parallel_tool_calls is False
    [choice] = whole(openai_chat, asked, turn_of(CALLING))["choices"]
    assert choice["finish_reason"] == "function_call"
    called = choice["message"]["function_call"]
    assert json.loads(called["arguments"]) == {"city": "Köln", "days": 2}
    assert "tool_calls" not in choice["message"]
    chunks = await streamed(openai_chat, asked, turn_of(CALLING))
    pieces = [c["choices"][0]["delta"].get("function_call", {}) for c in chunks]
    assert "".join(p.get("arguments", "") for p in pieces) == called["arguments"]
    result = {"role": "function", "name": "weather", "content": "rain"}
    sent = [USER, {"role": "assistant", "content": None, "function_call": called}, result]
    _, turn, tool = chat(functions=[WEATHER], messages=sent).request.messages
    assert [call.name for call in turn.tool_calls] == ["weather"]
    assert (tool.role, tool.tool_call_id) == ("tool", turn.tool_calls[0].id)
    assert chat(functions=[WEATHER], function_call={"name": "weather"}).tool_choice.kind == "named"


@pytest.mark.parametrize("stop", ["", [], [""], None])
def test_a_stop_text_that_is_empty_stops_nothing(stop: Any) -> None:
    assert chat(stop=stop).request.params.stop == ()
    assert chat(stop=["", "END"]).request.params.stop == ("END",)


@pytest.mark.parametrize("mode", ["auto", "required"])
def test_of_the_tools_some_may_be_allowed(mode: str) -> None:
    tools = [{"type": "function", "function": one} for one in (WEATHER, CLOCK)]
    allowed = {"mode": mode, "tools": [{"type": "function", "function": {"name": "clock"}}]}
    choice = {"type": "allowed_tools", "allowed_tools": allowed}
    asked = chat(tools=tools, tool_choice=choice)
    assert asked.tool_choice.kind == mode
    assert [t.name for t in asked.tool_choice.callable(asked.request.tools)] == ["clock"]
    flat = {
        "type": "allowed_tools",
        "mode": mode,
        "tools": [{"type": "function", "name": "clock"}],
    }
    listed = [{"type": "function", **one} for one in (WEATHER, CLOCK)]
    asked = respond(tools=listed, tool_choice=flat)
    assert [t.name for t in asked.tool_choice.callable(asked.request.tools)] == ["clock"]
    with pytest.raises(Refused, match="not among the tools"):
        respond(tools=listed[:1], tool_choice=flat)


NOTED = Message(
    role="assistant",
    content="",
    tool_calls=(ToolCall(name="note", arguments={"input": 'a "b"\n'}, id=""),),
)


async def test_a_custom_tool_takes_and_gives_plain_text() -> None:
    asked = chat(tools=[{"type": "custom", "custom": NOTE}])
    [choice] = whole(openai_chat, asked, turn_of(NOTED))["choices"]
    [call] = choice["message"]["tool_calls"]
    assert (call["type"], call["custom"]) == ("custom", {"name": "note", "input": 'a "b"\n'})
    sent = [USER, choice["message"], {"role": "tool", "tool_call_id": call["id"], "content": "k"}]
    [back] = chat(messages=sent).request.messages[1].tool_calls
    assert back.arguments == NOTED.tool_calls[0].arguments
    chunks = await streamed(openai_chat, asked, turn_of(NOTED))
    pieces = [c["choices"][0]["delta"].get("tool_calls", [{}])[0] for c in chunks]
    assert "".join(p.get("custom", {}).get("input", "") for p in pieces) == 'a "b"\n'

    asked = respond(tools=[{"type": "custom", **NOTE}])
    [item] = whole(openai_responses, asked, turn_of(NOTED))["output"]
    assert (item["type"], item["input"]) == ("custom_tool_call", 'a "b"\n')
    result = {"type": "custom_tool_call_output", "call_id": item["call_id"], "output": "k"}
    messages = respond(input=[USER, item, result]).request.messages
    assert messages[1].tool_calls[0].arguments == NOTED.tool_calls[0].arguments
    events = await streamed(openai_responses, asked, turn_of(NOTED))
    [done] = [e for e in events if e["type"] == "response.custom_tool_call_input.done"]
    assert done["input"] == 'a "b"\n'
    assert events[-1]["response"]["output"] == [item]
    with pytest.raises(Refused, match="any text"):
        chat(tools=[{"type": "custom", "custom": {**NOTE, "format": {"type": "grammar"}}}])


def test_forms_as_vllms_clients_ask_for_them() -> None:
    schema = {"type": "object"}
    assert chat(guided_json=schema).form == JsonForm(schema=schema)
    assert chat(guided_json=json.dumps(schema)).form == JsonForm(schema=schema)
    assert chat(structured_outputs={"json": schema}).form == JsonForm(schema=schema)
    assert chat(structured_outputs={"json_object": True}).form == JsonForm()
    assert chat(structured_outputs={"choice": ["a", "b"]}).form == JsonForm(choices=("a", "b"))
    assert chat(guided_choice=["a"]).form == JsonForm(choices=("a",))
    with pytest.raises(Refused, match="regex is not supported"):
        chat(structured_outputs={"regex": ".*"})


def test_variables_of_the_template_are_plain_values() -> None:
    asked = chat(chat_template_kwargs={"enable_thinking": False, "a": "b"})
    assert asked.request.template == (("a", "b"), ("enable_thinking", False))
    for wrong in ({"tools": "x"}, {"a": [1]}, {"a b": 1}, {"a": "x" * 1000}):
        with pytest.raises(Refused, match="no variable"):
            chat(chat_template_kwargs=wrong)


def complete(**body: Any) -> ParsedRequest:
    return openai_completions.read_request({"prompt": "Once", **body}, DEFAULTS)


async def test_a_text_is_gone_on_with() -> None:
    asked = complete(logprobs=0, max_tokens=9, stop="", prompt=["Once"])
    assert (asked.request.text, asked.request.params.max_tokens) == ("Once", 9)
    answer = whole(openai_completions, asked, turn_of(SPOKEN))
    assert (answer["object"], answer["id"]) == ("text_completion", "cmpl-a1")
    [choice] = answer["choices"]
    assert (choice["text"], choice["finish_reason"]) == ("It rains.", "stop")
    assert "".join(choice["logprobs"]["tokens"]) == "It rains."
    assert choice["logprobs"]["text_offset"] == list(range(9))
    deltas = [TurnDelta(kind="content", text=text) for text in ("It ", "rains")]
    events = await streamed(openai_completions, asked, turn_of(SPOKEN), deltas)
    assert "".join(e["choices"][0]["text"] for e in events) == "It rains."
    assert events[-1]["choices"][0]["finish_reason"] == "stop"
    for wrong in (
        {"prompt": ["a", "b"]},
        {"prompt": ""},
        {"echo": True},
        {"suffix": "x"},
        {"x": 1},
    ):
        with pytest.raises(Refused):
            complete(**wrong)


@pytest.mark.parametrize("dialect", [openai_chat, openai_responses, anthropic, openai_completions])
def test_what_a_dialect_knows_is_what_it_does_not_refuse_by_name(dialect: Any) -> None:
    known = cast(Dialect, dialect).KNOWN
    assert "model" in known
    assert "no_such_parameter" not in known
