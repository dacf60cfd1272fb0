"""The forms in which models write tool calls, each read from the text between its marks."""

import ast
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from practicum.core.tool_calls import DECODER, LONGEST_CALL, MalformedCall
from practicum.core.trace import ToolCall, ToolSpec

__all__ = [
    "ReadCalls",
    "read_deepseek",
    "read_json_calls",
    "read_mistral",
    "read_python_call",
    "read_python_tag",
    "read_tagged",
]

ReadCalls = Callable[[str, Sequence[ToolSpec]], list[ToolCall]]
"""Reads the calls in a text, or raises `MalformedCall`."""

XML_FUNCTION = re.compile(r"<function=([^>\n]+)>(.*?)(?:</function>)?", re.DOTALL)
XML_PARAMETER = re.compile(r"<parameter=([^>\n]+)>\n?(.*?)\n?</parameter>", re.DOTALL)
NAMED_ARGUMENTS = re.compile(r"\s*([\w.-]+)(?:\[CALL_ID\]\w+)?(?:\[ARGS\])?\s*(?=\{)")
DEEPSEEK_CALL = re.compile(
    r"<｜tool▁call▁begin｜>(.*?)<｜tool▁sep｜>(.*?)<｜tool▁call▁end｜>", re.DOTALL
)
JSON_FENCE = re.compile(r"\s*([\w.-]+)\s*```json\s*(.*?)\s*```\s*", re.DOTALL)
BUILT_IN = re.compile(r"\s*([\w-]+)\.call(\(.*\))\s*", re.DOTALL)


def read_json_calls(body: str, tools: Sequence[ToolSpec]) -> list[ToolCall]:
    """Objects that name a tool and its arguments: one, a list, or several with `;` between.

    >>> read_json_calls('{"name": "ls", "parameters": {}}', [ToolSpec(name="ls")])
    [ToolCall(name='ls', arguments={}, id='')]
    """
    values: list[Any] = []
    rest = _short_enough(body).strip()
    while rest:
        value, rest = _json_value(rest)
        values += value if isinstance(value, list) else [value]
        rest = rest.removeprefix(";").lstrip()
    if not values:
        raise MalformedCall('there is no call; write {"name": ..., "arguments": {...}}')
    return [_call(value, tools) for value in values]


def read_tagged(body: str, tools: Sequence[ToolSpec]) -> list[ToolCall]:
    """What stands between `<tool_call>` and `</tool_call>`: JSON, or a function in tags."""
    if not body.lstrip().startswith("<function="):
        return read_json_calls(body, tools)
    function = XML_FUNCTION.fullmatch(_short_enough(body).strip())
    if function is None:
        raise MalformedCall("the function is not closed; write <function=NAME>...</function>")
    name, inside = function[1].strip(), function[2]
    left = XML_PARAMETER.sub("", inside).strip()
    if left:
        raise MalformedCall(f"{left!r:.80} is not a <parameter=NAME>value</parameter>")
    schema = _properties(_known(name, tools))
    arguments: dict[str, Any] = {}
    for key, value in XML_PARAMETER.findall(inside):
        if key in arguments:
            raise MalformedCall(f"the parameter {key!r:.80} is given twice")
        arguments[key] = _typed(value, schema.get(key))
    return [ToolCall(name=name, arguments=arguments)]


def read_mistral(body: str, tools: Sequence[ToolSpec]) -> list[ToolCall]:
    """What follows `[TOOL_CALLS]`: a list, or names each with `[ARGS]` and an object."""
    if body.lstrip().startswith(("[", "{")):
        return read_json_calls(body, tools)
    calls: list[ToolCall] = []
    rest = _short_enough(body)
    while rest.strip():
        named = NAMED_ARGUMENTS.match(rest)
        if named is None:
            raise MalformedCall(f"{rest!r:.80} is not a name with its arguments")
        arguments, rest = _json_value(rest[named.end() :])
        calls.append(_call({"name": named[1], "arguments": arguments}, tools))
        rest = rest.lstrip().removeprefix("[TOOL_CALLS]")
    if not calls:
        raise MalformedCall("there is no call after [TOOL_CALLS]")
    return calls


def read_deepseek(body: str, tools: Sequence[ToolSpec]) -> list[ToolCall]:
    """Calls between their own marks: `function`, the name and fenced JSON, or name and JSON."""
    calls: list[ToolCall] = []
    for first, second in DEEPSEEK_CALL.findall(_short_enough(body)):
        fenced = JSON_FENCE.fullmatch(second)
        name, text = (fenced[1], fenced[2]) if fenced else (first.strip(), second)
        calls.append(_call({"name": name, "arguments": text}, tools))
    left = DEEPSEEK_CALL.sub("", body).strip()
    if left or not calls:
        raise MalformedCall(f"{left!r:.80} is not a whole call")
    return calls


