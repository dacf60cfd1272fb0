"""Styles of tool calling for `ToolLoopAgent`: `TextCalls`, `NativeCalls` and `ReactCalls`.

In ReAct style a turn is

    Thought: the file must be listed first
    Action: bash
    Action Input: {"script": "ls /tmp"}

and the tool's result is shown as `Observation: ...`.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from practicum.core.sampling import Completion
from practicum.core.task import JSON
from practicum.core.tool_calls import MalformedCall, check_call, read_tool_call
from practicum.core.trace import Message, ToolCall, ToolSpec

ReadTurn = Callable[[Sequence[int], Sequence[ToolSpec]], Message]
"""Parses a sampled turn into a message with tool calls; see `HistoryCodec.read`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedCall:
    """A tool call of a turn, or why it is none."""

    call: ToolCall
    error: str = ""
    """Why it cannot be run, as a sentence for the model; empty for a valid call."""
    is_text: bool = False
    """Whether the turn has no call at all."""


class CallStyle(Protocol):
    """How tools are shown to the model, and how its calls are parsed."""

    def show_tools(
        self, messages: Sequence[Message], tools: tuple[ToolSpec, ...]
    ) -> tuple[list[Message], tuple[ToolSpec, ...]]:
        """The first messages, and the tools that the chat template shall list."""
        ...

    def parse_calls(self, completion: Completion, tools: Sequence[ToolSpec]) -> list[ParsedCall]:
        """The calls of a turn in order; at least one entry."""
        ...

    def show_result(self, message: Message, call: ToolCall) -> Message:
        """A tool's result as the model is shown it."""
        ...


class TextCalls:
    """The first JSON object of a turn is its call, with or without `<tool_call>` tags."""

    def show_tools(
        self, messages: Sequence[Message], tools: tuple[ToolSpec, ...]
    ) -> tuple[list[Message], tuple[ToolSpec, ...]]:
        """Unchanged: the chat template lists the tools."""
        return list(messages), tools

    def parse_calls(self, completion: Completion, tools: Sequence[ToolSpec]) -> list[ParsedCall]:
        """The one call, or the error."""
        try:
            return [ParsedCall(call=read_tool_call(completion.text, tools))]
        except MalformedCall as error:
            is_text = "{" not in completion.text and "<tool_call>" not in completion.text
            return [ParsedCall(call=ToolCall(name=""), error=str(error), is_text=is_text)]

    def show_result(self, message: Message, call: ToolCall) -> Message:
        """Unchanged."""
        return message


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeCalls(TextCalls):
    """Calls in the format of the model's chat template, any number per turn.

    A turn in which none is found is parsed as `TextCalls`, so that a model that gets the markup
    wrong is still understood, or shown an error.
    """

    read: ReadTurn

    def parse_calls(self, completion: Completion, tools: Sequence[ToolSpec]) -> list[ParsedCall]:
        """Every call of the turn, each checked by itself."""
        message = self.read(completion.token_ids, tools)
        if not message.tool_calls:
            return TextCalls.parse_calls(self, completion, tools)
        return [_checked(call, tools) for call in message.tool_calls]

    def show_result(self, message: Message, call: ToolCall) -> Message:
        """With the id of the call that it answers."""
        return replace(message, tool_call_id=call.id) if call.id else message


class ReactCalls:
    """ReAct: lines that begin with Thought, Action and Action Input; results are observations."""

    def show_tools(
        self, messages: Sequence[Message], tools: tuple[ToolSpec, ...]
    ) -> tuple[list[Message], tuple[ToolSpec, ...]]:
        """The format is explained in the system message, and the template lists no tools."""
        return with_react_rules(messages, tools), ()

    def parse_calls(self, completion: Completion, tools: Sequence[ToolSpec]) -> list[ParsedCall]:
        """The one action; `Final Answer` is a turn without one."""
        try:
            return [ParsedCall(call=read_react_call(completion.text, tools))]
        except MalformedCall as error:
            final = final_answer(completion.text)
            is_text = final is not None or "Action" not in completion.text
            return [ParsedCall(call=ToolCall(name=""), error=str(error), is_text=is_text)]

    def show_result(self, message: Message, call: ToolCall) -> Message:
        """As a user message after `Observation:`, since the template has no tools."""
        return Message(
            role="user", content=f"{OBSERVATION} {message.content}", is_error=message.is_error
        )


