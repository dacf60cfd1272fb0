"""The formats in which models write tool calls, and which of them a chat template uses.

Models of one family share their format. A model's name does not tell its family, but its chat
template does, since it shows the model its own calls. To add a format, write a `read_*` function,
make it a `Section`, and add the section to `TEMPLATE_SECTIONS`.
"""

import ast
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from practicum.core.conversation import CutCall
from practicum.core.tool_calls import DECODER, MAX_CALL_LEN, MalformedCall
from practicum.core.trace import ToolCall, ToolSpec
from practicum.engine.chat.chat_template import TemplateTraits, ThinkingTags

ReadCalls = Callable[[str, Sequence[ToolSpec]], list[ToolCall]]
"""Parses the text of a section into calls, or raises `MalformedCall`."""


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a turn that holds calls, between an opening and a closing tag."""

    opening: str
    closing: str | None
    """None if it goes on to the end of the turn."""
    read: ReadCalls


@dataclass(frozen=True, slots=True, kw_only=True)
class Markup:
    """Everything in a model's turns that is not content."""

    thinking: ThinkingTags | None
    opens_thinking: bool
    sections: tuple[Section, ...]
    bare_calls: bool
    """Whether a turn that is nothing but one JSON object may be a call."""
    many_calls: bool
    """Whether a turn may have several calls."""
    texts: frozenset[str]
    """All tags, some of which may be special tokens of the tokenizer."""


XML_FUNCTION = re.compile(r"<function=([^>\n]+)>(.*?)(?:</function>)?", re.DOTALL)
XML_PARAMETER = re.compile(r"<parameter=([^>\n]+)>\n?(.*?)\n?</parameter>", re.DOTALL)
NAMED_ARGUMENTS = re.compile(r"\s*([\w.-]+)(?:\[CALL_ID\]\w+)?(?:\[ARGS\])?\s*(?=\{)")
DEEPSEEK_CALL = re.compile(
    r"<｜tool▁call▁begin｜>(.*?)<｜tool▁sep｜>(.*?)<｜tool▁call▁end｜>", re.DOTALL
)
JSON_FENCE = re.compile(r"\s*([\w.-]+)\s*```json\s*(.*?)\s*```\s*", re.DOTALL)
BUILT_IN = re.compile(r"\s*([\w-]+)\.call(\(.*\))\s*", re.DOTALL)


def read_json_calls(body: str, tools: Sequence[ToolSpec]) -> list[ToolCall]:
    """JSON objects with `name` and `arguments`: one, a list, or several separated by `;`.

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
    """Inside `<tool_call>`: JSON, or `<function=NAME><parameter=KEY>value</parameter>...`."""
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
    """After `[TOOL_CALLS]`: a JSON list, or `NAME[ARGS]{...}` once or more."""
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
    """Calls in DeepSeek's tags: `function`, separator, name and fenced JSON; or name and JSON."""
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
    """Python calls, one per line, with or without `print(...)` around them. Nothing is executed.

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
    """After `<|python_tag|>`: JSON, or `name.call(argument=value)`."""
    built_in = BUILT_IN.fullmatch(body)
    if built_in is not None:
        return read_python_call(built_in[1] + built_in[2], tools)
    return read_json_calls(body, tools)


CUT_CALLS = (
    re.compile(r'"name"\s*:\s*"(?P<name>(?:[^"\\]|\\.)*)"(?P<rest>.*)', re.DOTALL),
    re.compile(r"<function=(?P<name>[^>\n]+)>(?P<rest>)"),
    re.compile(r"<｜tool▁sep｜>(?P<name>[\w.-]+)\s*```json\s*(?P<rest>.*)", re.DOTALL),
    re.compile(r"\s*(?P<name>[\w.-]+)(?:\[CALL_ID\]\w+)?\[ARGS\](?P<rest>.*)", re.DOTALL),
)
"""Calls that end before they are whole, in every format, from the tool's name on."""
ARGUMENTS_AT = re.compile(r'"(?:arguments|parameters)"\s*:\s*')


