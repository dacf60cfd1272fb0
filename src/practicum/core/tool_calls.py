r"""Tool calls as text: reading, checking against the tools, and writing.

Two forms are read, both with a JSON object that names the tool and its arguments:

    <tool_call>
    {"name": "bash", "arguments": {"script": "ls /tmp"}}
    </tool_call>

and the bare object. What is wrong with a call is a `MalformedCall` whose sentence is shown to the
model, so that it can try again.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from practicum.core.trace import ToolCall, ToolSpec

TAGGED = re.compile(r"<tool_call>\s*(.*?)\s*(?:</tool_call>|\Z)", re.DOTALL)
MAX_CALL_LEN = 100_000
"""Characters; longer calls are refused before they are parsed."""


class MalformedCall(Exception):
    """What is wrong with a call, in one sentence for the model."""


def read_tool_call(text: str, tools: Sequence[ToolSpec]) -> ToolCall:
    """The first call in a turn, its arguments checked against the tool's schema.

    >>> spec = ToolSpec(name="bash", parameters={"properties": {"script": {"type": "string"}}})
    >>> read_tool_call('{"name": "bash", "arguments": {"script": "ls"}}', [spec]).arguments
    {'script': 'ls'}
    """
    body = _call_body(text)
    if len(body) > MAX_CALL_LEN:
        raise MalformedCall(f"the call is {len(body)} characters long; {MAX_CALL_LEN} are allowed")
    call = _parse_object(body)
    name = call.get("name")
    _find_tool(name, tools)
    arguments = call.get("arguments", call.get("parameters", {}))
    if isinstance(arguments, str):  # some models write the arguments as JSON inside a string
        arguments = _parse_object(arguments)
    if not isinstance(arguments, dict):
        raise MalformedCall('"arguments" is not an object; write {"argument": value}')
    return check_call(ToolCall(name=str(name), arguments=arguments), tools)


def check_call(call: ToolCall, tools: Sequence[ToolSpec]) -> ToolCall:
    """The call itself; raises `MalformedCall` where no tool takes such arguments.

    >>> check_call(ToolCall(name="go"), [ToolSpec(name="stop")])
    Traceback (most recent call last):
    practicum.core.tool_calls.MalformedCall: there is no tool 'go'; the tools are stop
    """
    _check_arguments(_find_tool(call.name, tools), call.arguments)
    return call


def _find_tool(name: object, tools: Sequence[ToolSpec]) -> ToolSpec:
    known = {tool.name: tool for tool in tools}
    if not isinstance(name, str) or name not in known:
        raise MalformedCall(f"there is no tool {name!r:.80}; the tools are {', '.join(known)}")
    return known[name]


def write_tool_call(call: ToolCall) -> str:
    r"""A call as `read_tool_call` reads it.

    >>> write_tool_call(ToolCall(name="finish"))
    '<tool_call>\n{"name": "finish", "arguments": {}}\n</tool_call>'
    """
    return f"<tool_call>\n{call_as_json(call)}\n</tool_call>"


def call_as_json(call: ToolCall) -> str:
    """A call as a JSON object, without tags."""
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


def _parse_object(body: str) -> dict[str, Any]:
    try:
        value, _ = DECODER.raw_decode(body.lstrip())
    except (ValueError, RecursionError) as error:
        reason = f"{error!s:.120}"
        raise MalformedCall(f"the call is not valid JSON ({reason}); write it again") from None
    if not isinstance(value, dict):
        raise MalformedCall('the call is not an object; write {"name": ..., "arguments": {...}}')
    return value


def _refuse_nan(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key is given twice")
    return found


DECODER = json.JSONDecoder(
    parse_constant=_refuse_nan, object_pairs_hook=_refuse_duplicates, strict=False
)
"""JSON as models write it: raw line breaks in strings are read, NaN and duplicate keys are not."""

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
        # In Python True is an int; in JSON Schema it is not.
        is_bool_for_number = isinstance(value, bool) and kind in ("integer", "number")
        if expected and (not isinstance(value, expected) or is_bool_for_number):
            raise MalformedCall(f"the argument {name!r} of {tool.name} is not a {kind}")
