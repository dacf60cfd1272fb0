"""Messages, tool calls and tools in OpenAI's format, read leniently."""

from typing import Any

from practicum.core.json_values import as_json
from practicum.core.task import JSON
from practicum.core.trace import Message, Role, ToolCall, ToolSpec
from practicum.traces.importers.lenient_json import as_list, as_map, as_text, decode_json
from practicum.traces.importers.records import Malformed

ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "agent": "assistant",
    "tool": "tool",
    "function": "tool",
}
UNPARSED = "unparsed"
"""Argument name for the text of call arguments that are not a JSON object."""


def read_message(value: Any, number: int) -> Message:
    """A chat message in OpenAI's format; `number` is its position, for error messages."""
    given = as_map(value, f"message {number}")
    role = ROLES.get(as_text(given.get("role")).lower())
    if role is None:
        raise Malformed(
            f"message {number} has the role {given.get('role')!r:.40}; known are "
            f"{', '.join(sorted(ROLES))}"
        )
    calls = [read_call(call, number) for call in as_list(given.get("tool_calls"), "tool_calls")]
    if given.get("function_call"):  # OpenAI's format before `tool_calls`
        calls.append(read_call({"function": given["function_call"]}, number))
    call_id = given.get("tool_call_id")
    return Message(
        role=role,
        content=read_content(given.get("content")),
        tool_calls=tuple(calls),
        tool_call_id=as_text(call_id) if call_id is not None else None,
        reasoning=read_content(given.get("reasoning_content") or given.get("reasoning")),
        is_error=given.get("is_error") is True,
    )


def read_content(content: Any) -> str:
    """The text of a message content: a string, or a list of parts; `[image]` for other parts."""
    if not isinstance(content, list):
        return as_text(content)
    pieces = []
    for part in content:
        if isinstance(part, dict) and isinstance(part.get("text"), str):
            pieces.append(part["text"])
        elif isinstance(part, dict):
            pieces.append(f"[{part.get('type', 'part')}]")
        else:
            pieces.append(as_text(part))
    return "\n".join(pieces)


def read_call(value: Any, number: int) -> ToolCall:
    """A tool call in OpenAI's format; arguments may be an object or JSON text."""
    call = as_map(value, f"a tool call of message {number}")
    function = as_map(call.get("function") or call, "function")
    name = as_text(function.get("name"))
    if not name:
        raise Malformed(f"a tool call of message {number} names no tool")
    return ToolCall(
        name=name, arguments=_arguments(function.get("arguments")), id=as_text(call.get("id"))
    )


def _arguments(value: Any) -> dict[str, JSON]:
    if isinstance(value, str):
        try:
            parsed = decode_json(value) if value.strip() else {}
        except Malformed:
            return {UNPARSED: value}
        value = parsed
    if value is None:
        return {}
    plain = as_json(value)
    return plain if isinstance(plain, dict) else {UNPARSED: as_text(plain)}


def read_tools(value: Any) -> tuple[ToolSpec, ...]:
    """Tools in OpenAI's request format, with or without the `function` wrapper."""
    found = []
    for entry in as_list(value, "tools"):
        given = as_map(entry, "a tool")
        function = as_map(given.get("function") or given, "a tool's function")
        parameters = as_json(as_map(function.get("parameters"), "parameters"))
        found.append(
            ToolSpec(
                name=as_text(function.get("name")),
                description=as_text(function.get("description")),
                parameters=parameters if isinstance(parameters, dict) else {},
            )
        )
    return tuple(found)