def read_python_call(body: str, tools: Sequence[ToolSpec]) -> list[ToolCall]:
    """Calls as Python writes them, one a line, with or without `print` around them.

    >>> tool = ToolSpec(name="add", parameters={"properties": {"a": {}, "b": {}}})
    >>> read_python_call("print(add(1, b=[2, 3]))", [tool])[0].arguments
    {'a': 1, 'b': [2, 3]}
    """
    try:
        lines = ast.parse(_short_enough(body).strip()).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise MalformedCall("the call is not Python; write name(argument=value)") from None
    if not lines:
        raise MalformedCall("there is no call; write name(argument=value)")
    return [_python_call(line, tools) for line in lines]


def read_python_tag(body: str, tools: Sequence[ToolSpec]) -> list[ToolCall]:
    """What follows `<|python_tag|>`: JSON, or `name.call(argument=value)`."""
    built_in = BUILT_IN.fullmatch(body)
    if built_in is not None:
        return read_python_call(built_in[1] + built_in[2], tools)
    return read_json_calls(body, tools)


def _call(value: Any, tools: Sequence[ToolSpec]) -> ToolCall:
    if isinstance(value, dict) and isinstance(value.get("function"), dict):
        value = value["function"]
    if not isinstance(value, dict):
        raise MalformedCall('the call is not an object; write {"name": ..., "arguments": {...}}')
    name = value.get("name")
    _known(name, tools)
    arguments = value.get("arguments", value.get("parameters", {}))
    if isinstance(arguments, str):  # some models write the arguments as JSON inside a string
        arguments, rest = _json_value(arguments)
        if rest:
            raise MalformedCall(f"{rest!r:.80} follows the arguments")
    if not isinstance(arguments, dict):
        raise MalformedCall('"arguments" is not an object; write {"argument": value}')
    return ToolCall(name=str(name), arguments=arguments)


def _known(name: Any, tools: Sequence[ToolSpec]) -> ToolSpec:
    for tool in tools:
        if tool.name == name:
            return tool
    known = ", ".join(tool.name for tool in tools)
    raise MalformedCall(f"there is no tool {name!r:.80}; the tools are {known}")


def _properties(tool: ToolSpec) -> Mapping[str, Any]:
    properties = tool.parameters.get("properties")
    return properties if isinstance(properties, Mapping) else {}


def _typed(text: str, schema: Any) -> Any:
    """A value that was written without quotes, as its schema says."""
    kind = schema.get("type") if isinstance(schema, Mapping) else None
    if kind in (None, "string"):
        return text
    try:
        return DECODER.decode(text)
    except (ValueError, RecursionError):
        return text  # the tool says what is wrong with it


def _python_call(line: ast.stmt, tools: Sequence[ToolSpec]) -> ToolCall:
    call = line.value if isinstance(line, ast.Expr | ast.Assign) else None
    if isinstance(call, ast.Call) and _is_print(call):
        call = call.args[0]
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        raise MalformedCall("the line is not a call; write name(argument=value)")
    tool = _known(call.func.id, tools)
    names = list(_properties(tool))
    if len(call.args) > len(names):
        raise MalformedCall(f"{tool.name} takes {len(names)} arguments")
    given = [*zip(names, call.args, strict=False), *((k.arg, k.value) for k in call.keywords)]
    arguments: dict[str, Any] = {}
    for name, node in given:
        if name is None or name in arguments:
            raise MalformedCall(f"the argument {name!r} is not given once by its name")
        try:
            value = ast.literal_eval(node)
            json.dumps(value, allow_nan=False)
        except (ValueError, TypeError, RecursionError):
            raise MalformedCall(f"the argument {name!r:.80} is not a plain value") from None
        arguments[name] = value
    return ToolCall(name=tool.name, arguments=arguments)


def _is_print(call: ast.Call) -> bool:
    is_print = isinstance(call.func, ast.Name) and call.func.id == "print"
    return is_print and len(call.args) == 1 and not call.keywords


def _json_value(text: str) -> tuple[Any, str]:
    """The JSON at the start of a text, and what follows it."""
    text = text.lstrip()
    try:
        value, end = DECODER.raw_decode(text)
    except (ValueError, RecursionError) as error:
        raise MalformedCall(f"the call is not valid JSON ({error!s:.120})") from None
    return value, text[end:].lstrip()


def _short_enough(body: str) -> str:
    if len(body) > LONGEST_CALL:
        raise MalformedCall(f"the call is {len(body)} characters long; {LONGEST_CALL} are allowed")
    return body
