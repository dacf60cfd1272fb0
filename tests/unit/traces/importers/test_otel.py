import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from practicum.core.trace import StopReason
from practicum.traces.importers import import_otel
from practicum.traces.importers.recognise import recognise
from practicum.traces.importers.records import Imported


def attribute(name: str, value: Any) -> dict[str, Any]:
    return {"key": name, "value": any_value(value)}


def any_value(value: Any) -> dict[str, Any]:
    """A value in the protocol's structured form."""
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, list):
        return {"arrayValue": {"values": [any_value(one) for one in value]}}
    if isinstance(value, dict):
        return {"kvlistValue": {"values": [attribute(k, v) for k, v in value.items()]}}
    return {"stringValue": value}


def document(*spans: dict[str, Any]) -> dict[str, Any]:
    return {"resourceSpans": [{"resource": {}, "scopeSpans": [{"spans": list(spans)}]}]}


def span(number: int = 1, **facts: Any) -> dict[str, Any]:
    attributes = [attribute(k.replace("__", "."), v) for k, v in facts.items()]
    return {
        "traceId": "t",
        "spanId": str(number),
        "startTimeUnixNano": str(number),
        "endTimeUnixNano": str(number + 1),
        "attributes": attributes,
    }


def read_one(tmp_path: Path, *documents: dict[str, Any]) -> Any:
    path = tmp_path / "spans.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in documents))
    (part,) = import_otel.read(path, 0)
    assert part.problem == ""
    return part.found[0].episode.trace


USER = {"role": "user", "parts": [{"type": "text", "content": "hi"}]}
SAID = {"role": "assistant", "parts": [{"type": "text", "content": "hello"}]}


def test_spans_of_a_trace_are_one_conversation(
    examples: Path, read: Callable[..., list[Imported]]
) -> None:
    orders, sums = read(examples / "otel.jsonl", "otel")
    trace = orders.episode.trace
    assert (trace.env, trace.model) == ("orders", "qwen2.5-1.5b")
    assert trace.id == "5b8efff798038103d269b633813fc60c"
    assert [node.messages[0].role for node in trace.nodes] == [
        "system",
        "user",
        "assistant",
        "tool",
        "assistant",
    ], "the second call's history is the first one's, gone on"
    call = trace.nodes[2].messages[0]
    assert (call.tool_calls[0].arguments, call.reasoning) == ({"order": 17}, "I need its status.")
    assert trace.nodes[3].messages[0].content == '{"status": "shipped"}'
    assert trace.nodes[4].duration_s == pytest.approx(1.9)
    assert trace.duration_s == 4.0
    events = sums.episode.trace
    assert [m.content for m in events.messages()] == ["Be brief.", "What is 6 times 7?", "42"]
    assert events.env == "support-bot"


def test_the_same_spans_as_one_document_give_the_same(
    examples: Path, tmp_path: Path, read: Callable[..., list[Imported]]
) -> None:
    lines = [json.loads(line) for line in (examples / "otel.jsonl").read_text().splitlines()]
    whole = {"resourceSpans": [one for line in lines for one in line["resourceSpans"]]}
    path = tmp_path / "one.json"
    expected = read(examples / "otel.jsonl")
    for indent in (None, 2):
        path.write_text(json.dumps(whole, indent=indent))
        assert recognise(path).name == "otel"
        assert read(path) == expected


def test_structured_attributes_and_details_events_are_read(tmp_path: Path) -> None:
    structured = span(gen_ai__input__messages=[USER], gen_ai__output__messages=[SAID])
    detailed = span()
    detailed["events"] = [
        {
            "name": "gen_ai.client.inference.operation.details",
            "attributes": structured["attributes"],
        }
    ]
    for one in (structured, detailed):
        trace = read_one(tmp_path, document(one))
        assert [m.content for m in trace.messages()] == ["hi", "hello"]


def test_numbered_attributes_are_read(tmp_path: Path) -> None:
    facts = {
        "gen_ai__prompt__0__role": "user",
        "gen_ai__prompt__0__content": "hi",
        "gen_ai__completion__0__role": "assistant",
        "gen_ai__completion__0__content": "",
        "gen_ai__completion__0__tool_calls__0__name": "look",
        "gen_ai__completion__0__tool_calls__0__arguments": '{"at": 1}',
    }
    trace = read_one(tmp_path, document(span(**facts)))
    said = trace.nodes[1].messages[0]
    assert said.tool_calls[0].name == "look"
    assert said.tool_calls[0].arguments == {"at": 1}


def test_a_history_that_was_rewritten_is_a_branch(tmp_path: Path) -> None:
    other = {"role": "user", "parts": [{"type": "text", "content": "a summary"}]}
    first = span(1, gen_ai__input__messages=[USER], gen_ai__output__messages=[SAID])
    second = span(2, gen_ai__input__messages=[other], gen_ai__output__messages=[SAID])
    trace = read_one(tmp_path, document(second, first))
    assert [node.parent for node in trace.nodes] == [None, 0, None, 2]
    assert trace.nodes[0].messages[0].content == "hi", "by time, not by place in the file"


def test_failures_are_marked(tmp_path: Path) -> None:
    call = {"role": "assistant", "parts": [{"type": "tool_call", "id": "c", "name": "f"}]}
    answer = {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c", "result": "no"}]}
    first = span(1, gen_ai__input__messages=[USER], gen_ai__output__messages=[call])
    tool = {**span(2, gen_ai__tool__call__id="c"), "status": {"code": 2}, "parentSpanId": "1"}
    second = span(3, gen_ai__input__messages=[USER, call, answer], gen_ai__output__messages=[SAID])
    trace = read_one(tmp_path, document(first, tool, second))
    assert [m.is_error for m in trace.messages()] == [False, False, True, False]
    assert trace.stop is StopReason.FINISHED, "only a tool failed"
    broken = {**first, "status": {"code": "STATUS_CODE_ERROR", "message": "boom"}}
    trace = read_one(tmp_path, document(broken))
    assert trace.stop is StopReason.AGENT_FAILED
    assert trace.failure.message == "boom"


def test_bad_lines_are_named_and_the_rest_is_read(tmp_path: Path) -> None:
    good = span(1, gen_ai__input__messages=[USER], gen_ai__output__messages=[SAID])
    silent = {**span(2, gen_ai__request__model="m"), "traceId": "silent"}
    other = {**span(3, http__method="GET"), "traceId": "web"}
    nameless = {**span(4), "traceId": ""}
    path = tmp_path / "spans.jsonl"
    lines = ["{broken", json.dumps(document(good, silent, other)), json.dumps(document(nameless))]
    path.write_text("\n".join([*lines, '{"logs": 1}']) + "\n")
    parts = list(import_otel.read(path, 0))
    assert [(part.line, part.problem[:40]) for part in parts if part.problem] == [
        (1, "it is not JSON (Expecting property name "),
        (3, "a span has no traceId"),
        (4, 'it has no "resourceSpans"'),
        (0, "trace silent: its spans do not record me"),
    ]
    assert [len(part.found) for part in parts if not part.problem] == [1, 0]
    for skip in range(len(parts) + 1):
        assert list(import_otel.read(path, skip)) == parts[skip:]
