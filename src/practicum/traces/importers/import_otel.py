"""Importer of OpenTelemetry GenAI spans as OTLP JSON: one document, or one per line.

The spans of one trace id are one episode. Messages are read from the attributes
`gen_ai.input.messages` and `gen_ai.output.messages`, from the events that came before those
(`gen_ai.user.message`, `gen_ai.choice`, ...), or from numbered attributes
(`gen_ai.prompt.0.content`).

Spans of one trace may be far apart in a file, so they are collected in a temporary database first:
memory stays constant.
"""

import json
import re
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from practicum.core.json_values import as_json
from practicum.core.task import JSON
from practicum.core.trace import Failure, Message, RecordedTree, StopReason, ToolSpec
from practicum.traces.importers.json_files import Item, array_items
from practicum.traces.importers.lenient_json import (
    as_list,
    as_map,
    as_seconds,
    as_text,
    decode_json,
)
from practicum.traces.importers.openai_messages import read_message, read_tools
from practicum.traces.importers.records import Draft, Malformed, Part

NUMBERED = re.compile(r"gen_ai\.(prompt|completion)\.(\d+)\.(.+)")
NUMBERED_CALL = re.compile(r"tool_calls\.(\d+)\.(name|arguments|id)")
WHOLE_NUMBER = re.compile(r"-?[0-9]{1,20}")
EVENT_ROLES = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
}
DETAILS_EVENT = "gen_ai.client.inference.operation.details"
CHOICE_EVENT = "gen_ai.choice"
FAILED = (2, "STATUS_CODE_ERROR")
NANOSECONDS = 1e9


def draft_of_spans(spans: list[dict[str, Any]], source: str) -> Draft | None:
    """The episode of a trace; None if none of its spans is of a model."""
    facts = [_facts(span) for span in spans]
    tree = RecordedTree()
    tools: tuple[ToolSpec, ...] = ()
    model = ""
    has_messages = False
    for span, known in zip(spans, facts, strict=True):
        history, output = _exchange(span, known)
        if not history and output is None:
            continue
        has_messages = True
        model = model or as_text(
            known.get("gen_ai.response.model") or known.get("gen_ai.request.model")
        )
        tools = tools or read_tools(_value(known.get("gen_ai.tool.definitions")))
        history = _with_tool_errors(history, facts, spans)
        if output is None:
            tree.given(history)
        else:
            tree.turn(history, output, _duration(span))
    if not has_messages:
        if any(name.startswith("gen_ai.") for known in facts for name in known):
            raise Malformed("its spans do not record messages; switch content capture on")
        return None
    starts = [span_time(span, "startTimeUnixNano") for span in spans]
    ends = [span_time(span, "endTimeUnixNano") for span in spans]
    failure = _failure(spans)
    return Draft(
        source=source,
        nodes=tree.nodes,
        tools=tools,
        id=as_text(spans[0].get("traceId")),
        model=model,
        env=_first(facts, "gen_ai.agent.name") or _first(facts, "service.name"),
        task_id=_first(facts, "practicum.task_id"),
        started_at=as_seconds(min(starts) / NANOSECONDS),
        duration_s=max(0, max(ends) - min(starts)) / NANOSECONDS,
        stop=StopReason.AGENT_FAILED if failure else StopReason.FINISHED,
        failure=failure,
        evidence=_evidence(facts),
    )


def span_time(span: dict[str, Any], name: str) -> int:
    """Nanoseconds since the epoch, which OTLP JSON has as a string; 0 if missing."""
    text = as_text(span.get(name))
    return int(text) if WHOLE_NUMBER.fullmatch(text) else 0


def _facts(span: dict[str, Any]) -> dict[str, Any]:
    resource = _attributes({"attributes": span.get("resource")})
    return {**resource, **_attributes(span)}


def _attributes(holder: dict[str, Any]) -> dict[str, Any]:
    pairs = as_list(holder.get("attributes"), "attributes")
    found = {}
    for pair in pairs:
        one = as_map(pair, "an attribute")
        found[as_text(one.get("key"))] = _any_value(one.get("value"))
    return found


