"""Turns that must call a tool: the JSON they are held to, and the call read back from it."""

import json
from collections.abc import Sequence
from typing import Any

from practicum.core.tool_calls import MalformedCall, read_tool_call
from practicum.core.trace import ToolCall, ToolSpec

__all__ = ["call_schema", "read_bare_call"]


def call_schema(tools: Sequence[ToolSpec]) -> dict[str, Any]:
    """The schema of a JSON object that calls one of some tools.

    >>> call_schema([ToolSpec(name="finish")])["properties"]["name"]
    {'const': 'finish'}
    """
    forms = [
        {
            "type": "object",
            "properties": {
                "name": {"const": tool.name},
                "arguments": dict(tool.parameters) or {"type": "object", "maxProperties": 0},
            },
            "required": ["name", "arguments"],
            "additionalProperties": False,
        }
        for tool in tools
    ]
    return forms[0] if len(forms) == 1 else {"anyOf": forms}


def read_bare_call(text: str, tools: Sequence[ToolSpec]) -> ToolCall | None:
    """The call that a JSON object makes; None where it was cut off before its end."""
    try:
        json.loads(text)
        call = read_tool_call(text, tools)
    except (MalformedCall, ValueError):
        return None
    return ToolCall(name=call.name, arguments=call.arguments, id="call_0")