def read_cut_call(body: str, tools: Sequence[ToolSpec]) -> CutCall | None:
    """The last call of a section that was cut off; None where its tool is not known yet.

    >>> read_cut_call('{"name": "ls", "arguments": {"at": "/tm', [ToolSpec(name="ls")])
    CutCall(name='ls', arguments='{"at": "/tm')
    """
    for pattern in CUT_CALLS:
        found = pattern.search(_short_enough(body))
        if found is None or all(tool.name != found["name"] for tool in tools):
            continue
        at = ARGUMENTS_AT.search(found["rest"])
        text = found["rest"][at.end() :] if at else found["rest"].lstrip()
        if not text.startswith("{"):
            return CutCall(name=found["name"], arguments="")
        try:
            _, end = DECODER.raw_decode(text)  # whole, but for the call's own end
        except (ValueError, RecursionError):
            end = len(text)
        return CutCall(name=found["name"], arguments=text[:end])
    return None


TAGGED = Section("<tool_call>", "</tool_call>", read_tagged)
PYTHON_TAG = Section("<|python_tag|>", None, read_python_tag)
MISTRAL = Section("[TOOL_CALLS]", None, read_mistral)
PHI = Section("<|tool_call|>", "<|/tool_call|>", read_json_calls)
DEEPSEEK = Section("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>", read_deepseek)
FENCES = (
    Section("```tool_code\n", "\n```", read_python_call),
    Section("```tool_call\n", "\n```", read_json_calls),
    Section("```json\n", "\n```", read_json_calls),
)

TEMPLATE_SECTIONS: tuple[tuple[str, tuple[Section, ...]], ...] = (
    ("<tool_call>", (TAGGED,)),
    ("<|python_tag|>", (PYTHON_TAG,)),
    ("<|start_header_id|>", (PYTHON_TAG,)),
    ("[TOOL_CALLS]", (MISTRAL,)),
    ("<|tool_call|>", (PHI,)),
    ("<|tool|>", (PHI,)),
    ("<｜tool▁calls▁begin｜>", (DEEPSEEK,)),
    ("tool_code", FENCES),
    ("<start_of_turn>", FENCES),
)
"""If a template's source contains the text, its model writes calls in these sections."""

INNER = (
    "[ARGS]",
    "[CALL_ID]",
    "<｜tool▁call▁begin｜>",
    "<｜tool▁call▁end｜>",
    "<｜tool▁sep｜>",
)
"""Tags inside a section."""


def markup_of(source: str, traits: TemplateTraits) -> Markup:
    """The markup of the model whose template has this source."""
    known = [sections for text, sections in TEMPLATE_SECTIONS if text in source]
    found = dict.fromkeys(section for sections in known for section in sections)
    if not found or not traits.takes_tools:
        # Either the tools are described as text, which asks for this format, or the template's own
        # format is unknown.
        found[TAGGED] = None
    tags = traits.thinking
    outer = [text for section in found for text in (section.opening, section.closing)]
    thinking = [tags.opening, tags.closing] if tags is not None else []
    return Markup(
        thinking=tags,
        opens_thinking=traits.opens_thinking,
        sections=tuple(found),
        bare_calls=PYTHON_TAG in found or not traits.takes_tools,
        # A template without tools gets calls as text, of which there may be any number.
        many_calls=traits.takes_many_calls or not traits.takes_tools,
        texts=frozenset(text for text in (*outer, *INNER, *thinking) if text),
    )


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
    """The value of a `<parameter>`, which is written without quotes, in its schema's type."""
    kind = schema.get("type") if isinstance(schema, Mapping) else None
    if kind in (None, "string"):
        return text
    try:
        return DECODER.decode(text)
    except (ValueError, RecursionError):
        return text  # checking arguments is the tool's task


def _python_call(line: ast.stmt, tools: Sequence[ToolSpec]) -> ToolCall:
    call = line.value if isinstance(line, ast.Expr | ast.Assign) else None
    match call:
        case ast.Call(func=ast.Name(id="print"), args=[printed], keywords=[]):
            call = printed
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


def _json_value(text: str) -> tuple[Any, str]:
    """The JSON at the start of a text, and what follows it."""
    text = text.lstrip()
    try:
        value, end = DECODER.raw_decode(text)
    except (ValueError, RecursionError) as error:
        raise MalformedCall(f"the call is not valid JSON ({error!s:.120})") from None
    return value, text[end:].lstrip()


def _short_enough(body: str) -> str:
    if len(body) > MAX_CALL_LEN:
        raise MalformedCall(f"the call is {len(body)} characters long; {MAX_CALL_LEN} are allowed")
    return body