def _any_value(value: Any) -> Any:
    """Decode OTLP's `AnyValue`, which is tagged with its type."""
    given = as_map(value, "a value")
    if "arrayValue" in given:
        items = as_list(as_map(given["arrayValue"], "arrayValue").get("values"), "values")
        return [_any_value(item) for item in items]
    if "kvlistValue" in given:
        pairs = as_list(as_map(given["kvlistValue"], "kvlistValue").get("values"), "values")
        return {as_text(as_map(p, "a pair").get("key")): _any_value(p.get("value")) for p in pairs}
    if "intValue" in given:
        text = as_text(given["intValue"])
        return int(text) if WHOLE_NUMBER.fullmatch(text) else text
    return next(iter(given.values()), None)


def _value(value: Any) -> Any:
    """A structured value, which some SDKs write as JSON text."""
    return decode_json(value) if isinstance(value, str) and value[:1] in "[{" else value


def _exchange(span: dict[str, Any], facts: dict[str, Any]) -> tuple[list[Message], Message | None]:
    """The input messages and the output message of a span."""
    events = [as_map(event, "an event") for event in as_list(span.get("events"), "events")]
    details = next((_attributes(e) for e in events if e.get("name") == DETAILS_EVENT), {})
    known = {**facts, **details}
    if "gen_ai.input.messages" in known or "gen_ai.output.messages" in known:
        return _from_messages(known)
    if any(event.get("name") in (*EVENT_ROLES, CHOICE_EVENT) for event in events):
        return _from_events(events)
    return _from_numbers(facts)


def _from_messages(known: dict[str, Any]) -> tuple[list[Message], Message | None]:
    history: list[Message] = []
    rules = _value(known.get("gen_ai.system_instructions"))
    if rules:
        parts = rules if isinstance(rules, list) else [{"type": "text", "content": rules}]
        history += _messages_of_parts("system", parts)
    for message in as_list(_value(known.get("gen_ai.input.messages")), "gen_ai.input.messages"):
        history += _messages(message)
    outputs = as_list(_value(known.get("gen_ai.output.messages")), "gen_ai.output.messages")
    output = _messages(outputs[0]) if outputs else []
    return history, output[0] if output else None


def _messages(value: Any) -> list[Message]:
    given = as_map(value, "a message")
    if "parts" not in given:
        return [read_message(given, 0)]
    parts = as_list(given["parts"], "parts")
    return _messages_of_parts(as_text(given.get("role")) or "assistant", parts)


def _messages_of_parts(role: str, parts: list[Any]) -> list[Message]:
    """One message, or one per tool result."""
    texts, reasoning, calls, answers = [], [], [], list[Message]()
    for value in parts:
        part = as_map(value, "a part")
        kind = as_text(part.get("type"))
        if kind == "tool_call":
            calls.append({"id": part.get("id"), "function": part})
        elif kind == "tool_call_response":
            answers.append(
                Message(
                    role="tool",
                    content=as_text(part.get("response", part.get("result"))),
                    tool_call_id=as_text(part.get("id")),
                )
            )
        elif kind in ("reasoning", "thinking"):
            reasoning.append(as_text(part.get("content")))
        elif kind == "text":
            texts.append(as_text(part.get("content", part.get("text"))))
        else:
            texts.append(f"[{kind or 'part'}]")
    if answers:
        return answers
    row = {
        "role": role,
        "content": "\n".join(texts),
        "tool_calls": calls,
        "reasoning": "\n".join(reasoning),
    }
    return [read_message(row, 0)]


def _from_events(events: list[dict[str, Any]]) -> tuple[list[Message], Message | None]:
    history: list[Message] = []
    output: Message | None = None
    for event in events:
        name, body = as_text(event.get("name")), _attributes(event)
        if name in EVENT_ROLES:
            history.append(_event_message({"role": EVENT_ROLES[name], **body}))
        elif name == CHOICE_EVENT and output is None:
            inner = as_map(_value(body.get("message")) or body, "message")
            output = _event_message({"role": "assistant", **inner})
    return history, output


