r"""Tool calls as models write them.

Two forms are read, both with a JSON object that names the tool and its arguments:

    <tool_call>
    {"name": "bash", "arguments": {"script": "ls /tmp"}}
    </tool_call>

and the bare object. What is not a call, or cannot be read, is said in a sentence that the model
can be told, so that it can write the call again.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from practicum.core.trace import ToolCall, ToolSpec

__all__ = [
    "DECODER",
    "LONGEST_CALL",
    "MalformedCall",
    "call_as_json",
    "check_call",
    "read_tool_call",
    "tools_as_text",
    "write_tool_call",
]

TAGGED = re.compile(r"<tool_call>\s*(.*?)\s*(?:</tool_call>|\Z)", re.DOTALL)
LONGEST_CALL = 100_000
"""Characters of a call that are read; longer ones are refused before they are parsed."""


class MalformedCall(Exception):
    """What is wrong with a call, as one sentence for the model."""


def read_tool_call(text: str, tools: Sequence[ToolSpec]) -> ToolCall:
    """The first call in what the model wrote, its arguments checked against the tool.

    >>> spec = ToolSpec(name="bash", parameters={"properties": {"script": {"type": "string"}}})
    >>> read_tool_call('{"name": "bash", "arguments": {"script": "ls"}}', [spec]).arguments
    {'script': 'ls'}
    """
    body = _call_body(text)
    if len(body) > LONGEST_CALL:
        raise MalformedCall(f"the call is {len(body)} characters long; {LONGEST_CALL} are allowed")
    asked = _object(body)
    name = asked.get("name")
    _known(name, tools)
    arguments = asked.get("arguments", asked.get("parameters", {}))
    if isinstance(arguments, str):  # some models write the arguments as JSON inside a string
        arguments = _object(arguments)
    if not isinstance(arguments, dict):
        raise MalformedCall('"arguments" is not an object; write {"argument": value}')
    return check_call(ToolCall(name=str(name), arguments=arguments), tools)


def check_call(call: ToolCall, tools: Sequence[ToolSpec]) -> ToolCall:
    """The call itself, or a `MalformedCall` where no such tool takes such arguments.

    >>> check_call(ToolCall(name="go"), [ToolSpec(name="stop")])
    Traceback (most recent call last):
    practicum.core.tool_calls.MalformedCall: there is no tool 'go'; the tools are stop
    """
    _check_arguments(_known(call.name, tools), call.arguments)
    return call


def _known(name: object, tools: Sequence[ToolSpec]) -> ToolSpec:
    known = {tool.name: tool for tool in tools}
    if not isinstance(name, str) or name not in known:
        raise MalformedCall(f"there is no tool {name!r:.80}; the tools are {', '.join(known)}")
    return known[name]


def write_tool_call(call: ToolCall) -> str:
    r"""A call in the form that `read_tool_call` reads.

    >>> write_tool_call(ToolCall(name="finish"))
    '<tool_call>\n{"name": "finish", "arguments": {}}\n</tool_call>'
    """
    return f"<tool_call>\n{call_as_json(call)}\n</tool_call>"


def call_as_json(call: ToolCall) -> str:
    """A call as a JSON object alone."""
    return json.dumps({"name": call.name, "arguments": dict(call.arguments)}, ensure_ascii=False)


def tools_as_text(tools: Sequence[ToolSpec]) -> str:
    """The tools and how to call one, for a model whose chat template does not show tools."""
    listed = "\n".join(
        json.dumps(
            {
                "name": tool.name,
                "description": tool.description,
                "parameters": dict(tool.parameters),
            },
            ensure_ascii=False,
        )
        for tool in tools
    )
    form = write_tool_call(ToolCall(name="NAME", arguments={"ARGUMENT": "VALUE"}))
    return f"These tools can be called:\n{listed}\n\nCall one by writing:\n{form}"


def _call_body(text: str) -> str:
    tagged = TAGGED.search(text)
    if tagged is not None:
        return tagged[1]
    start = text.find("{")
    if start < 0:
        example = write_tool_call(ToolCall(name="NAME", arguments={}))
        raise MalformedCall(f"no tool was called; write {example}")
    return text[start:]


def _object(body: str) -> dict[str, Any]:
    try:
        value, _ = DECODER.raw_decode(body.lstrip())
    except (ValueError, RecursionError) as error:
        reason = f"{error!s:.120}"
        raise MalformedCall(f"the call is not valid JSON ({reason}); write it again") from None
    if not isinstance(value, dict):
        raise MalformedCall('the call is not an object; write {"name": ..., "arguments": {...}}')
    return value


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key is given twice")
    return found


DECODER = json.JSONDecoder(parse_constant=_no_constant, object_pairs_hook=_once, strict=False)
"""JSON as models write it: line breaks inside strings are read; NaN and keys given twice not."""

KINDS: Mapping[str, type | tuple[type, ...]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "array": list,
    "object": dict,
}


def _check_arguments(tool: ToolSpec, arguments: Mapping[str, Any]) -> None:
    properties = tool.parameters.get("properties")
    known = properties if isinstance(properties, Mapping) else {}
    required = tool.parameters.get("required")
    for name in required if isinstance(required, list) else []:
        if name not in arguments:
            raise MalformedCall(f"{tool.name} needs the argument {name!r}")
    for name, value in arguments.items():
        schema = known.get(name)
        if not isinstance(schema, Mapping):
            allowed = ", ".join(known) or "none"
            raise MalformedCall(f"{tool.name} has no argument {name!r:.80}; it takes {allowed}")
        kind = schema.get("type")
        expected = KINDS.get(kind) if isinstance(kind, str) else None
        is_number_for_bool = isinstance(value, bool) and kind in ("integer", "number")
        if expected and (not isinstance(value, expected) or is_number_for_bool):
            raise MalformedCall(f"the argument {name!r} of {tool.name} is not a {kind}")
