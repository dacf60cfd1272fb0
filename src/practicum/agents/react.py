r"""Tool calls in the ReAct form: a thought, the name of a tool, and its input.

    Thought: the file must be listed first
    Action: bash
    Action Input: {"script": "ls /tmp"}

The tool's answer comes back as `Observation: ...`.
"""

import json
import re
from collections.abc import Mapping, Sequence

from practicum.core.task import JSON
from practicum.core.tool_calls import MalformedCall, check_call
from practicum.core.trace import Message, ToolCall, ToolSpec

__all__ = ["OBSERVATION", "final_answer", "react_rules", "read_react_call", "with_react_rules"]

OBSERVATION = "Observation:"
"""Stands before what a tool answered; a model that writes it itself is making the answer up."""

ACTION = re.compile(r"^[ \t]*Action[ \t]*:[ \t]*(\S.*?)[ \t]*$", re.MULTILINE)
INPUT = re.compile(r"^[ \t]*Action Input[ \t]*:[ \t]*", re.MULTILINE)
FINAL = re.compile(r"^[ \t]*Final Answer[ \t]*:[ \t]*(.*)\Z", re.MULTILINE | re.DOTALL)
HOW = "write a line `Action: NAME` and a line `Action Input: JSON OBJECT`"


def react_rules(tools: Sequence[ToolSpec]) -> str:
    """What the model is told of the tools and of the form."""
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
    """The opening messages with the rules at the end of the system message."""
    rules = react_rules(tools)
    if messages and messages[0].role == "system":
        first = Message(role="system", content=f"{messages[0].content}\n\n{rules}")
        return [first, *messages[1:]]
    return [Message(role="system", content=rules), *messages]


def read_react_call(text: str, tools: Sequence[ToolSpec]) -> ToolCall:
    r"""The first action of a turn; what follows an `Observation:` the model made up is not read.

    >>> tool = ToolSpec(name="add", parameters={"properties": {"n": {"type": "integer"}}})
    >>> read_react_call('Thought: one more\nAction: add\nAction Input: {"n": 1}', [tool]).arguments
    {'n': 1}
    """
    own = text.partition(f"\n{OBSERVATION}")[0]
    action = ACTION.search(own)
    if action is None:
        raise MalformedCall(f"no tool was called; {HOW}")
    name = action[1].strip("`*'\"")
    given = INPUT.search(own, action.end())
    body = own[given.end() :].strip() if given else ""
    return check_call(ToolCall(name=name, arguments=_arguments(name, body, tools)), tools)


def final_answer(text: str) -> str | None:
    r"""What stands after `Final Answer:`, where the turn has no action.

    >>> final_answer("Thought: done\nFinal Answer: 42")
    '42'
    """
    found = FINAL.search(text)
    return None if found is None or ACTION.search(text) else found[1].strip()


def _arguments(name: str, body: str, tools: Sequence[ToolSpec]) -> Mapping[str, JSON]:
    """The input as arguments; plain text is taken for a tool's only text argument."""
    body = re.sub(r"\A```(?:json)?\s*|\s*```\Z", "", body)
    if not body:
        return {}
    if body.startswith("{"):
        try:
            value, _ = json.JSONDecoder(strict=False).raw_decode(body)
        except (ValueError, RecursionError) as error:
            raise MalformedCall(f"the input is not valid JSON ({error!s:.120}); {HOW}") from None
        if isinstance(value, dict):
            return value
    only = _only_text_argument(name, tools)
    if only is None:
        raise MalformedCall(f"the input is not a JSON object; {HOW}")
    return {only: body}


def _only_text_argument(name: str, tools: Sequence[ToolSpec]) -> str | None:
    for tool in tools:
        properties = tool.parameters.get("properties") if tool.name == name else None
        if isinstance(properties, Mapping) and len(properties) == 1:
            ((argument, schema),) = properties.items()
            if isinstance(schema, Mapping) and schema.get("type") == "string":
                return argument
    return None
