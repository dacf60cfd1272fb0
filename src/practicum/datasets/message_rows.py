"""Messages and tools as they stand in files: the form of OpenAI's chat format, which TRL reads."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from practicum.core.trace import Message, Role, ToolCall, ToolSpec

__all__ = [
    "RowFault",
    "read_messages",
    "read_shown",
    "read_tools",
    "write_message",
    "write_tool",
]

ROLES: Mapping[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}


class RowFault(Exception):
    """What is wrong with a row, as the end of a sentence that begins with its place."""


def write_message(message: Message, *, learned: bool = True) -> dict[str, Any]:
    """A message as it is written; one of an assistant that is not learned from weighs 0.

    The arguments of calls are JSON inside a string, as OpenAI's are, so that all rows have the
    same columns.
    """
    row: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.tool_calls:
        row["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": _dump(dict(call.arguments))},
            }
            for call in message.tool_calls
        ]
    if message.tool_call_id is not None:
        row["tool_call_id"] = message.tool_call_id
    if message.reasoning:
        row["reasoning_content"] = message.reasoning
    if message.is_error:
        row["is_error"] = True
    if not learned:
        row["weight"] = 0
    return row


def write_tool(tool: ToolSpec) -> dict[str, Any]:
    """A tool as it is written."""
    function = {
        "name": tool.name,
        "description": tool.description,
        "parameters": dict(tool.parameters),
    }
    return {"type": "function", "function": function}


def read_messages(value: object, column: str, role: Role) -> tuple[Message, ...]:
    """The messages of a column; a plain text is one message of `role`."""
    if isinstance(value, str):
        return (Message(role=role, content=value),)
    if not isinstance(value, Sequence) or not value:
        raise RowFault(f"{column!r} is neither a text nor a list of messages")
    return tuple(_read_message(item, column) for item in value)


def read_shown(value: object) -> list[int]:
    """Places of the messages that weigh 0, as OpenAI writes what is not to be learned from."""
    if isinstance(value, str) or not isinstance(value, Sequence):
        return []
    return [
        place
        for place, item in enumerate(value)
        if isinstance(item, Mapping) and item.get("weight") == 0
    ]


def read_tools(value: object) -> tuple[ToolSpec, ...]:
    """The tools of a row, as a list or as JSON inside a string."""
    if isinstance(value, str):
        value = _load(value, "'tools'")
    if value is None:
        return ()
    if not isinstance(value, Sequence):
        raise RowFault("'tools' is not a list")
    return tuple(_read_tool(item) for item in value)


def _read_message(item: object, column: str) -> Message:
    if not isinstance(item, Mapping):
        raise RowFault(f"a message of {column!r} is not an object")
    said = item.get("role", item.get("from"))
    role = ROLES.get(said) if isinstance(said, str) else None
    if role is None:
        raise RowFault(f"a message of {column!r} is from {said!r}, not one of {', '.join(ROLES)}")
    calls = item.get("tool_calls")
    if calls is not None and not isinstance(calls, Sequence):
        raise RowFault(f"'tool_calls' in {column!r} is not a list")
    answered = item.get("tool_call_id")
    return Message(
        role=role,
        content=_read_content(item.get("content", item.get("value")), column),
        tool_calls=tuple(_read_call(call, column) for call in calls or ()),
        tool_call_id=None if answered is None else str(answered),
        reasoning=str(item.get("reasoning_content") or ""),
        is_error=bool(item.get("is_error")),
    )


def _read_content(content: object, column: str) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, Sequence):
        raise RowFault(f"the content of a message of {column!r} is not a text")
    texts: list[str] = []
    for part in content:
        text = part.get("text") if isinstance(part, Mapping) else None
        if not isinstance(text, str):
            raise RowFault(f"a message of {column!r} has a part that is not text")
        texts.append(text)
    return "".join(texts)


def _read_call(call: object, column: str) -> ToolCall:
    function = call.get("function", call) if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        raise RowFault(f"a tool call of {column!r} has no name")
    arguments = function.get("arguments")
    if isinstance(arguments, str):
        arguments = _load(arguments, "the arguments of a tool call")
    if not isinstance(arguments, Mapping | None):
        raise RowFault("the arguments of a tool call are not an object")
    name = call.get("id") if isinstance(call, Mapping) else None
    return ToolCall(name=function["name"], arguments=dict(arguments or {}), id=str(name or ""))


def _read_tool(item: object) -> ToolSpec:
    function = item.get("function", item) if isinstance(item, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        raise RowFault("a tool has no name")
    parameters = function.get("parameters")
    return ToolSpec(
        name=function["name"],
        description=str(function.get("description") or ""),
        parameters=dict(parameters) if isinstance(parameters, Mapping) else {},
    )


def _load(text: str, what: str) -> Any:
    try:
        return json.loads(text or "null")
    except ValueError as error:
        raise RowFault(f"{what} is not valid JSON ({error})") from None


def _dump(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