def _event_message(body: dict[str, Any]) -> Message:
    calls = _value(body.get("tool_calls"))
    call_id = body.get("tool_call_id", body.get("id")) if body["role"] == "tool" else None
    return read_message({**body, "tool_calls": calls, "tool_call_id": call_id}, 0)


def _from_numbers(facts: dict[str, Any]) -> tuple[list[Message], Message | None]:
    rows: dict[str, dict[int, dict[str, Any]]] = {"prompt": {}, "completion": {}}
    for name, value in facts.items():
        match = NUMBERED.fullmatch(name)
        if match is None:
            continue
        side, number, field = match.groups()
        row = rows[side].setdefault(int(number), {"calls": {}})
        call = NUMBERED_CALL.fullmatch(field)
        if call is not None:
            row["calls"].setdefault(int(call[1]), {})[call[2]] = value
        else:
            row[field] = value

    def message(row: dict[str, Any], role: str) -> Message:
        calls = [{"id": c.get("id"), "function": c} for _, c in sorted(row.pop("calls").items())]
        return read_message({"role": role, **row, "tool_calls": calls}, 0)

    prompts = [message(row, "user") for _, row in sorted(rows["prompt"].items())]
    output = [message(row, "assistant") for _, row in sorted(rows["completion"].items())]
    return prompts, output[0] if output else None


def _with_tool_errors(
    history: list[Message], facts: list[dict[str, Any]], spans: list[dict[str, Any]]
) -> list[Message]:
    """The history with tool results marked as errors where the tool's own span failed."""
    failed = {
        as_text(known.get("gen_ai.tool.call.id"))
        for span, known in zip(spans, facts, strict=True)
        if known.get("gen_ai.tool.call.id") and _status(span) in FAILED
    }
    if not failed:
        return history
    return [
        Message(role="tool", content=m.content, tool_call_id=m.tool_call_id, is_error=True)
        if m.role == "tool" and m.tool_call_id in failed
        else m
        for m in history
    ]


def _status(span: dict[str, Any]) -> Any:
    return as_map(span.get("status"), "status").get("code")


def _failure(spans: list[dict[str, Any]]) -> Failure | None:
    """The error of a root span, which is that of the whole trace."""
    names = {as_text(span.get("spanId")) for span in spans}
    for span in spans:
        if as_text(span.get("parentSpanId")) not in names and _status(span) in FAILED:
            text = as_text(as_map(span.get("status"), "status").get("message"))
            return Failure(kind="span", message=text[:500] or as_text(span.get("name")))
    return None


def _duration(span: dict[str, Any]) -> float:
    start, end = span_time(span, "startTimeUnixNano"), span_time(span, "endTimeUnixNano")
    return max(0, end - start) / NANOSECONDS


def _first(facts: list[dict[str, Any]], name: str) -> str:
    return next((as_text(known[name]) for known in facts if known.get(name)), "")


def _evidence(facts: list[dict[str, Any]]) -> dict[str, JSON]:
    used: dict[str, JSON] = {}
    for name in ("gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens"):
        counts = [known[name] for known in facts if isinstance(known.get(name), int)]
        if counts:
            used[name.rpartition(".")[2]] = sum(counts)
    conversation = _first(facts, "gen_ai.conversation.id")
    return {**used, **({"conversation": as_json(conversation)} if conversation else {})}


SOURCE = "otel"
MAX_LINE = 1 << 24
"""A file with a longer first line is read as one document, in a stream."""


def read(path: Path, skip: int) -> Iterator[Part]:
    """First the lines that cannot be read, then the traces in order of appearance."""
    with tempfile.TemporaryDirectory(prefix="practicum-spans-") as folder:
        database = sqlite3.connect(Path(folder) / "spans.sqlite", isolation_level=None)
        try:
            database.execute("PRAGMA synchronous = OFF")
            database.execute("PRAGMA journal_mode = OFF")
            database.execute("CREATE TABLE spans (number INTEGER PRIMARY KEY, trace, start, span)")
            database.execute("CREATE TABLE traces (number INTEGER PRIMARY KEY, trace UNIQUE)")
            for part in _spool(path, database):
                if skip:
                    skip -= 1
                else:
                    yield part
            yield from _traces(path, database, skip)
        finally:
            database.close()