def _checked(call: ToolCall, tools: Sequence[ToolSpec]) -> ParsedCall:
    try:
        return ParsedCall(call=check_call(call, tools))
    except MalformedCall as error:
        return ParsedCall(call=call, error=str(error))


OBSERVATION = "Observation:"
"""Before a tool's result. A model that writes it itself is making the result up."""

ACTION = re.compile(r"^[ \t]*Action[ \t]*:[ \t]*(\S.*?)[ \t]*$", re.MULTILINE)
INPUT = re.compile(r"^[ \t]*Action Input[ \t]*:[ \t]*", re.MULTILINE)
FINAL = re.compile(r"^[ \t]*Final Answer[ \t]*:[ \t]*(.*)\Z", re.MULTILINE | re.DOTALL)
HINT = "write a line `Action: NAME` and a line `Action Input: JSON OBJECT`"


def react_rules(tools: Sequence[ToolSpec]) -> str:
    """The description of the tools and of the format, for the system message."""
    listed = "\n".join(
        f"{tool.name}: {tool.description} "
        f"Input: {json.dumps(dict(tool.parameters), ensure_ascii=False)}"
        for tool in tools
    )
    return (
        f"You can use these tools:\n{listed}\n\n"
        "Write each step in this form:\n"
        "Thought: what you think\n"
        "Action: the name of one tool\n"
        "Action Input: a JSON object with its arguments\n"
        f"Then stop. You will be shown the answer after `{OBSERVATION}`."
    )


def with_react_rules(messages: Sequence[Message], tools: Sequence[ToolSpec]) -> list[Message]:
    """The first messages with the rules at the end of the system message."""
    rules = react_rules(tools)
    if messages and messages[0].role == "system":
        first = Message(role="system", content=f"{messages[0].content}\n\n{rules}")
        return [first, *messages[1:]]
    return [Message(role="system", content=rules), *messages]


def read_react_call(text: str, tools: Sequence[ToolSpec]) -> ToolCall:
    r"""The first action of a turn, before any `Observation:` that the model made up.

    >>> tool = ToolSpec(name="add", parameters={"properties": {"n": {"type": "integer"}}})
    >>> read_react_call('Thought: one more\nAction: add\nAction Input: {"n": 1}', [tool]).arguments
    {'n': 1}
    """
    own = text.partition(f"\n{OBSERVATION}")[0]
    action = ACTION.search(own)
    if action is None:
        raise MalformedCall(f"no tool was called; {HINT}")
    name = action[1].strip("`*'\"")
    given = INPUT.search(own, action.end())
    body = own[given.end() :].strip() if given else ""
    return check_call(ToolCall(name=name, arguments=_arguments(name, body, tools)), tools)


def final_answer(text: str) -> str | None:
    r"""The text after `Final Answer:`, if the turn has no action.

    >>> final_answer("Thought: done\nFinal Answer: 42")
    '42'
    """
    found = FINAL.search(text)
    return None if found is None or ACTION.search(text) else found[1].strip()


def _arguments(name: str, body: str, tools: Sequence[ToolSpec]) -> Mapping[str, JSON]:
    """The action input as arguments; plain text becomes the tool's only string argument."""
    body = re.sub(r"\A```(?:json)?\s*|\s*```\Z", "", body)
    if not body:
        return {}
    if body.startswith("{"):
        try:
            value, _ = json.JSONDecoder(strict=False).raw_decode(body)
        except (ValueError, RecursionError) as error:
            raise MalformedCall(f"the input is not valid JSON ({error!s:.120}); {HINT}") from None
        if isinstance(value, dict):
            return value
    only = _only_text_argument(name, tools)
    if only is None:
        raise MalformedCall(f"the input is not a JSON object; {HINT}")
    return {only: body}


def _only_text_argument(name: str, tools: Sequence[ToolSpec]) -> str | None:
    for tool in tools:
        properties = tool.parameters.get("properties") if tool.name == name else None
        if isinstance(properties, Mapping) and len(properties) == 1:
            ((argument, schema),) = properties.items()
            if isinstance(schema, Mapping) and schema.get("type") == "string":
                return argument
    return None
