import json

import pytest

from practicum.core.tool_calls import MalformedCall, read_tool_call, tools_as_text, write_tool_call
from practicum.core.trace import ToolCall, ToolSpec

BASH = ToolSpec(
    name="bash",
    description="Run commands.",
    parameters={
        "type": "object",
        "properties": {"script": {"type": "string"}, "seconds": {"type": "number"}},
        "required": ["script"],
    },
)
FINISH = ToolSpec(name="finish")
TOOLS = (BASH, FINISH)
LS = ToolCall(name="bash", arguments={"script": "ls"})
BODY = '{"name": "bash", "arguments": {"script": "ls"}}'


@pytest.mark.parametrize(
    "text",
    [
        BODY,
        f"I look around.\n{BODY}",
        f"<tool_call>\n{BODY}\n</tool_call>",
        f"<tool_call>{BODY}",
        f"<tool_call>{BODY}</tool_call> <tool_call>broken</tool_call>",
        f"{BODY}\n{BODY}",
        '{"name": "bash", "parameters": {"script": "ls"}}',
        '{"name": "bash", "arguments": "{\\"script\\": \\"ls\\"}"}',
    ],
    ids=["bare", "after-words", "tagged", "open-tag", "two-tags", "two", "parameters", "as-text"],
)
def test_a_call_is_read_in_each_form(text: str) -> None:
    assert read_tool_call(text, TOOLS) == LS


def test_line_breaks_inside_a_text_are_read() -> None:
    call = read_tool_call('{"name": "bash", "arguments": {"script": "cd /\nls"}}', TOOLS)
    assert call.arguments == {"script": "cd /\nls"}


def test_a_call_without_arguments_needs_none() -> None:
    assert read_tool_call('{"name": "finish"}', TOOLS) == ToolCall(name="finish")


def called(arguments: object, name: object = "bash") -> str:
    return json.dumps({"name": name, "arguments": arguments})


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no tool was called"),
        ("ls -l", "no tool was called"),
        ('{"name": "bash", "arguments": {"script": "ls",}}', "not valid JSON"),
        ('{"name": "bash"', "not valid JSON"),
        ('{"name": "bash", "name": "finish"}', "given twice"),
        ('{"name": "bash", "arguments": {"seconds": NaN}}', "NaN is not JSON"),
        ('{"name": "bash", "arguments": {"seconds": ' + "9" * 5000 + "}}", "not valid JSON"),
        ("{" + '"a":{' * 15_000, "not valid JSON"),
        ("<tool_call>[1, 2]</tool_call>", "not an object"),
        (called({}, "rm"), "there is no tool 'rm'; the tools are bash, finish"),
        (called({}, ""), "there is no tool ''"),
        (called({}, 3), "there is no tool 3"),
        ('{"arguments": {}}', "there is no tool None"),
        (called(["ls"]), '"arguments" is not an object'),
        (called({}), "bash needs the argument 'script'"),
        (called({"script": "ls", "user": "me"}), "bash has no argument 'user'; it takes script"),
        (called({"script": 3}), "'script' of bash is not a string"),
        (called({"script": "ls", "seconds": True}), "'seconds' of bash is not a number"),
        (called({"thought": "x"}, "finish"), "finish has no argument 'thought'; it takes none"),
        (called({"script": "x" * 100_001}), "characters long"),
    ],
)
def test_what_is_wrong_with_a_call_is_said_in_a_short_sentence(text: str, why: str) -> None:
    with pytest.raises(MalformedCall) as wrong:
        read_tool_call(text, TOOLS)
    assert why in str(wrong.value)
    assert len(str(wrong.value)) < 500


def test_what_is_written_is_read_back() -> None:
    odd = ToolCall(name="bash", arguments={"script": 'echo "</tool_cal>" \\ é\n'})
    assert read_tool_call(write_tool_call(odd), TOOLS) == odd


def test_tools_can_be_told_as_text() -> None:
    told = tools_as_text(TOOLS)
    assert '"name": "bash", "description": "Run commands."' in told
    assert "<tool_call>" in told
