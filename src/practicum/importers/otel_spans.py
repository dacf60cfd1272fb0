"""The spans of one OpenTelemetry trace as one episode."""

import re
from typing import Any

from practicum.core.json_values import as_json
from practicum.core.recorded import RecordedTree
from practicum.core.task import JSON
from practicum.core.trace import Failure, Message, StopReason, ToolSpec
from practicum.importers.chat import read_message, read_tools
from practicum.importers.records import Draft, Malformed
from practicum.importers.values import as_list, as_map, as_seconds, as_text, decode_json

__all__ = ["draft_of_spans", "span_time"]

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
    """The episode that a trace tells; None where no span of it is about a model."""
    facts = [_facts(span) for span in spans]
    tree = RecordedTree()
    tools: tuple[ToolSpec, ...] = ()
    model = ""
    spoke = False
    for span, known in zip(spans, facts, strict=True):
        history, said = _exchange(span, known)
        if not history and said is None:
            continue
        spoke = True
        model = model or as_text(
            known.get("gen_ai.response.model") or known.get("gen_ai.request.model")
        )
        tools = tools or read_tools(_value(known.get("gen_ai.tool.definitions")))
        history = _with_tool_errors(history, facts, spans)
        if said is None:
            tree.given(history)
        else:
            tree.turn(history, said, _duration(span))
    if not spoke:
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
    """Nanoseconds since the epoch, which JSON carries as text; 0 where there are none."""
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
    """A value of the protocol, which says its own kind."""
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
    """A structured value; some write it as JSON text."""
    return decode_json(value) if isinstance(value, str) and value[:1] in "[{" else value


def _exchange(span: dict[str, Any], facts: dict[str, Any]) -> tuple[list[Message], Message | None]:
    """What the model was given in a span, and what it said."""
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
    said = _messages(outputs[0]) if outputs else []
    return history, said[0] if said else None


def _messages(value: Any) -> list[Message]:
    given = as_map(value, "a message")
    if "parts" not in given:
        return [read_message(given, 0)]
    parts = as_list(given["parts"], "parts")
    return _messages_of_parts(as_text(given.get("role")) or "assistant", parts)


def _messages_of_parts(role: str, parts: list[Any]) -> list[Message]:
    """One message, or one for each answer of a tool."""
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
    said: Message | None = None
    for event in events:
        name, body = as_text(event.get("name")), _attributes(event)
        if name in EVENT_ROLES:
            history.append(_event_message({"role": EVENT_ROLES[name], **body}))
        elif name == CHOICE_EVENT and said is None:
            inner = as_map(_value(body.get("message")) or body, "message")
            said = _event_message({"role": "assistant", **inner})
    return history, said


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
    said = [message(row, "assistant") for _, row in sorted(rows["completion"].items())]
    return prompts, said[0] if said else None


def _with_tool_errors(
    history: list[Message], facts: list[dict[str, Any]], spans: list[dict[str, Any]]
) -> list[Message]:
    """Answers of tools whose own span failed, marked as such."""
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
    """The failure of a span that has no parent among these: of the whole."""
    names = {as_text(span.get("spanId")) for span in spans}
    for span in spans:
        if as_text(span.get("parentSpanId")) not in names and _status(span) in FAILED:
            said = as_text(as_map(span.get("status"), "status").get("message"))
            return Failure(kind="span", message=said[:500] or as_text(span.get("name")))
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