def _spool(path: Path, database: sqlite3.Connection) -> Iterator[Part]:
    """Insert every span into the database; yields the lines that cannot be read."""
    offset = 0
    for item in _documents(path):
        offset = item.offset
        if isinstance(item.value, Malformed):
            yield Part(line=item.line, offset=offset, problem=str(item.value))
            continue
        try:
            rows = list(_rows(as_map(item.value, "the line")))
        except Malformed as error:
            yield Part(line=item.line, offset=offset, problem=str(error))
            continue
        for trace, start, span in rows:
            database.execute("INSERT OR IGNORE INTO traces (trace) VALUES (?)", (trace,))
            database.execute(
                "INSERT INTO spans (trace, start, span) VALUES (?, ?, ?)",
                (trace, start, json.dumps(span)),
            )
    database.execute("CREATE INDEX by_trace ON spans (trace, start, number)")


def _documents(path: Path) -> Iterator[Item]:
    """One `resourceSpans` entry or one line at a time; a bad line is given as its `Malformed`."""
    if _is_one_document(path):
        items = array_items(path, "resourceSpans")
        line = 0
        while True:
            try:
                item = next(items, None)
            except Malformed as error:
                yield Item(error, error.line or line, 0)
                return
            if item is None:
                return
            line = item.line
            yield Item({"resourceSpans": [item.value]}, item.line, item.offset)
    else:
        offset = 0
        with path.open("rb") as file:
            for number, raw in enumerate(file, 1):
                offset += len(raw)
                if raw.strip():
                    yield Item(_line(raw), number, offset)


def _is_one_document(path: Path) -> bool:
    """Whether the file is one document: neither of its first two lines is an object by itself."""
    with path.open("rb") as file:
        first, second = (_line(file.readline(MAX_LINE)) for _ in range(2))
    return not isinstance(first, dict) and not isinstance(second, dict)


def _line(raw: bytes) -> Any:
    try:
        return decode_json(raw.decode("utf-8-sig"))
    except Malformed as error:
        return error
    except UnicodeDecodeError as error:
        return Malformed(f"it is not UTF-8 text ({error.reason})")


def _rows(document: dict[str, Any]) -> Iterator[tuple[str, int, dict[str, Any]]]:
    if "resourceSpans" not in document:
        raise Malformed('it has no "resourceSpans"')
    for resource in as_list(document["resourceSpans"], "resourceSpans"):
        holder = as_map(resource, "a resourceSpans entry")
        named = as_map(holder.get("resource"), "resource").get("attributes")
        # Renamed from `instrumentationLibrarySpans` in OTLP 0.19.
        scopes = holder.get("scopeSpans") or holder.get("instrumentationLibrarySpans")
        for scope in as_list(scopes, "scopeSpans"):
            for value in as_list(as_map(scope, "a scopeSpans entry").get("spans"), "spans"):
                span = as_map(value, "a span")
                trace = as_text(span.get("traceId"))
                if not trace:
                    raise Malformed("a span has no traceId")
                yield trace, span_time(span, "startTimeUnixNano"), {**span, "resource": named}


def _traces(path: Path, database: sqlite3.Connection, skip: int) -> Iterator[Part]:
    size = path.stat().st_size
    [(total,)] = database.execute("SELECT COUNT(*) FROM traces").fetchall()
    for number, (trace,) in enumerate(
        database.execute("SELECT trace FROM traces ORDER BY number"), 1
    ):
        if number <= skip:
            continue
        rows = database.execute(
            "SELECT span FROM spans WHERE trace = ? ORDER BY start, number", (trace,)
        )
        offset = size * number // total
        try:
            draft = draft_of_spans([json.loads(span) for (span,) in rows], SOURCE)
            found = () if draft is None else (draft.finish(),)
            yield Part(line=0, offset=offset, found=found)
        except Malformed as error:
            yield Part(line=0, offset=offset, problem=f"trace {trace}: {error}")
